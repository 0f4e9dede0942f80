"""The captured initial state: kinds of files, structure, marks, and the view that prompts get."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import sqlite3
import tarfile
import zipfile
from typing import Any

import pytest

from facet_dagster.domain.archive import ArchiveError, Member, pack, pack_members
from facet_dagster.domain.e0 import e0_from_archive, installed
from facet_dagster.domain.environment import E0, DiscriminatorRow, E0File, shorten
from facet_dagster.domain.formats import OPEN_LIMIT, decode
from facet_dagster.domain.ids import canonical, digest, to_json


def capture(files: dict[str, bytes], **more: Any) -> E0:
    return e0_from_archive(pack({f"app/{path}": data for path, data in files.items()}, folders=["app"]), **more)


def one(data: bytes, path: str = "x.txt", **more: Any) -> E0File:
    return next(file for file in capture({path: data}, **more).files if file.type == "file")


@pytest.mark.parametrize(
    ("data", "encoding", "newline", "final", "lines"),
    [
        (b"a\nb\n", "ascii", "lf", True, 2),
        ("é\n".encode(), "utf-8", "lf", True, 1),
        (b"\xef\xbb\xbfa\n", "utf-8-sig", "lf", True, 1),
        ("a\nb\n".encode("utf-16"), "utf-16", "lf", True, 2),
        (b"5 \x80 caf\xe9\n", "cp1252", "lf", True, 1),
        (b"a\r\nb\r\n", "ascii", "crlf", True, 2),
        (b"a\r\nb\n", "ascii", "mixed", True, 2),
        (b'{"a":1}\n{"a"', "ascii", "lf", False, 2),
        (b"single", "ascii", "none", False, 1),
        (b"", "ascii", "none", False, 0),
    ],
)
def test_text_is_described_by_its_bytes(data: bytes, encoding: str, newline: str, final: bool, lines: int) -> None:
    file = one(data)
    assert (file.encoding, file.newline, file.final_newline, file.lines) == (encoding, newline, final, lines)


@pytest.mark.parametrize("data", [b"\x00\x01\x02", b"\x89PNG\r\n\x1a\n\x00", b"\x81\x8d\x90", b"a\x07b"])
def test_control_bytes_make_a_file_binary_without_content(data: bytes) -> None:
    file = one(data)
    assert (file.encoding, file.content) == ("binary", "")


def test_a_cp1252_file_shows_its_text() -> None:
    assert one(b"5 \x80\n").content == "5 €\n"


def test_long_text_keeps_head_and_tail_and_says_so() -> None:
    file = one(b"".join(b"line %05d\n" % n for n in range(2_000)))
    assert file.truncated
    assert file.lines == 2_000
    assert file.content.startswith("line 00000\n")
    assert file.content.endswith("line 01999\n")
    assert "characters left out" in file.content


def test_structure_is_read_from_the_whole_content_and_not_from_what_is_shown() -> None:
    rows = [{"id": f"o-{n}", "cents": n} for n in range(2_000)]
    file = one(json.dumps({"orders": rows, "total": 7}).encode(), "x.json")
    assert file.truncated
    assert file.size > 50_000
    assert (file.inner["format"], "note" in file.inner) == ("json", False)
    assert set(file.inner["keys"]) == {"orders", "total"}


def test_mode_owner_size_and_hash_come_from_the_archive() -> None:
    e0 = e0_from_archive(pack_members({"app/run.sh": Member("file", 0o750, 1000, 1001, data=b"abc")}))
    file = e0.files[0]
    assert (file.path, file.mode, file.uid, file.gid, file.size) == ("/app/run.sh", "0750", 1000, 1001, 3)
    assert file.sha256 == digest(b"abc")


def test_links_are_data() -> None:
    e0 = e0_from_archive(pack_members({"app/l": Member("link", link="/etc/passwd"), "app/f": Member("file")}))
    assert [(f.path, f.type, f.content) for f in e0.files] == [
        ("/app/f", "file", ""),
        ("/app/l", "link", "/etc/passwd"),
    ]


def test_gzip_is_opened() -> None:
    text = "".join(f'{{"id":"e{n}","level":"{"warn" if n % 2 else "info"}"}}\n' for n in range(100))
    inner = one(gzip.compress(text.encode(), mtime=0), "logs.jsonl.gz").inner
    assert (inner["format"], inner["lines"], inner["records"]) == ("jsonl in gzip", 100, 100)
    assert inner["head"].startswith('{"id":"e0"')
    assert inner["tail"].endswith('"level":"warn"}\n')
    assert inner["columns"]["level"] == {"values": ["info", "warn"]}


def test_bzip2_is_opened() -> None:
    assert one(bz2.compress(b"a\n"), "x.bz2").inner["head"] == "a\n"


def test_a_decompression_bomb_is_read_up_to_the_limit_only() -> None:
    inner = one(gzip.compress(b"a" * (OPEN_LIMIT + 1_000_000), mtime=0), "bomb.gz").inner
    assert len(inner["head"]) == 1_200
    assert len(to_json(inner)) < 4_000


@pytest.mark.parametrize("data", [b"\x1f\x8b\x08\x00garbage\x00", b"PK\x03\x04garbage\x00"])
def test_damaged_archives_are_plain_binary(data: bytes) -> None:
    assert one(data, "x").encoding == "binary"


def test_zip_members_are_listed() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("in/a.txt"), "abc")
    assert one(buffer.getvalue(), "x.zip").inner == {
        "format": "zip",
        "members": [{"path": "in/a.txt", "bytes": 3}],
        "member_count": 1,
    }


@pytest.mark.parametrize(("packed", "kind"), [(False, "tar"), (True, "tar in gzip")])
def test_tar_members_are_listed(packed: bool, kind: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("in/a.txt")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    data = gzip.compress(buffer.getvalue(), mtime=0) if packed else buffer.getvalue()
    inner = one(data, "x.tar").inner
    assert (inner["format"], inner["members"]) == (kind, [{"path": "in/a.txt", "bytes": 3}])


def database(journal: str = "DELETE") -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, cents INTEGER)")
    connection.executemany("INSERT INTO orders VALUES (?, ?)", [(f"o-{n}", n * 100) for n in range(5)])
    connection.commit()
    data = connection.serialize()
    connection.close()
    return data if journal == "DELETE" else data[:18] + b"\x02\x02" + data[20:]


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_a_database_shows_schema_counts_and_first_rows(journal: str) -> None:
    table = one(database(journal), "x.db").inner["tables"][0]
    assert (table["name"], table["rows"], table["first"][0]) == ("orders", 5, ["o-0", 0])
    assert table["sql"].startswith("CREATE TABLE orders")


def test_a_damaged_database_is_a_note() -> None:
    inner = one(database()[:1000] + b"\xff" * 3000, "x.db").inner
    assert inner["format"] == "sqlite"
    assert "cannot be read" in inner["note"]


CSV = "id,state,amount\n" + "".join(f"r{n},{'open' if n % 3 else 'done'},{n * 1.5}\n" for n in range(40)) + "r40,,\nx\n"


def test_csv_columns_show_values_ranges_and_gaps() -> None:
    inner = one(CSV.encode(), "x.csv").inner
    assert inner["header"] == ["id", "state", "amount"]
    assert (inner["data_rows"], inner["rows_of_other_width"]) == (42, 1)
    assert inner["columns"]["state"] == {"empty": 1, "values": ["done", "open"]}
    assert inner["columns"]["amount"] == {"empty": 1, "distinct": 40, "min": 0.0, "max": 58.5}
    assert inner["columns"]["id"]["least"] == "r0"


@pytest.mark.parametrize(("path", "text", "delimiter"), [("x.csv", "a;b\n1;2\n", ";"), ("x.tsv", "a\tb\n1\t2\n", "\t")])
def test_other_delimiters_are_recognised(path: str, text: str, delimiter: str) -> None:
    inner = one(text.encode(), path).inner
    assert (inner["delimiter"], inner["header"]) == (delimiter, ["a", "b"])


def test_a_torn_json_line_is_counted() -> None:
    inner = one(b'{"a": 1}\n[2]\n{"a": ', "x.jsonl").inner
    assert (inner["records"], inner["lines_that_are_no_object"]) == (1, 2)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ('{"b": 1, "a": 2}', {"format": "json", "keys": ["b", "a"]}),
        ('[{"a": 1}, {}]', {"format": "json", "length": 2, "keys_of_first": ["a"]}),
        ("{", {"format": "json", "note": "does not parse"}),
        ("[" * 100_000, {"format": "json", "note": "does not parse"}),
    ],
)
def test_json_shows_its_top_level(text: str, facts: dict[str, Any]) -> None:
    assert one(text.encode(), "x.json").inner == facts


ROW = DiscriminatorRow(id="D1", path="x.txt", find="e-777")


def test_a_mark_is_found_beyond_the_preview() -> None:
    lines = [f"e-{n} value" for n in range(2_000)]
    file = one("\n".join(lines).encode(), rows=[ROW])
    assert "e-777 " not in file.content
    assert file.rows == {"D1": "e-777 value"}


def test_a_mark_is_found_inside_gzip_and_utf_16_and_databases() -> None:
    for data in (gzip.compress(b"a\ne-777,b\n", mtime=0), "a\ne-777,b\n".encode("utf-16"), b"\x00\ne-777,b\n\x00"):
        assert one(data, rows=[ROW]).rows == {"D1": "e-777,b"}


def test_a_mark_that_is_nowhere_is_left_out() -> None:
    assert one(b"e-77\n", rows=[ROW]).rows == {}


STATUS = """\
Package: mawk
Status: install ok installed
Version: 1.3.4

