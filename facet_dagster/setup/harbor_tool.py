"""Where the Harbor tool is, for code that runs it; standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from facet_dagster.setup.paths import REPO_ROOT, read_json

RECORD_NAME = "harbor.json"


@dataclass(frozen=True)
class HarborTool:
    """How to run Harbor: put `env` over the process's environment and the sub-command after `argv`."""

    argv: tuple[str, ...]
    env: dict[str, str]


def harbor_command(home: Path) -> HarborTool | None:
    """The Harbor that set-up left in `home`, or None when it is not available (`harbor_why_not` tells why)."""
    record = read_json(home / RECORD_NAME)
    if not isinstance(record, dict) or record.get("available") is not True:
        return None
    harbor = str(record.get("harbor"))
    if not Path(harbor).is_file():
        return None
    env = {
        "HARBOR_TELEMETRY": "off",
        # Without it litellm tries for seconds to fetch its price list.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "PYTHONPATH": str(REPO_ROOT),
    }
    if record.get("docker_config"):
        env["DOCKER_CONFIG"] = str(record["docker_config"])
    return HarborTool(argv=(harbor,), env=env)


def harbor_why_not(home: Path) -> str:
    """One sentence on why Harbor is not available."""
    record = read_json(home / RECORD_NAME)
    if isinstance(record, dict) and record.get("why"):
        return str(record["why"])
    return "Harbor was not set up; run `make verify-harbor`, which does it."
