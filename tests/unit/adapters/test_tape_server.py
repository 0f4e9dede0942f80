"""A tape for other programs: conversations by label and turn, checked by what the program showed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from facet_dagster.adapters.reply_parsing import RawReply
from facet_dagster.adapters.tape import Tape, TapeMeta
from facet_dagster.adapters.tape_diff import differences
from facet_dagster.adapters.tape_recorder import TapeRecorder
from facet_dagster.adapters.tape_server import Messages, TapeServer, normalised
from facet_dagster.errors import LLMError

META = TapeMeta(model="m", how="by hand", made="2030-01-31", project="0.1.0")
SCREEN = "agent@3f2a9c81b7de:/app$ ls /tmp/tmpab12\n2030-01-31 10:11:12 out.csv   \ndone in 0.31 s\n"
LATER = "agent@99aabbccddee:/app$ ls /tmp/tmpzz99\n\x1b[1m2031-02-01 23:59:01\x1b[0m out.csv\n\ndone in 12 s"


def talk(*shown: str) -> Messages:
    """The program's texts, with an answer between each two."""
    messages: Messages = []
    for text in shown:
        messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "ls"}]
    return messages[:-1]


def ask(client: TestClient, messages: Messages, model: str = "tape/trial-1", **headers: str) -> Any:
    return client.post("/v1/chat/completions", json={"model": model, "messages": messages}, headers=headers)


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Two turns of trial-1 and one of trial-2, recorded through the server."""
    path = tmp_path / "tape.jsonl"
    answers = iter(["ls", "cat x", "other"])
    server = TapeServer(
        Tape(META),
        recorder=TapeRecorder(path, META),
        upstream=lambda messages: RawReply(text=next(answers), prompt_tokens=len(messages), completion_tokens=1),
    )
    client = TestClient(server.app())
    assert ask(client, talk("start")).json()["choices"][0]["message"]["content"] == "ls"
    assert ask(client, talk("start", SCREEN)).json()["choices"][0]["message"]["content"] == "cat x"
    assert ask(client, talk("start"), "tape/trial-2").json()["choices"][0]["message"]["content"] == "other"
    assert ask(client, talk("start")).json()["choices"][0]["message"]["content"] == "ls", "asked once"
    return path


def test_a_recorded_conversation_is_served_again(tape: Path) -> None:
    client = TestClient(TapeServer(Tape.load(tape)).app())
    done = ask(client, talk("start", LATER)).json()
    assert done["choices"][0]["message"] == {"role": "assistant", "content": "cat x"}
    assert done["usage"] == {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["tape/trial-1", "tape/trial-2"]


def test_the_label_may_stand_in_the_key(tape: Path) -> None:
    client = TestClient(TapeServer(Tape.load(tape)).app())
    done = ask(client, talk("start"), "openai/gpt-5", authorization="Bearer label:trial-2")
    assert done.json()["choices"][0]["message"]["content"] == "other"


def test_content_in_parts_is_read(tape: Path) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "start"}]}]
    assert ask(TestClient(TapeServer(Tape.load(tape)).app()), messages).status_code == 200


def test_another_screen_is_an_error_and_in_lenient_mode_a_warning(tape: Path, caplog: pytest.LogCaptureFixture) -> None:
    shown = talk("start", "something else")
    refused = ask(TestClient(TapeServer(Tape.load(tape)).app()), shown)
    assert refused.status_code == 409
    assert "Turn 1 of trial-1: the program shows something else" in refused.json()["error"]["message"]
    allowed = ask(TestClient(TapeServer(Tape.load(tape), strict=False).app()), shown)
    assert allowed.json()["choices"][0]["message"]["content"] == "cat x"
    assert "something else" in caplog.text


@pytest.mark.parametrize(
    ("model", "shown", "said"),
    [
        ("tape/trial-1", ("start", SCREEN, "more"), "no turn 2 of trial-1; it holds 2"),
        ("tape/x", ("start",), "it holds 0"),
    ],
)
def test_a_missing_turn_is_an_error_that_names_it(tape: Path, model: str, shown: tuple[str, ...], said: str) -> None:
    refused = ask(TestClient(TapeServer(Tape.load(tape)).app()), talk(*shown), model)
    assert refused.status_code == 409
    assert said in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        b"[]",
        b'{"model": "x"}',
        b'{"model": "x", "messages": 3}',
        b'{"messages": "text"}',
        b'{"messages": {"a": 1}}',
        b'{"messages": [3]}',
        b"[" * 50_000,
        b'{"messages": [], "stream": true}',
    ],
)
def test_a_body_that_is_no_request(tape: Path, body: bytes) -> None:
    client = TestClient(TapeServer(Tape.load(tape)).app())
    assert client.post("/v1/chat/completions", content=body).status_code == 400


def test_trouble_of_the_model_is_passed_on(tmp_path: Path) -> None:
    def broken(messages: Messages) -> RawReply:
        raise LLMError(f"no answer to {len(messages)} messages")

    path = tmp_path / "t.jsonl"
    client = TestClient(TapeServer(Tape(META), recorder=TapeRecorder(path, META), upstream=broken).app())
    refused = ask(client, talk("start"))
    assert (refused.status_code, refused.json()["error"]["message"]) == (502, "no answer to 1 messages")
    assert not path.exists()


def test_what_differs_from_run_to_run_is_not_compared() -> None:
    assert normalised(SCREEN) == normalised(LATER)
    assert normalised("total 12") != normalised("total 13")


def test_differences_name_the_entries(tape: Path) -> None:
    old, new = Tape.load(tape), Tape.load(tape)
    assert differences(old, new) == []
    del new.turns["trial-2", 0]
    new.turns["trial-1", 1] = new.turns["trial-1", 1].model_copy(update={"reply": "x"})
    assert [(d.change, d.what) for d in differences(old, new)] == [
        ("removed", "turn 0 of trial-2"),
        ("changed", "turn 1 of trial-1"),
    ]
    assert [d.change for d in differences(new, old)] == ["added", "changed"]


def test_a_tape_with_turns_is_written_and_read_back(tape: Path, tmp_path: Path) -> None:
    Tape.load(tape).write(tmp_path / "again.jsonl")
    assert differences(Tape.load(tape), Tape.load(tmp_path / "again.jsonl")) == []


def test_a_long_line_of_blanks_is_normalised_in_no_time() -> None:
    assert normalised("a" + " " * 400_000 + "b\x1b]" * 1000).startswith("a ")
