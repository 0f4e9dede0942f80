"""The tape file: strict to read, safe to append, canonical to write."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.adapters.tape import Tape, TapeEntry, TapeMeta, TapePin, TapeReply, line
from facet_dagster.adapters.tape_recorder import TapeRecorder
from facet_dagster.errors import ConfigError

META = TapeMeta(model="openai/m", how="by hand", made="2030-01-31", project="0.1.0")
PIN = TapePin(name="neighbours", subject="a", values=["b", "c"])


def reply(**changed: Any) -> TapeReply:
    fields: dict[str, Any] = {
        "call": "tool",
        "template": "t" * 64,
        "variables": "v" * 64,
        "inputs": {"note": "abc"},
        "attempt": 0,
        "turn": 0,
        "subject": "s",
        "reply": '{"tool": "wc"}',
        "prompt_tokens": 30,
        "completion_tokens": 4,
    }
    return TapeReply(**{**fields, **changed})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tapes" / "t.jsonl"


@pytest.fixture
def written(path: Path) -> Callable[..., Path]:
    def write(*rows: TapeEntry | str) -> Path:
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(row if isinstance(row, str) else line(row) for row in rows), encoding="utf-8")
        return path

    return write


def test_what_was_written_is_read_back(written: Callable[..., Path]) -> None:
    first, second = reply(), reply(turn=1, reply="ä\n\u2028", finish="length")
    tape = Tape.load(written(META, PIN, first, second))
    assert tape.meta == META
    assert tape.pins == {("neighbours", "a"): PIN}
    assert tape.reply(first.tape_key, 0) == first
    assert tape.reply(first.tape_key, 1) == second
    assert tape.reply(first.tape_key, 2) is None


def test_an_entry_is_one_line_with_sorted_keys() -> None:
    text = line(reply(reply="a\nb"))
    assert text.count("\n") == 1
    assert text.startswith('{"attempt":0,"call":"tool","completion_tokens":4,')


def test_a_missing_tape_says_what_to_set(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"t\.jsonl cannot be read \(No such file.*FACET_TAPE.*FACET_MODEL"):
        Tape.load(path)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("not json\n", "Invalid JSON"),
        ('{"kind":"song"}\n', "song"),
        ('{"kind":"pin","name":"n","subject":"s"}\n', "values: Field required"),
        (line(PIN)[:30], "Invalid JSON"),
        ("[]\n", "line"),
    ],
)
def test_a_damaged_line_is_named_by_its_number(written: Callable[..., Path], row: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Tape.load(written(META, PIN, "\n", row))
    assert "Line 4 of the tape" in str(caught.value)
    assert said in str(caught.value)


def test_bytes_that_are_not_utf8_are_damage(written: Callable[..., Path]) -> None:
    tape = written(META)
    tape.write_bytes(tape.read_bytes() + b'{"kind":"pin","name":"\xff","subject":"s","values":[]}\n')
    with pytest.raises(ConfigError, match="Line 2 of the tape"):
        Tape.load(tape)


@pytest.mark.parametrize("rows", [(), (PIN,), (reply(), META)])
def test_a_tape_starts_with_its_meta_line(written: Callable[..., Path], rows: tuple[TapeEntry, ...]) -> None:
    with pytest.raises(ConfigError, match="does not start with a"):
        Tape.load(written(*rows))


def test_the_canonical_text_does_not_depend_on_the_order_of_recording(written: Callable[..., Path]) -> None:
    rows = [reply(subject="b"), PIN, reply(variables="w" * 64), reply(variables="w" * 64, turn=1), reply(call="a")]
    one = Tape.load(written(META, *rows)).sorted_text()
    other = Tape.load(written(META, *reversed(rows))).sorted_text()
    assert one == other
    assert one.count("\n") == 6


def test_writing_makes_the_file_canonical(written: Callable[..., Path]) -> None:
    path = written(META, reply(), PIN)
    Tape.load(path).write(path)
    assert path.read_text() == line(META) + line(PIN) + line(reply())
    assert list(path.parent.iterdir()) == [path]


def test_recording_makes_the_folder_and_the_meta_line(path: Path) -> None:
    TapeRecorder(path, META).append(PIN)
    assert path.read_text() == line(META) + line(PIN)


def test_an_entry_with_a_known_key_is_not_written_twice(path: Path) -> None:
    recorder = TapeRecorder(path, META)
    recorder.append(reply())
    recorder.append(reply(subject="another who asks the same", reply="{}"))
    TapeRecorder(path, META.model_copy(update={"made": "2031-01-01"})).append(reply())
    assert path.read_text() == line(META) + line(reply())


def test_a_ranking_that_changed_is_added_and_counts(path: Path) -> None:
    changed = PIN.model_copy(update={"values": ["c"]})
    recorder = TapeRecorder(path, META)
    for pin in (PIN, PIN, changed, changed):
        recorder.append(pin)
    assert path.read_text() == line(META) + line(PIN) + line(changed)
    assert Tape.load(path).pins["neighbours", "a"] == changed


def test_a_half_line_of_a_killed_writer_is_cut(written: Callable[..., Path]) -> None:
    path = written(META, line(PIN)[:20])
    TapeRecorder(path, META).append(reply())
    assert path.read_text() == line(META) + line(reply())


def test_a_file_that_was_emptied_meanwhile_is_started_anew(path: Path) -> None:
    recorder = TapeRecorder(path, META)
    recorder.append(PIN)
    path.write_text("")
    recorder.append(PIN)
    assert path.read_text() == line(META) + line(PIN)


def test_recorders_that_share_a_file_write_each_entry_once(path: Path) -> None:
    recorders = [TapeRecorder(path, META) for _ in range(4)]
    entries = [reply(variables=f"{n:064d}") for n in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda pair: pair[0].append(pair[1]), [(r, e) for e in entries for r in recorders]))
    tape = Tape.load(path)
    assert sorted(tape.replies.values(), key=lambda r: r.variables) == entries
    assert path.read_text().count("\n") == 21


def test_a_damaged_tape_is_not_recorded_over(written: Callable[..., Path]) -> None:
    path = written(META, "garbage\n")
    with pytest.raises(ConfigError, match="Line 2"):
        TapeRecorder(path, META).append(PIN)
    assert path.read_text().endswith("garbage\n")


def test_a_tape_that_cannot_be_written_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="FACET_RECORD"):
        TapeRecorder(tmp_path, META).append(PIN)


@pytest.mark.parametrize("content", ["precious notes without an end of line", "precious\nnotes\n"])
def test_a_file_that_is_no_tape_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "notes").write_text(content)
    with pytest.raises(ConfigError):
        TapeRecorder(tmp_path / "notes", META).append(PIN)
    assert (tmp_path / "notes").read_text() == content
