from __future__ import annotations

import base64
from collections.abc import Mapping

import pytest

from facet_dagster.adapters.docker_buildkit_log import LOG_TAIL, BuildLog, plain


def field(number: int, data: bytes) -> bytes:
    """A length-delimited protobuf field."""
    size, head = len(data), bytes([number << 3 | 2])
    while size > 0x7F:
        head, size = head + bytes([size & 0x7F | 0x80]), size >> 7
    return head + bytes([size]) + data


def trace(data: bytes) -> dict[str, str]:
    return {"id": "moby.buildkit.trace", "aux": base64.b64encode(data).decode()}


def vertex(
    digest: str, name: str, *, started: bool = False, error: str = "", ended: bool = False, cached: bool = False
) -> dict[str, str]:
    body = field(1, digest.encode()) + field(2, b"an input") + field(3, name.encode())
    body += b"\x20\x01" if cached else b""
    body += field(5, b"\x08\x01") + field(6, b"\x08\x02") if ended else b""
    body += field(5, b"\x08\x01") if started else b""
    return trace(field(1, body + (field(6, b"\x08\x02") + field(7, error.encode()) if error else b"")))


def output(digest: str, text: bytes) -> dict[str, str]:
    # Field 3 is the number of the stream, a plain integer.
    return trace(field(3, field(1, digest.encode()) + field(2, b"\x08\x01") + b"\x18\x02" + field(4, text)))


def fed(*messages: Mapping[str, object]) -> BuildLog:
    log = BuildLog()
    for message in messages:
        log.feed(message)
    return log


FAILED = "executor failed running [/bin/sh -c x]: exit code: 7"


def test_buildkit_failure_gives_step_code_and_log() -> None:
    log = fed(
        vertex("d1", "[1/2] FROM base", started=True),
        vertex("d2", "[2/2] RUN x", started=True),
        output("d2", b"\x1b[31mred\x1b[0m line\n"),
        vertex("d2", "[2/2] RUN x", started=True, error=FAILED),
        {"errorDetail": {"message": FAILED}, "error": FAILED},
    )
    assert (log.step, log.exit_code) == ("RUN x", 7)
    assert log.tail.split("\n") == ["> [2/2] RUN x", "red line", FAILED]
    assert not log.engine_trouble


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (FAILED, 7),
        ('process "/bin/sh -c x" did not complete successfully: exit code: 137', 137),
        ("The command '/bin/sh -c x' returned a non-zero code: 100", 100),
        ('failed to compute cache key: "/nope" not found: not found', None),
        ("a text with exit code: 3 in its middle", None),
    ],
)
def test_exit_code_is_read_from_the_error(message: str, code: int | None) -> None:
    assert fed({"error": message}).exit_code == code


def test_classic_failure_gives_step_and_code() -> None:
    log = fed(
        {"stream": "Step 1/2 : FROM base\n"},
        {"stream": " ---> aaaaaaaaaaaa\n"},
        {"stream": "Step 2/2 : RUN exit 4\n"},
        {"stream": "some output\n"},
        {"errorDetail": {"code": 4, "message": "The command '/bin/sh -c exit 4' failed"}, "error": "x"},
    )
    assert (log.step, log.exit_code) == ("RUN exit 4", 4)
    assert "some output" in log.tail


def test_the_base_image_is_never_taken_for_a_layer_of_the_build() -> None:
    base = [{"stream": "Step 1/2 : FROM base\n"}, {"stream": " ---> aaaaaaaaaaaa\n"}]
    step = [{"stream": "Step 2/2 : RUN true\n"}, {"stream": " ---> bbbbbbbbbbbb\n"}]
    assert fed(*base).last_layer is None
    assert fed(*base, *step).last_layer == "bbbbbbbbbbbb"


def test_parse_error_names_the_line() -> None:
    error = "failed to create LLB definition: dockerfile parse error line 2: unknown instruction: RUNN"
    assert fed({"error": error}).step == "Dockerfile line 2"


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        ("failed to copy: write /var/lib/docker/x: no space left on device", True),
        ("rpc error: code = Unavailable desc = transport is closing", True),
        ("executor failed running [/bin/sh -c echo no space left on device]: exit code: 1", False),
        ('"/nope" not found: not found', False),
    ],
)
def test_engine_trouble_is_told_from_a_bad_dockerfile(error: str, trouble: bool) -> None:
    assert fed({"error": error}).engine_trouble is trouble


def test_tail_is_bounded_and_keeps_the_end() -> None:
    log = fed(*[output("d", b"%06d\n" % n) for n in range(20_000)], {"error": FAILED})
    assert len(log.tail.encode()) <= LOG_TAIL
    assert "019999" in log.tail
    assert log.tail.endswith(FAILED)


def test_a_giant_error_is_bounded_too() -> None:
    assert len(fed({"error": "x" * 100_000}).tail.encode()) <= LOG_TAIL


def test_running_step_is_known_until_it_ends() -> None:
    log = fed(vertex("d", "[2/2] RUN sleep 9", started=True))
    assert log.running == "RUN sleep 9"
    log.feed(vertex("d", "[2/2] RUN sleep 9", started=True, error="x"))
    assert log.running == ""


def test_instructions_that_ran_are_counted() -> None:
    log = fed(
        vertex("d0", "[internal] load build definition from Dockerfile", ended=True),
        vertex("d1", "[1/4] FROM base", ended=True),
        vertex("d2", "[2/4] COPY a b", ended=True, cached=True),
        vertex("d3", "[fixtures 3/4] RUN x", started=True),
        vertex("d3", "[fixtures 3/4] RUN x", ended=True),
        vertex("d4", "[4/4] RUN y", started=True),
        vertex("d5", "exporting to image", ended=True),
    )
    assert log.executed == 1


def test_instructions_that_ran_are_counted_in_a_classic_log() -> None:
    texts = [
        "Step 1/5 : FROM base\n",
        " ---> aaaaaaaaaaaa\n",
        "Step 2/5 : COPY a b\n",
        " ---> Using cache\n",
        "Step 3/5 : RUN x\n",
        " ---> Running in bbbbbbbbbbbb\n",
        " ---> Using cache\n",  # printed by the program
        "Step 4/5 : ENV A=b\n",
        "Step 5/5 : LABEL a=b\n",
    ]
    log = fed(*({"stream": text} for text in texts))
    assert (log.executed, log.container) == (1, "bbbbbbbbbbbb")


@pytest.mark.parametrize("aux", ["not base64!", None, 5, base64.b64encode(b"\x0a\xff").decode(), "CwA="])
def test_an_unreadable_trace_is_skipped(aux: object) -> None:
    assert fed({"id": "moby.buildkit.trace", "aux": aux}, {"error": FAILED}).tail == FAILED


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("10%\r20%\r\ndone", "10%\n20%\ndone"),
        ("a\0b", "ab"),
        ("\x1b]0;title\x07x", "x"),
    ],
)
def test_plain_text_has_no_terminal_codes(raw: str, text: str) -> None:
    assert plain(raw) == text
