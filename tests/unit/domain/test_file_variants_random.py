"""What holds for every file, tried on seeded random ones."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tomllib
from collections.abc import Callable
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from facet_dagster.domain.file_variants import equivalents, mutants

WORDS = ["ant", "bee", "caf\u00e9", "", "a, b", 'say "x"', "007", "12", "two words", "line\nbreak", "\u2028", "true"]


def value(rng: Random, depth: int = 3) -> Any:
    kind = rng.randrange(7 if depth else 5)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.randrange(-5, 2000)
    if kind == 2:
        return round(rng.uniform(-9, 9), rng.randrange(5))
    if kind < 5:
        return rng.choice(WORDS)
    items = [value(rng, depth - 1) for _ in range(rng.randrange(5))]
    return items if kind == 5 else {rng.choice(WORDS) + str(i): item for i, item in enumerate(items)}


def json_file(rng: Random) -> bytes:
    indent = rng.choice([None, 1, 2, 4, "\t"])
    text = json.dumps(value(rng), indent=indent, ensure_ascii=rng.random() < 0.5)
    return (text + rng.choice(["", "\n"])).encode()


def jsonl_file(rng: Random) -> bytes:
    ascii_only = rng.random() < 0.5
    values = [{"a": value(rng, 1), "b": value(rng, 0)} for _ in range(rng.randrange(1, 9))]
    lines = [json.dumps(item, ensure_ascii=ascii_only) for item in values]
    return "\n".join(lines).encode() + rng.choice([b"", b"\n"])


def csv_file(rng: Random) -> bytes:
    out = io.StringIO(newline="")
    style = {"lineterminator": rng.choice(["\n", "\r\n"]), "quoting": rng.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])}
    writer = csv.writer(out, **style)
    width = rng.randrange(2, 5)
    writer.writerows([[f"c{i}" for i in range(width)]])
    writer.writerows([[str(value(rng, 0)) for _ in range(width)] for _ in range(rng.randrange(6))])
    return out.getvalue().encode()


def yaml_file(rng: Random) -> bytes:
    items = {"x": value(rng), "y": [value(rng, 1) for _ in range(3)]}
    return yaml.safe_dump(
        items, allow_unicode=True, sort_keys=False, default_flow_style=rng.choice([None, False])
    ).encode()


def xml_file(rng: Random) -> bytes:
    root = ElementTree.Element("r")
    for _ in range(rng.randrange(1, 6)):
        item = ElementTree.SubElement(root, "i", n=str(rng.randrange(99)))
        item.text = rng.choice(["ant", "bee & co", "3.5", "<"])
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=rng.random() < 0.5)


def toml_file(rng: Random) -> bytes:
    lines = [
        f"k{i} = {rng.choice(['1', '2.5', 'true', json.dumps(rng.choice(WORDS[:2])), '[1, 2]'])}" for i in range(4)
    ]
    return ("# c\n[t]\n" + "\n".join(lines) + rng.choice(["", "\n"])).encode()


def rows(data: bytes) -> Any:
    return [row for row in csv.reader(io.StringIO(data.decode(), newline="")) if any(row)]


def lines(data: bytes) -> Any:
    return [json.loads(line) for line in data.decode().split("\n") if line.strip()]


def typed(data: bytes) -> str:
    """Tells True from 1."""
    return json.dumps(json.loads(data), sort_keys=True)


FORMATS: list[tuple[str, Callable[[Random], bytes], Callable[[bytes], Any]]] = [
    ("a.json", json_file, typed),
    ("a.jsonl", jsonl_file, lines),
    ("a.csv", csv_file, rows),
    ("a.yaml", yaml_file, lambda data: repr(yaml.safe_load(data))),
    ("a.xml", xml_file, lambda data: ElementTree.canonicalize(data.decode(), strip_text=True)),
    ("a.toml", toml_file, lambda data: tomllib.loads(data.decode())),
    ("a.json.gz", lambda rng: gzip.compress(json_file(rng)), lambda data: typed(gzip.decompress(data))),
]


@pytest.mark.parametrize(("name", "make", "parse"), FORMATS, ids=[name for name, _, _ in FORMATS])
def test_mutants_say_something_else_and_equivalents_the_same(
    name: str, make: Callable[[Random], bytes], parse: Callable[[bytes], Any]
) -> None:
    told = 0
    for seed in range(150):
        rng = Random(f"{name} {seed}")
        data, path, ordered = make(rng), f"{seed}/{name}", rng.random() < 0.5
        made = mutants(path, data, ordered=ordered)
        assert made == mutants(path, data, ordered=ordered)
        assert 1 <= len(made) <= 3
        assert len({variant.id for variant in made}) == len({variant.data for variant in made}) == len(made)
        for variant in made:
            if variant.kind != "empty":
                told += 1
                assert parse(variant.data or b"") != parse(data), variant
        for variant in equivalents(path, data):
            assert variant.data != data
            assert parse(variant.data or b"") == parse(data), variant
    assert told > 150


PIECES = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b",",
        b":",
        b"\n",
        b"\r\n",
        b"=",
        b"<a>",
        b"</a>",
        b"<",
        b"|",
        b"- ",
        b"&x ",
        b"*x",
    ),
    *(b"1", b"2.5", b"x", b"\xff", b"\0", b" ", b"#", b"'", b"\t", b"!!int ", b"\xc3\xa9", b"---", b"\\u"),
)
SUFFIXES = "json jsonl csv tsv yaml xml html md ini toml txt srt sh db gz sqlite env conf"


@pytest.mark.parametrize("suffix", SUFFIXES.split())
def test_no_bytes_raise(suffix: str) -> None:
    starts = [b"", b"", b"\x1f\x8b\x08\0", b"SQLite format 3\0", b"\xef\xbb\xbf", b"\xff\xfe"]
    for seed in range(150):
        rng = Random(f"{suffix} {seed}")
        data = rng.choice(starts) + b"".join(rng.choices(PIECES, k=rng.randrange(40)))
        before = b"".join(rng.choices(PIECES, k=5))
        made = mutants(f"a.{suffix}", data, before=before, ordered=True, tolerance=0.5)
        assert len(made) <= 3
        assert all(variant.data != data for variant in (*made, *equivalents(f"a.{suffix}", data)))
