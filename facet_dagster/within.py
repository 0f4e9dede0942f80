"""``python -m facet_dagster.within COMMAND...``: becomes a program in the environment of Dagster's processes.

The entrypoint of the platform's image: the database's password comes from a file into the environment of this one
process, and stands neither in what the engine tells of the container nor on a command line. It imports little, since
every healthcheck passes here.
"""

from __future__ import annotations

import os
import sys

from facet_dagster.errors import ConfigError
from facet_dagster.instance import instance_environment
from facet_dagster.settings import load_settings


def main(command: list[str]) -> int:
    """Does not return when the program starts; else 1 after one sentence."""
    try:
        os.execvpe(_program(command), command, _environment())  # noqa: S606 - no shell
    except (ConfigError, OSError) as error:
        sys.stderr.write(f"facet: {error}\n")
    return 1


def _program(command: list[str]) -> str:
    if not command:
        raise ConfigError("Say what to start: python -m facet_dagster.within COMMAND...")
    return command[0]


def _environment() -> dict[str, str]:
    settings = load_settings()
    if not settings.postgres_url:
        raise ConfigError("FACET_POSTGRES_URL must name a PostgreSQL server here: set it")
    return instance_environment(settings, settings.postgres_url, os.environ)  # noqa: TID251 - a composition root


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
