from __future__ import annotations

import gzip
import json

import pytest

from facet_dagster.domain.file_variants import choose, equivalents, mutants, partials, trivial_attacks
from facet_dagster.domain.findings import Variant
from facet_dagster.domain.variants.edits import shifted

JSON = b'{\n  "total": 12.50,\n  "items": [\n    {"id": 1, "name": "ant"},\n    {"id": 2, "name": "bee"}\n  ]\n}\n'
CSV = b'id,name,price\r\n1,"a, b",1.50\r\n2,bee,2.50\r\n3,cat,3.00\r\n'
JSONL = b'{"id": 1, "s": "a"}\n{"id": 2, "s": "b"}\n{"id": 3, "s": "c"}\n{"id": 4, "s": '
YAML = b"# kept\nrules:\n  - alert: A\n    for: 5m\n  - alert: B\n    for: 6m\n  - alert: C\n    for: 7m\n"
XML = b'<?xml version="1.0"?>\n<!-- kept -->\n<r><i n="10">ant</i><i n="20">bee</i><i n="30">cat</i></r>\n'
HTML = b"<!DOCTYPE html><html><body><br><ul><li>ant</li><li>bee</li><li>cat</li></ul></body></html>\n"
MARKDOWN = (
    b"# Head 1\n\nThese words make one sentence with 12 numbers.\n\n- one\n- two\n\n| a | b |\n|--|--|\n| x | 1 |\n"
)
INI = b"[a]\nx = 1\ny = on\n; kept\n[b]\nx = 2\ny = off\n"
TOML = b'[a]\nx = 1\ny = "q"\n[b]\ny = "z"\n'
PROSE = b"This is a sentence with 12 words in it, more or less.\n\nAnother sentence follows it here now.\n"
LINES = b"ant\nbee\ncat"


def kinds(variants: tuple[Variant, ...]) -> list[str]:
    return [variant.kind for variant in variants]


def of(variants: tuple[Variant, ...], kind: str) -> bytes:
    data = next(variant.data for variant in variants if variant.kind == kind)
    assert data is not None
    return data


@pytest.mark.parametrize(
    ("path", "data", "wrong", "equal"),
    [
        ("a.json", JSON, {"number", "drop", "key", "text"}, {"indent", "sort_keys", "crlf", "final_newline"}),
        ("a.jsonl", JSONL, {"number", "drop", "key", "text"}, {"crlf", "final_newline"}),
        ("a.csv", CSV, {"number", "drop", "key", "text"}, {"quoted", "lf", "final_newline"}),
        ("a.yaml", YAML, {"drop", "key", "text", "null"}, {"crlf", "final_newline"}),
        ("a.xml", XML, {"number", "drop", "text"}, {"crlf", "final_newline"}),
        ("a.html", HTML, {"drop", "text", "null"}, {"crlf", "final_newline"}),
        ("a.md", MARKDOWN, {"number", "drop", "null"}, {"crlf", "final_newline"}),
        ("a.ini", INI, {"number", "drop", "text"}, {"crlf", "blanks", "final_newline"}),
        ("a.toml", TOML, {"number", "drop", "text"}, {"crlf", "blanks", "final_newline"}),
        ("a.txt", PROSE, {"empty"}, {"crlf", "blanks", "final_newline"}),
        ("b.txt", LINES, {"drop", "text", "null"}, {"crlf", "blanks", "final_newline"}),
        ("run.sh", b"#!/bin/sh\nls -l\n", {"drop", "null", "text", "empty"}, {"final_newline"}),
        ("a.bin", bytes(range(256)), {"empty"}, set()),
        ("empty.txt", b"", set(), set()),
    ],
)
def test_what_is_made_of_each_format(path: str, data: bytes, wrong: set[str], equal: set[str]) -> None:
    made = mutants(path, data)
    assert set(kinds(made)) <= wrong
    assert len(made) == min(3, len(wrong))
    assert set(kinds(equivalents(path, data))) == equal
    assert all(variant.id == f"mutant:{path}:{variant.kind}" for variant in made)


@pytest.mark.parametrize(
    ("raw", "tolerance", "new"),
    [
        ("1", 0, "3"),
        ("-1", 0, "1"),
        ("100", 0, "105"),
        ("100", 2, "120"),
        ("12.50", 0, "13.13"),
        ("0.5", 0, "0.6"),
        ("0.00", 0, "1.00"),
        ("1.0", 0.25, "3.5"),
        ('"12.50"', 0, '"13.13"'),
        ("007", 0, None),
        ("1.2.3", 0, None),
        ("1e300", 0, None),
    ],
)
def test_a_number_moves_out_of_every_tolerance(raw: str, tolerance: float, new: str | None) -> None:
    assert shifted(raw, tolerance) == new


