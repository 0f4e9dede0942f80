"""What a release holds, and how it differs from the one before."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from facet_dagster.domain.outcome import Value
from facet_dagster.errors import ConfigError
from facet_dagster.reports.yields import Yields, yields_markdown

MANIFEST = "manifest.json"
SHOWN = 200


class Released(Value):
    """A task in a release. ``package`` is the sha256 of its archive; ``stale``: certified under earlier prompts."""

    package: str
    title: str
    families: tuple[str, ...]
    licences: tuple[str, ...]
    level: str
    stale: bool = False


class Diff(Value):
    """Against the release before: keys that are ``new``, ``changed`` (another package), ``lost`` (with the reason).

    ``training``: the training sets are others.
    """

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    lost: dict[str, str] = {}
    training: bool = False

    @property
    def empty(self) -> bool:
        return not (self.new or self.changed or self.lost or self.training)


class Manifest(Value):
    """What ``manifest.json`` of a release holds.

    ``number`` counts from 1; ``training`` is a digest of what the training sets are made from; ``datasets`` are their
    rows by kind; ``made`` is ISO, UTC.
    """

    name: str
    number: int
    previous: str = ""
    night: str = ""
    made: str
    version: str
    tasks: dict[str, Released]
    training: str = ""
    datasets: dict[str, int] = {}
    diff: Diff
    yields: Yields | None = None


class Release(Value):
    """``written``: this call made it; otherwise nothing had changed since ``name``, which may be empty."""

    name: str
    folder: str
    written: bool
    diff: Diff
    tasks: int


def releases(folder: Path) -> list[Manifest]:
    """Those that stand, oldest first. Raises ConfigError for one whose manifest cannot be read."""
    found = []
    for path in folder.glob(f"*/{MANIFEST}"):
        if path.parent.name.startswith("."):
            continue
        try:
            found.append(Manifest.model_validate_json(path.read_bytes()))
        except (OSError, ValidationError) as error:
            raise ConfigError(f"{path} cannot be read: bring it back, or move {path.parent} away") from error
    return sorted(found, key=lambda manifest: manifest.number)


def readme(manifest: Manifest) -> str:
    sets = "".join(f"- `datasets/{kind}`: {rows} rows\n" for kind, rows in manifest.datasets.items())
    licences = sorted({name or "none stated" for task in manifest.tasks.values() for name in task.licences})
    table = (
        f"## Yields of the batch {manifest.yields.batch}\n\n{yields_markdown(manifest.yields)}\n\n"
        if manifest.yields
        else ""
    )
    return f"""# Release {manifest.name}

- `tasks`: {len(manifest.tasks)} Harbor packages
{sets}- `{MANIFEST}`: package digests, licences, and what changed

Every task stems from two public skills; their licences are {", ".join(licences) or "none"}.

{diff_markdown(manifest.diff, manifest.previous)}

{table}"""


def diff_markdown(diff: Diff, previous: str) -> str:
    """New, changed and lost tasks, at most 200 of each."""
    lists = [("New", list(diff.new)), ("Changed", list(diff.changed))]
    lists.append(("Lost", [f"{key}: {reason}" for key, reason in diff.lost.items()]))
    lines = [f"## Against {previous or 'nothing'}", ""]
    for name, items in lists:
        lines.append(f"{name}: {len(items)}")
        lines += [f"- {item}" for item in items[:SHOWN]]
        lines += [f"- and {len(items) - SHOWN} more"] if len(items) > SHOWN else []
    return "\n".join([*lines, *(["The training sets are others."] if diff.training else [])])
