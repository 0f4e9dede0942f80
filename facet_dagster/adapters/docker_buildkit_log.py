"""What a build said: the engine's message stream, of BuildKit or the classic builder, as step, exit code and text.

BuildKit sends its log as base64 protobuf (``moby.buildkit.trace``), a StatusResponse of which we read
``1 vertexes {1 digest, 3 name, 4 cached, 5 started, 6 completed, 7 error}`` and ``3 logs {1 vertex, 4 msg}``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

LOG_TAIL = 16 * 1024
_STEP_LENGTH = 500
_TRACE = "moby.buildkit.trace"
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_EXIT_CODE = re.compile(r"(?:exit code:|non-zero code:) (\d+)\s*$")
_PARSE_ERROR = re.compile(r"dockerfile parse error(?: on)? line (\d+)", re.IGNORECASE)
_STEP_NUMBER = re.compile(r"^\[[^\]]*\d+/\d+\] ")
_CLASSIC_STEP = re.compile(r"^Step \d+/\d+ : (.*)", re.DOTALL)
_BUILDKIT_STEP = re.compile(r"^\[(?!internal\])[^\]]*\d+/\d+\] (?!FROM )")
# What BuildKit counts: the other instructions only write down settings.
_LAYER_MAKERS = re.compile(r"(?:RUN|COPY|ADD|WORKDIR)\s", re.IGNORECASE)
_CLASSIC_CACHED = re.compile(r"^ ---> Using cache\s*$")
_CLASSIC_CONTAINER = re.compile(r"^ ---> Running in ([0-9a-f]{12,})\s*$")
_CLASSIC_LAYER = re.compile(r"^ ---> ([0-9a-f]{12,})\s*$")
_ENGINE_TROUBLE = (
    "no space left on device",
    "context canceled",
    "transport is closing",
    "code = unavailable",
    "failed to create shim",
    "failed to mount",
    "database not open",
    "network bridge not found",
)


class BuildLog:
    """Feed it every message of a build; afterwards ask what happened."""

    def __init__(self) -> None:
        self.error = ""
        self.exit_code: int | None = None
        self.last_layer: str | None = None
        self.container: str | None = None
        self._executed: set[str] = set()
        self._text = b""
        self._classic_step = ""
        self._last_step = ""
        self._failed_vertex = ""
        self._running: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._shown: set[str] = set()

    def feed(self, message: Mapping[str, Any]) -> None:
        if message.get("id") == _TRACE:
            self._trace(message.get("aux"))
        elif "error" in message or "errorDetail" in message:
            self._fail(message)
        elif isinstance(message.get("stream"), str):
            self._stream(message["stream"])

    @property
    def step(self) -> str:
        """The failing instruction as written, or where the Dockerfile cannot be parsed."""
        if wrong := _PARSE_ERROR.search(self.error):
            return f"Dockerfile line {wrong[1]}"
        return (self._failed_vertex or self._classic_step or "Dockerfile")[:_STEP_LENGTH]

    @property
    def executed(self) -> int:
        """How many instructions made files (RUN, COPY, ADD, WORKDIR) and were not taken from the builder's cache."""
        return len(self._executed)

    @property
    def running(self) -> str:
        """The instructions that had begun and not ended at the last message."""
        return "; ".join(self._running.values())[:_STEP_LENGTH] or self._classic_step[:_STEP_LENGTH]

    @property
    def engine_trouble(self) -> bool:
        """True when the error tells of the engine and not of a step that ran and failed."""
        lowered = self.error.lower()
        return self.exit_code is None and any(sign in lowered for sign in _ENGINE_TROUBLE)

    @property
    def tail(self) -> str:
        """The end of the log as plain text of at most LOG_TAIL bytes, with the error as its last line."""
        text = plain(self._text[-2 * LOG_TAIL :].decode(errors="replace"))
        end = f"\n{plain(self.error)}"[-LOG_TAIL // 2 :] if self.error else ""
        room = LOG_TAIL - len(end.encode())
        return (text.rstrip().encode()[-room:].decode(errors="ignore") + end).strip()

    def _fail(self, message: Mapping[str, Any]) -> None:
        detail = message.get("errorDetail") or {}
        self.error = str(detail.get("message") or message.get("error"))
        found = _EXIT_CODE.search(self.error)
        code = detail.get("code")
        self.exit_code = int(found[1]) if found else code if isinstance(code, int) and code else None

    def _stream(self, text: str) -> None:
        if step := _CLASSIC_STEP.match(text):
            self._classic_step = step[1].strip()
            if _LAYER_MAKERS.match(self._classic_step):
                self._executed.add(step[0])
            self._last_step = step[0]
        elif _CLASSIC_CACHED.match(text):
            self._executed.discard(self._last_step)
        elif container := _CLASSIC_CONTAINER.match(text):
            self.container = container[1]
            self._last_step = ""
        elif (layer := _CLASSIC_LAYER.match(text)) and not self._classic_step.upper().startswith("FROM"):
            self.last_layer = layer[1]
        self._write(text.encode(errors="replace"))

    def _write(self, data: bytes) -> None:
        self._text += data
        if len(self._text) > 8 * LOG_TAIL:
            self._text = self._text[-2 * LOG_TAIL :]

    def _trace(self, aux: object) -> None:
        try:
            status = list(_fields(base64.b64decode(str(aux))))
            for number, value in status:
                if number == 1:
                    self._vertex(dict(_fields(value)))
                elif number == 3:
                    self._log(dict(_fields(value)))
        except (ValueError, binascii.Error):
            return  # a newer engine may send what we cannot read; the error message still comes as text

    def _vertex(self, vertex: Mapping[int, bytes]) -> None:
        digest, name = _text(vertex, 1), _text(vertex, 3)
        self._names[digest] = name
        if 5 in vertex and 6 not in vertex:
            self._running[digest] = _STEP_NUMBER.sub("", name)
        else:
            self._running.pop(digest, None)
        if 6 in vertex and not any(vertex.get(4, b"")) and _BUILDKIT_STEP.match(name):
            self._executed.add(digest)
        if vertex.get(7):
            self._failed_vertex = _STEP_NUMBER.sub("", name)

    def _log(self, log: Mapping[int, bytes]) -> None:
        digest = _text(log, 1)
        if digest not in self._shown:
            self._shown.add(digest)
            self._write(f"\n> {self._names.get(digest, '')[:_STEP_LENGTH]}\n".encode(errors="replace"))
        self._write(log.get(4, b""))


def plain(text: str) -> str:
    """Without terminal colours, carriage returns and NULs."""
    return _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _text(message: Mapping[int, bytes], number: int) -> str:
    return message.get(number, b"").decode(errors="replace")


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protobuf message; a variable-length number comes as its bytes, other numbers are skipped.

    Raises ValueError when damaged.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            number, at = _varint(data, at)
            yield key >> 3, number.to_bytes(10, "little")
        elif kind == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("a field is longer than its message")
            yield key >> 3, data[at : at + size]
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"unknown wire type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number is cut short")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