def test_everything_else_in_the_file_stays_as_it_was() -> None:
    new = of(mutants("a.json", JSON), "number")
    changed = [(a, b) for a, b in zip(JSON.split(b"\n"), new.split(b"\n"), strict=True) if a != b]
    assert changed == [(b'  "total": 12.50,', b'  "total": 13.13,')]
    assert b"# kept" in of(mutants("a.yaml", YAML), "text")
    assert b"<!-- kept -->" in of(mutants("a.xml", XML), "number")
    assert b'"a, b"' in of(mutants("a.csv", CSV), "number")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_the_encoding_and_the_newline_are_kept(encoding: str) -> None:
    data = "name;n\r\ncaf\u00e9 \u20ac;10\r\nth\u00e9;20\r\nlait;30\r\n".encode(encoding)
    for variant in mutants("x.csv", data)[:1] + equivalents("x.csv", data)[:1]:
        assert variant.data is not None
        assert variant.data[:2] == data[:2] or variant.kind == "quoted"
        assert "\r\n" in variant.data.decode(encoding)


def test_gzip_holds_an_altered_file() -> None:
    made = mutants("x/a.csv.gz", gzip.compress(CSV))
    assert "number" in kinds(made)
    assert gzip.decompress(of(made, "number")) != CSV
    assert {"quoted", "recompressed"} <= set(kinds(equivalents("x/a.csv.gz", gzip.compress(CSV))))
    assert kinds(mutants("x.gz", gzip.compress(CSV)[:20])) == ["empty"]


def test_rows_change_places_only_when_the_order_counts() -> None:
    data = b'["ant", "bee", "cat", "dog"]'
    assert not {"swap", "reverse"} & set(kinds(mutants("a.json", data)))
    swapped = json.loads(of(mutants("a.json", data, ordered=True), "swap"))
    assert sorted(swapped) == ["ant", "bee", "cat", "dog"] != swapped


def test_the_initial_file_is_a_wrong_final_file_unless_it_says_the_same() -> None:
    assert kinds(mutants("a.json", JSON, before=b"{}"))[:2] == ["number", "before"]
    assert "before" not in kinds(mutants("a.json", JSON, before=JSON.replace(b"\n", b"\r\n")))
    assert kinds(mutants("a.md", PROSE, before=b"old\n", free_text=True)) == ["before", "empty"]


def test_sentences_and_their_numbers_are_left_alone() -> None:
    for seed in range(20):
        for variant in mutants(f"{seed}.md", MARKDOWN):
            assert variant.data is not None
            assert b"one sentence with 12 numbers" in variant.data
        for variant in mutants(f"{seed}.json", b'{"why": "It took us 12 days to see what was wrong here."}'):
            assert b"12 days" in (variant.data or b"") or variant.kind in ("key", "null", "empty")


def test_of_a_large_file_only_the_head_is_altered() -> None:
    data = b"id,n\n" + b"".join(b"a%d,10\n" % i for i in range(200_000))
    made = mutants("big.csv", data)
    assert "number" in kinds(made)
    assert of(made, "number").endswith(data[-1_000_000:])
    assert equivalents("big.csv", data) == ()
    assert kinds(mutants("big.json", b"[1]" + b" " * 3_000_000)) == ["empty"]


def test_files_take_turns_and_empty_ones_come_last() -> None:
    per_file = {path: mutants(path, data) for path, data in {"b.json": JSON, "a.txt": PROSE, "c.csv": CSV}.items()}
    chosen = choose(per_file)
    assert [variant.path for variant in chosen] == ["b.json", "c.csv"] * 3 + ["a.txt"]
    assert chosen == choose(dict(reversed(per_file.items())))
    assert choose(per_file, 2) == chosen[:2]
    assert choose({}) == choose(per_file, 0) == ()


def test_states_that_need_no_work() -> None:
    inputs = {"in.csv": CSV, "notes.txt": PROSE * 9}
    names = ["/app/out.csv", "report.json", "log.jsonl.gz"]
    attacks = dict(trivial_attacks(names, inputs, "Write `name,total` of all."))
    assert list(attacks) == ["empty", "input_copy", "bare", "bare_list", "instruction_words"]
    assert set(attacks["empty"].values()) == {b""}
    assert attacks["input_copy"] == {"out.csv": CSV, "report.json": PROSE * 9, "log.jsonl.gz": PROSE * 9}
    assert attacks["bare"]["out.csv"] == b"name,total\n"
    assert dict(trivial_attacks(names, inputs))["bare"]["out.csv"] == b"id,name,price\n"
    assert (attacks["bare"]["report.json"], attacks["bare_list"]["report.json"]) == (b"{}\n", b"[]\n")
    assert gzip.decompress(attacks["instruction_words"]["log.jsonl.gz"]) == b"Write `name,total` of all.\n"
    assert trivial_attacks([], inputs) == ()
    assert [(v.id, v.path, v.data) for v in partials(["/app/out.csv", "out.csv"])] == [
        ("partial:out.csv:removed", "out.csv", None)
    ]
