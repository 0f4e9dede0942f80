"""A tape behind an OpenAI-compatible endpoint, for programs that are not ours, such as an agent harness.

A conversation is known by its label: the model's name (``tape/<label>``, or any other name as it is), or the API
key when that begins with ``label:``. A request's turn is the number of answers in it. What the program showed
last is normalised (colours, blanks at line ends, times, long hexadecimal ids and temporary names differ from run to
run) and must be what it was at the recording.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from facet_dagster.adapters.reply_parsing import RawReply
from facet_dagster.adapters.tape import Tape, TapeTurn
from facet_dagster.adapters.tape_recorder import TapeRecorder
from facet_dagster.domain.ids import digest
from facet_dagster.errors import FacetError

Messages = list[dict[str, Any]]
Upstream = Callable[[Messages], RawReply]
log = logging.getLogger(__name__)

_VARYING = (
    (re.compile(r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b]{0,1000}\x07"), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?\b"), "<time>"),
    (re.compile(r"\b\d\d:\d\d(:\d\d(\.\d+)?)?\b"), "<time>"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "<id>"),
    (re.compile(r"/tmp/[\w.-]+"), "<temporary>"),  # noqa: S108 - a text to look for
    (re.compile(r"\b\d+(\.\d+)?\s?(ms|s|seconds?)\b"), "<duration>"),
)


def normalised(screen: str) -> str:
    """``screen`` without what differs between two runs of the same commands."""
    for pattern, instead in _VARYING:
        screen = pattern.sub(instead, screen)
    lines = (line.rstrip() for line in screen.splitlines())
    return "\n".join(line for line in lines if line)


class TapeServer:
    """Answers from ``tape``. With ``recorder`` and ``upstream`` a turn that is not there is asked and recorded.

    ``strict``: a screen that differs from the recorded one is an error; otherwise a warning.
    """

    def __init__(
        self, tape: Tape, *, strict: bool = True, recorder: TapeRecorder | None = None, upstream: Upstream | None = None
    ) -> None:
        self._tape, self._strict = tape, strict
        self._recorder, self._upstream = recorder, upstream
        self._guards: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def app(self) -> Starlette:
        routes = [
            Route("/v1/chat/completions", self._complete, methods=["POST"]),
            Route("/v1/models", self._models),
        ]
        return Starlette(routes=routes)

    async def _models(self, request: Request) -> JSONResponse:
        del request
        labels = sorted({label for label, _ in self._tape.turns})
        return JSONResponse({"object": "list", "data": [{"id": f"tape/{x}", "object": "model"} for x in labels]})

    async def _complete(self, request: Request) -> JSONResponse:
        try:
            body = await request.json()
            messages = body["messages"]
            label = _label(str(body.get("model", "")), request.headers.get("authorization", ""), messages)
            turn = sum(message.get("role") == "assistant" for message in messages)
            screen = digest(normalised(_text(messages[-1]) if messages else ""))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return _error(400, "The body must be JSON with model and a list of messages.")
        if body.get("stream"):
            return _error(400, "A tape is not streamed: ask without stream.")
        try:
            entry = await run_in_threadpool(self._answer, label, turn, screen, messages)
        except FacetError as error:
            return _error(502, str(error))
        if isinstance(entry, str):
            return _error(409, entry)
        return JSONResponse(_completion(entry, str(body.get("model", ""))))

    def _answer(self, label: str, turn: int, screen: str, messages: Messages) -> TapeTurn | str:
        """The turn, or what is wrong. Of one conversation a turn is asked at a time, so that none is paid twice."""
        entry = self._tape.turns.get((label, turn))
        if entry is None:
            with self._guards[label]:
                entry = self._tape.turns.get((label, turn))
                if entry is None:
                    return self._record(label, turn, screen, messages)
        if entry.screen != screen:
            said = f"Turn {turn} of {label}: the program shows something else than when the tape was made"
            if self._strict:
                return f"{said}. Record it again, or serve it with --lenient."
            log.warning("%s.", said)
        return entry

    def _record(self, label: str, turn: int, screen: str, messages: Messages) -> TapeTurn | str:
        if self._recorder is None or self._upstream is None:
            known = [t for name, t in self._tape.turns if name == label]
            return f"The tape holds no turn {turn} of {label}; it holds {len(known)} of its turns. Record it again."
        raw = self._upstream(messages)
        entry = TapeTurn(
            label=label,
            turn=turn,
            screen=screen,
            reply=raw.text,
            finish=raw.finish,
            prompt_tokens=raw.prompt_tokens,
            completion_tokens=raw.completion_tokens,
        )
        self._recorder.append(entry)
        self._tape.turns[label, turn] = entry
        return entry


def _label(model: str, authorization: str, messages: Messages) -> str:
    key = authorization.removeprefix("Bearer ").strip()
    label = key.removeprefix("label:") if key.startswith("label:") else model.removeprefix("tape/")
    if not label.endswith("-*"):
        return label
    return f"{label[:-1]}{digest(normalised(_text(messages[0])))[:12]}" if messages else label


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _completion(entry: TapeTurn, model: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": entry.reply}
    asked, given = entry.prompt_tokens, entry.completion_tokens
    return {
        "id": f"tape-{entry.label}-{entry.turn}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "finish_reason": entry.finish, "message": message}],
        "usage": {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given},
    }


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": "tape"}}, status)


@contextlib.contextmanager
def beside(app: Starlette) -> Iterator[str]:
    """Serve on loopback while the block runs; gives the address of the endpoint."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            thread.join()


def serve(app: Starlette, port: int) -> None:
    """On loopback, until interrupted."""
    import uvicorn

    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
