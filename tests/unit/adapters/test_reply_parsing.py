"""Tolerant about form, strict about content, never completing what was cut off."""

from __future__ import annotations

import pytest

from facet_dagster.adapters.reply_parsing import (
    DEEPEST,
    LONGEST,
    REPAIRABLE,
    RawReply,
    objects,
    parse,
    received,
    split_reasoning,
)
from facet_dagster.domain.outcome import Value


class Tool(Value):
    tool: str
    uses: int = 1


def read(text: str, **fields: str) -> Tool | str:
    parsed = parse(RawReply(text=text, **fields), Tool)
    return parsed.problem if parsed.value is None else parsed.value


@pytest.mark.parametrize(
    ("text", "tool", "uses"),
    [
        pytest.param('{"tool": "wc", "uses": 2}', "wc", 2, id="plain"),
        pytest.param('```json\n{"tool": "wc"}\n```', "wc", 1, id="fenced"),
        pytest.param('Here it is (as you said, "JSON"):\n\n{"tool": "wc"}\nBye!', "wc", 1, id="prose around"),
        pytest.param('{"tool": "wc", "uses": 2,}', "wc", 2, id="trailing comma"),
        pytest.param("{'tool': 'wc', 'uses': 2}", "wc", 2, id="single quotes"),
        pytest.param('{"tool": "a\nb"}', "a\nb", 1, id="raw line break in a text"),
        pytest.param('{"tool": "a {", "uses": 2}', "a {", 2, id="brace in a text"),
        pytest.param('{"tool": "a \\" }", "uses": 2}', 'a " }', 2, id="escaped quote before a brace"),
        pytest.param('{"tool": "echo "hi" there", "uses": 2}', 'echo "hi" there', 2, id="unescaped quotes"),
        pytest.param('{"tool": "wc", "uses": "2"}', "wc", 2, id="number as text"),
        pytest.param('{"tool": "a"} {"tool": "longer", "uses": 3}', "longer", 3, id="two objects: the larger"),
        pytest.param('{"thought": "something long and wordy"} {"tool": "wc"}', "wc", 1, id="the larger does not fit"),
        pytest.param('{"tool": "a", "uses": 12,} {"tool": "b"}', "b", 1, id="valid JSON before repaired JSON"),
        pytest.param("use {braces} so: {'tool': 'wc',}", "wc", 1, id="braces in prose"),
        pytest.param('[{"tool": "wc"}]', "wc", 1, id="inside a list"),
    ],
)
def test_form_is_forgiven(text: str, tool: str, uses: int) -> None:
    assert read(text) == Tool(tool=tool, uses=uses)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "the reply was empty", id="empty"),
        pytest.param(" \n", "the reply was empty", id="blank"),
        pytest.param("I would rather not.", "no JSON object", id="prose"),
        pytest.param("[1, 2]", "no JSON object", id="list"),
        pytest.param('{"uses": 2}', "tool: Field required", id="missing field"),
        pytest.param('{"tool": ["wc"]}', "tool: Input should be a valid string", id="wrong type"),
        pytest.param('{"tool": "wc", "extra": 1}', "extra: Extra inputs", id="unknown field"),
        pytest.param('{"tool": "wc", "uses": {"n": 1}}', "uses: Input should be a valid integer", id="nested"),
        pytest.param('{"tool": "w\\u0000c"}', "a NUL character", id="NUL"),
        pytest.param('{"tool": "\\ud800"}', "half a surrogate pair", id="lone surrogate"),
        pytest.param('{"\\u0000": "wc"}', "a NUL character", id="NUL in a name"),
        pytest.param('{"tool": "wc", "uses": ' + "9" * 5000 + "}", "", id="a number too long to read"),
    ],
)
def test_content_is_not_forgiven(text: str, problem: str) -> None:
    said = read(text)
    assert isinstance(said, str)
    assert said
    assert problem in said


