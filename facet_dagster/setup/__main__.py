"""`python3 -m facet_dagster.setup [--with second-base,harbor,browser,trainer]`; standard library only at import."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from facet_dagster.setup import bootstrap
from facet_dagster.setup.errors import SetupError
from facet_dagster.setup.lock import clean_freeze
from facet_dagster.setup.paths import Places, process_env, write_aside

EXTRAS = ("second-base", "harbor", "browser", "trainer")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; exits with code 2 at unknown ones."""
    parser = argparse.ArgumentParser(prog="python3 -m facet_dagster.setup", description="Make this machine ready.")
    parser.add_argument(
        "--with", dest="extras", action="append", default=[], type=_extras, help=f"comma-separated: {', '.join(EXTRAS)}"
    )
    parser.add_argument("--write-lock", action="store_true", help="write requirements.lock from what is installed")
    parser.add_argument("--in-venv", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _extras(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in EXTRAS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(EXTRAS)}")
    return names


def main(argv: Sequence[str]) -> int:
    """Run the phase that is due; 1 and one sentence on standard error when set-up fails."""
    arguments = parse(argv)
    places = Places.from_env(process_env())
    try:
        if arguments.write_lock:
            _write_lock(places)
        elif arguments.in_venv:
            _second_phase(places, [name for names in arguments.extras for name in names])
        else:
            with bootstrap.one_at_a_time(places):
                bootstrap.ensure_venv(places)
            _restart_in_venv(places, argv)
    except SetupError as error:
        print(f"set-up failed: {error}", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print("set-up was interrupted; run it again to go on", file=sys.stderr, flush=True)
        return 130
    return 0


def _restart_in_venv(places: Places, argv: Sequence[str]) -> None:
    """Replace this process by phase 2, which may import what phase 1 installed."""
    os.chdir(places.repo)
    python = str(places.venv_python)
    os.execv(python, [python, "-m", "facet_dagster.setup", "--in-venv", *argv])  # noqa: S606


def _second_phase(places: Places, extras: Sequence[str]) -> None:
    from facet_dagster.setup import phase2

    with bootstrap.one_at_a_time(places):
        phase2.run(places, frozenset(extras))


def _write_lock(places: Places) -> None:
    argv = (str(places.venv_python), "-m", "pip", "freeze", "--exclude-editable")
    try:
        frozen = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise SetupError(f"`pip freeze` of {places.venv} failed ({error}); run `make setup` first.") from error
    write_aside(places.lock, clean_freeze(frozen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
