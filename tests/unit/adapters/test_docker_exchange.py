"""What is mounted into a container, and what a dead process leaves of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from facet_dagster.adapters.docker_exchange import Cargo, Exchange
from facet_dagster.adapters.process_owner import current_owner
from facet_dagster.domain.archive import Member, pack, pack_members
from facet_dagster.errors import SandboxError
from facet_dagster.ports import Put, Run


def cargo(*puts: Put, outbox: tuple[str, ...] = ()) -> Cargo:
    return Cargo.of(Run("image", ("true",), "s", put=puts, outbox=outbox))


@pytest.mark.parametrize(
    ("puts", "outbox", "folders"),
    [
        ((), (), ()),
        ((), ("/logs/verifier",), ("logs/verifier",)),
        ((Put("/in/", pack({"a": b""})), Put("/in", pack({"b": b""}))), (), ("in",)),
        ((Put("/", pack({"x/a": b"", "y/z/b": b""})),), ("/out",), ("out", "x", "y")),
        ((Put("/", pack({"file": b""})),), (), None),
        ((Put("/", pack_members({"link": Member("link", link="x")})),), (), None),
        ((Put("/in", pack({"a": b""})),), ("/in/out",), None),
    ],
)
def test_whole_folders_are_mounted(puts: tuple[Put, ...], outbox: tuple[str, ...], folders: object) -> None:
    assert cargo(*puts, outbox=outbox).folders == folders


def test_an_archive_that_writes_through_its_own_link_is_refused(tmp_path: Path) -> None:
    hostile = pack_members({"in/a": Member("link", link="/etc"), "in/a/passwd": Member("file")})
    with (
        pytest.raises(SandboxError, match="which is no folder"),
        Exchange(tmp_path / "x", "me").shared(cargo(Put("/", hostile))),
    ):
        pass
    assert list(tmp_path.glob("x/*/*")) == []


def test_folders_are_out_of_other_users_sight_and_gone_afterwards(tmp_path: Path) -> None:
    exchange = Exchange(tmp_path / "x", current_owner())
    with exchange.shared(cargo(outbox=("/out",))) as shared:
        (mount,) = shared.mounts()
        assert mount["Target"] == "/out"
        assert Path(mount["Source"]).stat().st_mode & 0o777 == 0o777
        assert [p.stat().st_mode & 0o777 for p in Path(mount["Source"]).parents[:2]] == [0o700, 0o700]
    exchange.close()
    assert list((tmp_path / "x").iterdir()) == []


LEAVE = """
import os, pathlib, sys
from facet_dagster.adapters.docker_exchange import Exchange
from facet_dagster.adapters.process_owner import current_owner
print(Exchange(pathlib.Path(sys.argv[1]), current_owner()).empty(), flush=True)
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_left_is_reaped_and_nothing_else(tmp_path: Path) -> None:
    mine = Exchange(tmp_path, current_owner())
    kept = mine.empty()
    left = subprocess.run([sys.executable, "-c", LEAVE, str(tmp_path)], capture_output=True, text=True, check=False)
    assert Path(left.stdout.strip()).is_dir()
    mine.reap()
    assert not Path(left.stdout.strip()).exists()
    assert kept.is_dir()
