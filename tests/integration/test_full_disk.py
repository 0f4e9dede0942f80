"""A disk that is full: one sentence that says so, whichever program fails of it first."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.postgres


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """40 MiB: too small for the database."""
    with tempfile.TemporaryDirectory(prefix="facet-disk-") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", folder]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("this user may not mount a small file system")
        Path(folder).chmod(0o755)
        yield Path(folder)
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_is_said_in_one_sentence(small_disk: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FACET_")}
    facet = str(Path(sys.executable).with_name("facet"))
    environment = {**kept, "FACET_HOME": str(small_disk / "home")}
    done = subprocess.run([facet, "demo"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is full (" in done.stderr
    assert "free some space and run again" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    subprocess.run([facet, "stop"], env=environment, capture_output=True, check=False)