@pytest.mark.parametrize(
    "text",
    [
        '{"tool": "wc", "uses": 2',
        '{"tool": "wc and so',
        '{"tool": "wc", "uses": [{"n": 1}',
        '```json\n{"tool": "wc",\n```',
        'text {"tool": {"a": "}"}',
        '{"tool": "5" disk", "uses": 2}',
    ],
)
def test_a_reply_that_may_have_been_cut_off_is_never_completed(text: str) -> None:
    said = read(text)
    assert isinstance(said, str)
    assert "never closed" in said


@pytest.mark.parametrize(("finish", "word"), [("length", "max_tokens"), ("content_filter", "content filter")])
def test_a_stop_that_is_not_the_models_own_is_a_problem_even_when_the_text_parses(finish: str, word: str) -> None:
    said = read('{"tool": "wc"}', finish=finish)
    assert isinstance(said, str)
    assert word in said


def test_a_reply_over_two_megabytes_is_refused_and_kept_bounded() -> None:
    raw = received('{"tool": "' + "x" * 5_000_000 + '"}')
    assert len(raw.text) == LONGEST + 1
    assert "longer than 2,000,000 characters" in parse(raw, Tool).problem


def test_a_large_valid_reply_is_read() -> None:
    assert read('{"tool": "' + "x" * 1_500_000 + '"}') == Tool(tool="x" * 1_500_000)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 1_000_000,
        "{" * 900_000 + "}" * 900_000,
        '{"a":' * 150_000 + "1" + "}" * 150_000,
        '{"tool": ' + '"' * 500_000 + "}",
        "{} " * 500_000,
        "{,} " * 400_000,
        '{"tool":' + "[" * 90_000 + "]" * 90_000 + "}",
        '"' * 1_000_000,
        "\\" * 1_000_000,
        "<think>" * 200_000,
        "{" * DEEPEST + "}" * DEEPEST,
        "{" + "," * (REPAIRABLE - 2) + "}",
    ],
    ids=range(12),
)
@pytest.mark.timeout(20)
def test_hostile_text_is_refused_in_bounded_time(text: str) -> None:
    assert parse(received(text), Tool).value is None


def test_many_wrong_fields_make_a_short_problem() -> None:
    text = "{" + ",".join(f'"f{n}": {n}' for n in range(500)) + "}"
    said = read(text)
    assert isinstance(said, str)
    assert len(said.splitlines()) == 11
    assert said.endswith("more")


def test_a_problem_never_quotes_the_input() -> None:
    said = read('{"tool": "wc", "uses": "SECRET-TEXT"}')
    assert isinstance(said, str)
    assert "SECRET-TEXT" not in said


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ('{"a": 1}', "", '{"a": 1}'),
        ('<think>\nhm\n</think>\n{"a": 1}', "hm", '\n{"a": 1}'),
        ('hm, {"b": 2}\n</think>{"a": 1}', 'hm, {"b": 2}', '{"a": 1}'),
        ("<think>never ends", "<think>never ends", ""),
        ('{"a": "<think>x</think>"}', "", '{"a": "<think>x</think>"}'),
        ('```\n{"a": "</think>"}\n```', "", '```\n{"a": "</think>"}\n```'),
    ],
)
def test_thoughts_are_split_from_the_answer(text: str, reasoning: str, answer: str) -> None:
    assert split_reasoning(text) == (reasoning, answer)


def test_an_object_inside_the_thoughts_is_not_the_answer() -> None:
    raw = received('<think>maybe {"tool": "something much longer"}</think>{"tool": "wc"}')
    assert parse(raw, Tool).value == Tool(tool="wc")
    assert "much longer" in raw.reasoning


def test_a_reply_of_thoughts_alone_says_so() -> None:
    assert parse(received("<think>hm"), Tool).problem == "the reply holds no text outside its reasoning"


def test_text_that_is_not_utf8_is_made_storable() -> None:
    received("a\ud800b", reasoning="\udfff").text.encode()
    assert received("a\ud800b").text == "a?b"


def test_objects_are_the_outermost_ones_longest_first() -> None:
    assert objects('x {"a": {}} y {} z {"b"') == (['{"a": {}}', "{}"], True)


def test_a_runaway_of_blanks_is_read_in_no_time() -> None:
    assert split_reasoning(" " * 2_000_000 + "x") == ("", " " * 2_000_000 + "x")
