from __future__ import annotations

import pytest

from facet_dagster.adapters.docker_limits import ROOT_CAPABILITIES, bounded_text, host_config, is_root
from facet_dagster.domain.trial import Limits


def config(user: str = "root", cpus: int = 8, **limits: float) -> dict[str, object]:
    return host_config(Limits.model_validate(limits), user=user, network="none", cpus=cpus)


def test_swap_adds_nothing_to_the_memory() -> None:
    assert (config(memory=5)["Memory"], config(memory=5)["MemorySwap"]) == (5, 5)


def test_every_cap_is_set() -> None:
    made = config(pids=7, disk=9, cpus=2)
    assert made["PidsLimit"] == 7
    assert {"Name": "fsize", "Soft": 9, "Hard": 9} in made["Ulimits"]  # type: ignore[operator]
    assert made["NetworkMode"] == "none"
    assert made["Privileged"] is False


@pytest.mark.parametrize(("wanted", "there", "nano"), [(1.5, 8, 1_500_000_000), (4.0, 2, 2_000_000_000)])
def test_no_more_cpus_are_asked_than_the_engine_has(wanted: float, there: int, nano: int) -> None:
    made = host_config(Limits(cpus=wanted), user="root", network="none", cpus=there)
    assert made["NanoCpus"] == nano


@pytest.mark.parametrize(("user", "added"), [("root", list(ROOT_CAPABILITIES)), ("agent", []), ("1000:1000", [])])
def test_capabilities_are_dropped_and_five_given_back_to_root(user: str, added: list[str]) -> None:
    assert (config(user)["CapDrop"], config(user)["CapAdd"]) == (["ALL"], added)


@pytest.mark.parametrize("user", ["root", "agent"])
def test_no_program_gains_privileges_and_seccomp_stays_on(user: str) -> None:
    assert config(user)["SecurityOpt"] == ["no-new-privileges"]


@pytest.mark.parametrize(
    ("user", "root"), [("root", True), ("0", True), ("0:0", True), ("", True), ("agent", False), ("1000:0", False)]
)
def test_root_is_known_in_every_spelling(user: str, root: bool) -> None:
    assert is_root(user) is root


@pytest.mark.parametrize(
    ("raw", "limit", "text"),
    [
        (b"short", 10, "short"),
        (b"0123456789", 4, "[earlier output dropped]\n6789"),
        (b"\xff\x00ok", 10, "\ufffdok"),
        ("ä".encode(), 1, "[earlier output dropped]\n\ufffd"),
        (b"", 10, ""),
    ],
)
def test_output_is_bounded_text(raw: bytes, limit: int, text: str) -> None:
    assert bounded_text(raw, limit) == text
