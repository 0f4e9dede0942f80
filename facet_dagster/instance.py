"""The folder and the environment of Dagster's processes: one instance an installation, in ``$FACET_HOME/dagster``.

Dagster puts the configuration of its instance on the command line of every process that it starts, where all users of
the machine can read it. So the URL of a server, which may hold a password, stands in the environment alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

from facet_dagster.errors import ConfigError
from facet_dagster.settings import ROOT, Settings, secret_names

DATABASE = "DAGSTER_POSTGRES_URL"
_PREFIX = "FACET_"


def instance_environment(settings: Settings, url: str, inherited: Mapping[str, str]) -> dict[str, str]:
    """Environment of every Dagster process over the database ``url``; writes dagster.yaml. Raises ConfigError."""
    home = settings.home / "dagster"
    home.mkdir(parents=True, exist_ok=True)
    where = f"{{env: {DATABASE}}}" if settings.postgres_url else json.dumps(url)
    text = (ROOT / "dagster.yaml").read_text(encoding="utf-8").replace("${POSTGRES_URL}", where)
    if settings.dagster:
        text = _laid_over(text, settings.dagster, inherited)
    _write_if_changed(home / "dagster.yaml", text)
    path = os.pathsep.join(filter(None, [str(ROOT), inherited.get("PYTHONPATH", "")]))
    return {
        **inherited,
        DATABASE: url.replace("postgres://", "postgresql://", 1),
        "DAGSTER_HOME": str(home),
        "DAGSTER_EVENT_BATCH_SIZE": "1000",
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "FACET_HOME": str(settings.home),
        "PYTHONPATH": path,
    }


def _laid_over(text: str, path: Path, environment: Mapping[str, str]) -> str:
    """``text`` with the sections of the file in place of its own; ``${NAME}`` in the file is from the environment.

    ``${FACET_NAMES}`` is the list of all settings that are set, but for secrets: a launcher passes them on by name.
    """
    names = sorted(name for name in environment if name.startswith(_PREFIX) and name not in secret_names())
    try:
        template = Template(path.read_text(encoding="utf-8"))
        sections: Any = yaml.safe_load(template.substitute({**environment, "FACET_NAMES": json.dumps(names)}))
    except KeyError as error:
        raise ConfigError(f"FACET_DAGSTER: {path} needs the variable {error.args[0]}: set it") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"FACET_DAGSTER: {path} cannot be read ({error}): see docs/deployment.md") from error
    if not isinstance(sections, dict):
        raise ConfigError(f"FACET_DAGSTER: {path} must hold sections of a dagster.yaml")
    return yaml.safe_dump({**yaml.safe_load(text), **sections}, sort_keys=False)


def _write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        aside = path.with_suffix(f".{os.getpid()}.new")
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