Package: jq
Status: deinstall ok config-files
Version: 1.6

Package: coreutils
Status: install ok installed
Version: 9.1
Description: many
 Package: not-a-package
"""


def status(text: str = STATUS) -> Member:
    return Member("file", data=text.encode(), mtime=1_700_000_000)


def test_installed_packages_are_those_that_dpkg_calls_installed() -> None:
    assert installed(STATUS) == {"mawk": "1.3.4", "coreutils": "9.1"}


def test_tools_are_those_of_installed_packages_and_python() -> None:
    e0 = capture({"a": b"x"}, status=status())
    assert (e0.package_versions, e0.snapshot_date) == ({"coreutils": "9.1", "mawk": "1.3.4"}, "2023-11-14")
    assert {"mawk", "python3", "sort"} <= set(e0.tools)
    assert "jq" not in e0.tools
    assert e0.tool_versions["mawk"] == "1.3.4"


def test_only_variables_that_change_the_work_are_kept() -> None:
    env = {"LANG": "C.UTF-8", "PATH": "/bin", "GPG_KEY": "x"}
    assert capture({"a": b"x"}, env=env).env == {"LANG": "C.UTF-8"}


def test_machine_facts_do_not_change_the_canonical_digest() -> None:
    one_machine = capture({"a": b"x"}, status=status(), image_id="sha256:1", base_image="b1")
    other = capture({"a": b"x"}, status=status(STATUS.replace("9.1", "9.7")), image_id="sha256:2", base_image="b2")
    assert one_machine != other
    assert digest(canonical(one_machine)) == digest(canonical(other))
    assert digest(canonical(one_machine.view())) == digest(canonical(other.view()))


def test_a_changed_file_changes_the_canonical_digest() -> None:
    assert digest(canonical(capture({"a": b"x"}))) != digest(canonical(capture({"a": b"y"})))


def test_the_view_is_bounded_and_cuts_the_longest_first() -> None:
    files = {f"big{n}.txt": b"0123456789abcde\n" * 350 for n in range(5)} | {"small.txt": b"short\n"}
    view = capture(files).view()
    shown = {file["path"]: file for file in view["files"]}
    assert shown["/app/small.txt"]["content"] == "short\n"
    assert shown["/app/small.txt"]["content_is_complete"]
    assert not shown["/app/big0.txt"]["content_is_complete"]
    assert len(json.dumps(view)) < 12_500


def test_facts_about_columns_stay_within_the_view_too() -> None:
    row = ",".join(f"value {n:02} of a rather long text in this cell" for n in range(20))
    table = (",".join(f"column_{n}" for n in range(20)) + "\n" + f"{row}\n" * 200).encode()
    view = capture({f"t{n}.csv": table for n in range(6)}).view()
    inner = view["files"][1]["inner"]
    assert len(json.dumps(view)) < 18_000
    assert inner["data_rows"] == 200
    assert inner["entries_left_out"] + len(inner["columns"]) == 20


def test_a_file_that_is_shown_whole_needs_few_facts() -> None:
    file = capture({"x.csv": CSV.encode()}).view()["files"][-1]
    assert file["content_is_complete"]
    assert len(json.dumps(file["inner"])) < 500


def test_the_view_shows_no_hashes_and_no_owners() -> None:
    file = capture({"a": b"x"}).view()["files"][-1]
    assert not {"sha256", "uid", "gid"} & set(file)


def test_the_view_lists_empty_folders_and_counts_what_it_leaves_out() -> None:
    archive = pack({f"app/d/f{n:03}": b"" for n in range(100)}, folders=["app", "app/d", "app/inbox"])
    view = e0_from_archive(archive).view()
    paths = [file["path"] for file in view["files"]]
    assert paths[:2] == ["/app", "/app/d/f000"]
    assert (len(paths), view["files_left_out"]) == (60, 42)
    assert "/app/inbox" in [f.path for f in e0_from_archive(archive).files]


@pytest.mark.parametrize(("text", "limit"), [("abc", 3), ("a" * 1_000, 1_000)])
def test_short_text_is_not_shortened(text: str, limit: int) -> None:
    assert shorten(text, limit) == text


def test_a_damaged_archive_is_an_error() -> None:
    with pytest.raises(ArchiveError):
        e0_from_archive(b"no archive")


def test_decoding_never_fails() -> None:
    for first in range(256):
        encoding, text = decode(bytes([first, 255, 254]))
        assert (text is None) == (encoding == "binary")


def test_the_view_leaves_one_content_out_and_gives_its_room_to_the_others() -> None:
    e0 = capture({"RULES.md": b"1. Sum.\n" * 500, **{f"{name}.csv": CSV.encode() * 300 for name in "xyz"}})
    whole = {f["path"]: f for f in e0.view()["files"]}
    view = {f["path"]: f for f in e0.view(leave_out="/app/RULES.md")["files"]}
    assert view["/app/RULES.md"]["content"] == ""
    assert view["/app/RULES.md"]["content_is_complete"] is False
    assert view["/app/RULES.md"]["size"] == whole["/app/RULES.md"]["size"]
    assert len(view["/app/x.csv"]["content"]) > len(whole["/app/x.csv"]["content"])
