from __future__ import annotations

import threading

from facet_dagster.adapters.docker_watchdog import Watchdog


def test_it_ends_what_has_a_reason_and_says_which() -> None:
    ended = threading.Event()

    def end() -> bool:
        ended.set()
        return True

    with Watchdog[str](0.01, lambda _: "late", end) as dog:
        assert ended.wait(10)
    assert dog.reason == "late"


def test_ending_is_tried_until_it_works() -> None:
    tries: list[int] = []
    done = threading.Event()

    def end() -> bool:
        tries.append(1)
        if len(tries) == 3:
            done.set()
        return len(tries) == 3

    with Watchdog[str](0.01, lambda _: "late", end) as dog:
        assert done.wait(10)
    assert (dog.reason, len(tries)) == ("late", 3)


def test_what_ended_by_itself_has_no_reason() -> None:
    with Watchdog[str](60, lambda _: None, lambda: True) as dog:
        pass
    assert dog.reason is None


def test_an_end_that_did_nothing_gives_no_reason() -> None:
    asked = threading.Event()

    def end() -> bool:
        asked.set()
        return False

    with Watchdog[str](0.01, lambda _: "late", end) as dog:
        assert asked.wait(10)
    assert dog.reason is None
