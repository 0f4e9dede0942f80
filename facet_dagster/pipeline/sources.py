"""Where skills come from: one path or address, or a file that lists several (``sources.yaml``, docs/sources.md)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from facet_dagster.domain.outcome import Value
from facet_dagster.errors import ConfigError
from facet_dagster.stages.curate.licence import normalise

ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]*://|^[\w.-]+@[\w.-]+:")
REGISTRIES = {"clawhub": "MIT-0: ClawHub publishes every skill under MIT-0"}


class Source(Value):
    """One entry: exactly one of ``folder``, ``git`` (an address or several) and ``table`` (.parquet or .jsonl).

    ``registry``, or ``licence`` with ``because``, says under which licence everything there is published; a licence
    that a package states itself counts more. ``ref``, ``below``, ``max_megabytes`` and ``max_seconds`` (of one fetch)
    are for repositories.
    """

    folder: Path | None = None
    git: tuple[str, ...] = ()
    table: Path | None = None
    registry: Literal["", "clawhub"] = ""
    licence: str = ""
    because: str = Field(default="", max_length=120)
    ref: str = Field(default="", pattern=r"^([\w][\w./-]*)?$")
    below: str = ""
    max_megabytes: int = Field(default=2048, ge=1)
    max_seconds: float = Field(default=900.0, gt=0)

    @field_validator("git", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("git")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for address in value:
            refuse_address(address)
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Source:
        if sum(map(bool, (self.folder, self.git, self.table))) != 1:
            raise ValueError("give exactly one of folder, git and table")
        if not self.git and (self.ref or self.below):
            raise ValueError("ref and below are for git only")
        if bool(self.licence) != bool(self.because):
            raise ValueError("licence and because go together: the licence, and what says so")
        if self.licence and normalise(self.licence) != self.licence:
            raise ValueError(
                f"licence: {self.licence!r} is no SPDX identifier that is known here, such as MIT or CC-BY-4.0"
            )
        if self.table and self.rule:
            raise ValueError("a table has its licences in the column license: leave registry and licence out")
        return self

    @property
    def rule(self) -> str:
        """``<SPDX>: <why>`` for all that lies in the source, or nothing."""
        return REGISTRIES.get(self.registry, "") or (f"{self.licence}: {self.because}" if self.licence else "")

    @property
    def name(self) -> str:
        """The same for the same place, however it was written; of a repository with branch and folder."""
        path = self.folder or self.table
        return (
            f"source:{path.resolve()}" if path else f"source:{self.git[0].removesuffix('.git')}#{self.ref}:{self.below}"
        )

    @property
    def label(self) -> str:
        return str(self.folder or self.table or ", ".join(self.git))


class Sources(Value):
    """What ``sources.yaml`` holds."""

    sources: tuple[Source, ...] = Field(min_length=1)


def refuse_address(address: str) -> None:
    """ValueError unless ``address`` is a public repository's: https or file, without a credential."""
    parts = urlsplit(address)
    if parts.scheme not in {"https", "file"} or not (parts.hostname or parts.path.strip("/")):
        raise ValueError(f"{address!r} is no address of a repository: give https://HOST/OWNER/NAME or file:///FOLDER")
    if parts.scheme == "https" and not parts.hostname:
        raise ValueError(f"{address!r} names no host")
    if parts.username or parts.password:
        raise ValueError(f"the address of {parts.hostname}{parts.path} holds a credential: only public ones are read")


def sources_of(text: str) -> list[Source]:
    """What the user named: an address, a folder, a table, or a ``.yaml`` file that lists sources.

    Each repository is a source of its own. Raises ConfigError.
    """
    path = Path(text)
    try:
        if ADDRESS.match(text):
            return [Source(git=(text,))]
        if path.suffix.lower() in {".yaml", ".yml"} and path.is_file():
            return [one for source in load_sources(path).sources for one in _each(source)]
        return [Source(folder=path) if path.is_dir() else Source(table=path)]
    except ValidationError as error:
        raise ConfigError(f"{_said(error.errors()[0]['msg'])}.") from None


def _each(source: Source) -> list[Source]:
    return [source.model_copy(update={"git": (one,)}) for one in source.git] or [source]


def load_sources(path: Path) -> Sources:
    """The file, its relative paths taken from its own folder. Raises ConfigError naming line and field."""
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}).") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{where}: this is not YAML; correct it.") from None
    try:
        found = Sources.model_validate(data)
    except ValidationError as error:
        wrong = "; ".join(_problem(node, item["loc"], item["msg"]) for item in error.errors(include_url=False))
        raise ConfigError(f"{path}, {wrong}.") from None
    return Sources(sources=tuple(_from(path.parent, source) for source in found.sources))


def _from(folder: Path, source: Source) -> Source:
    update = {name: folder / place for name in ("folder", "table") if (place := getattr(source, name)) is not None}
    return source.model_copy(update=update)


def _problem(node: Any, place: tuple[int | str, ...], said: str) -> str:
    """``line 4, sources.1.git: ...``; the line is that of the deepest node that exists."""
    number = node.start_mark.line + 1 if node is not None else 1
    for step in place:
        found = None
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = node.value[step]
            number = found.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode):
            key, found = next(((k, v) for k, v in node.value if k.value == step), (None, None))
            number = key.start_mark.line + 1 if key is not None else number
        if found is None:
            break
        node = found
    return f"line {number}, {'.'.join(map(str, place)) or 'the file'}: {_said(said)}"


def _said(text: str) -> str:
    return text.removeprefix("Value error, ")
