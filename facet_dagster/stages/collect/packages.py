"""From the files of one source to skills with their packages: owner, slug, licence hints, what lies beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from posixpath import basename, dirname, join, normpath
from typing import Any

from facet_dagster.domain.ids import digest
from facet_dagster.domain.skill import PackageFacts, RawSkill
from facet_dagster.errors import ConfigError
from facet_dagster.ports import SourceTree

CAP = 4 * 1024 * 1024
SMALL_CAP = 1024 * 1024
MOST_NAMES = 50
MOST_LINKS = 5
LICENCE_FILES = ("license", "license.txt", "license.md", "licence", "licence.txt", "licence.md", "copying")
FACTS = {
    "scripts": frozenset({"scripts", "bin"}),
    "references": frozenset({"references", "reference", "docs"}),
    "assets": frozenset({"assets", "templates", "resources"}),
    "tests": frozenset({"tests", "test", "evals"}),
}

COMMIT = re.compile(r"\b[0-9a-f]{40}$")

Collected = tuple[RawSkill, bytes]
Unread = Callable[[str, str], None]


@dataclass(frozen=True)
class Origin:
    """How skills of one source are named: ``kind`` begins their ids, ``repository`` their origins.

    ``owner`` and ``name`` are used where the place of a package says nothing; only what lies below ``within`` is
    taken. ``rule`` is ``<SPDX>: <why>``: a registry's statement about all that it publishes.
    """

    kind: str
    name: str = ""
    owner: str = ""
    repository: str = ""
    within: str = ""
    rule: str = ""


def collect_tree(tree: SourceTree, origin: Origin, *, unread: Unread | None = None) -> Iterator[Collected]:
    """Every SKILL.md of ``tree``, in any letter case, in the order of paths; a package inside a package is its own.

    A file over 4 MiB is not read: its bytes are empty and its ``size`` is the true one. Raises ConfigError when there
    is no SKILL.md, or, without ``unread``, when one cannot be read.
    """
    packages = _Packages(tree, origin)
    if not packages.skills:
        place = f"{tree.place} (below {origin.within})" if origin.within else tree.place
        raise ConfigError(f"{place} holds no SKILL.md; put each skill into a folder of its own with a SKILL.md in it.")
    return _each(packages, unread)


def _each(packages: _Packages, unread: Unread | None) -> Iterator[Collected]:
    for path in packages.skills:
        try:
            yield packages.skill(path)
        except OSError as error:
            why = error.strerror or str(error)
            if unread is None:
                text = f"{packages.tree.place}/{path} cannot be read ({why}); make it readable or remove it."
                raise ConfigError(text) from error
            unread(safe(path), why)


class _Packages:
    def __init__(self, tree: SourceTree, origin: Origin) -> None:
        self.tree, self.origin = tree, origin
        self.paths = tree.paths()
        below = origin.within.strip("/")
        prefix = f"{below}/" if below else ""
        named = (path for path in self.paths if path.rpartition("/")[2].lower() == "skill.md")
        self.skills = sorted(path for path in named if path.startswith(prefix))
        self._licences: dict[str, str] = {}
        self._owners: dict[str, str] = {}

    def skill(self, path: str) -> Collected:
        package = dirname(path)
        parts = package.split("/") if package else []
        size, data = self._text(path, package)
        meta = self._meta(package)
        place, repository = safe(path), self.origin.repository
        raw = raw_skill(
            self.origin.kind,
            f"{repository}:{place}" if repository else place,
            data,
            size=size,
            owner=self._owner(package) or (line(parts[-2]) if len(parts) > 1 else self.origin.owner),
            slug=line(meta.get("slug")) or (line(parts[-1]) if parts else self.origin.name),
            licence_hint=self._hint(package, meta),
            facts=self._facts(package),
            commit=self.tree.commit or _published(meta),
        )
        return raw, data

    def _text(self, path: str, package: str) -> tuple[int, bytes]:
        """Size and bytes. A link that leaves its package is read as its target's name, as version control stores it."""
        first = size, data = self.tree.read(path, CAP)
        for _ in range(MOST_LINKS):
            if not self.paths.get(path):
                return size, data
            path = normpath(join(dirname(path), data.decode("utf-8", "surrogateescape")))
            if path not in self.paths or not path.startswith(f"{package}/" if package else ""):
                return first
            size, data = self.tree.read(path, CAP)
        return first

    def _small(self, path: str) -> str:
        """A regular file of at most 1 MiB as text; empty when it is a link, larger or missing."""
        if self.paths.get(path) is not False:
            return ""
        try:
            return self.tree.read(path, SMALL_CAP)[1].decode("utf-8-sig", "replace")
        except OSError:
            return ""

    def _meta(self, package: str) -> Mapping[str, Any]:
        try:
            value = json.loads(self._small(join(package, "_meta.json")) or "{}")
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def _owner(self, package: str) -> str:
        """As the _meta.json of the package says, or of one that it lies in."""
        chain = []
        while package not in self._owners:
            chain.append(package)
            if (owner := line(self._meta(package).get("owner"))) or not package:
                self._owners[package] = owner
            else:
                package = dirname(package)
        self._owners.update(dict.fromkeys(chain, self._owners[package]))
        return self._owners[package]

    def _hint(self, package: str, meta: Mapping[str, Any]) -> str:
        """One line for each piece of evidence, ``<where>: <text>``, the closest first."""
        lines = []
        if own := self._licence(package):
            lines.append(f"package LICENSE: {own}")
        if named := line(meta.get("license") or meta.get("licence")):
            lines.append(f"_meta.json: {named}")
        if self.origin.rule:
            spdx, _, why = self.origin.rule.partition(": ")
            lines.append(f"registry rule ({line(why).replace(':', ',')}): {spdx}")
        above = package
        while above:
            above = dirname(above)
            if text := self._licence(above):
                lines.append(f"repository LICENSE: {text}")
                break
        return "\n".join(lines)

    def _licence(self, folder: str) -> str:
        if folder not in self._licences:
            names = self._licence_files.get(folder, {})
            texts = (line(self._small(names[name])) for name in LICENCE_FILES if name in names)
            self._licences[folder] = next((text for text in texts if text), "")
        return self._licences[folder]

    @cached_property
    def _licence_files(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for path in sorted(self.paths):
            if (name := basename(path).lower()) in LICENCE_FILES:
                found.setdefault(dirname(path), {}).setdefault(name, path)
        return found

    def _facts(self, package: str) -> PackageFacts:
        """Count and names of what lies beside the SKILL.md; packages inside are not counted."""
        start = len(package) + 1 if package else 0
        below = [safe(path[start:]) for path in self._files.get(package, ())]
        below.sort(key=lambda path: (dirname(path).split("/") if "/" in path else [], basename(path)))
        of = {fact: [p for p in below if "/" in p and p.split("/")[0].lower() in tops] for fact, tops in FACTS.items()}
        return PackageFacts(files=len(below), **{fact: tuple(names[:MOST_NAMES]) for fact, names in of.items()})

    @cached_property
    def _files(self) -> dict[str, list[str]]:
        """Package -> its files: those below no deeper package."""
        packages = {dirname(path) for path in self.paths if basename(path).lower() == "skill.md"}
        owners: dict[str, str | None] = {}

        def owner(folder: str) -> str | None:
            chain = []
            while folder not in owners and folder not in packages and folder:
                chain.append(folder)
                folder = dirname(folder)
            found = folder if folder in packages else owners.get(folder)
            owners.update(dict.fromkeys(chain, found))
            return found

        files: dict[str, list[str]] = {}
        for path in self.paths:
            if (package := owner(dirname(path))) is not None:
                files.setdefault(package, []).append(path)
        return files


def _published(meta: Mapping[str, Any]) -> str:
    """The commit in which ClawHub's archive got the skill, as its _meta.json tells."""
    latest = meta.get("latest")
    found = COMMIT.search(line(latest.get("commit"))) if isinstance(latest, dict) else None
    return found[0] if found else ""


def raw_skill(kind: str, origin: str, data: bytes, *, size: int, **rest: Any) -> RawSkill:
    """The skill under its id: a hash of source and content."""
    content = digest(data)
    ident = f"{kind}-{digest([f'{kind}/{origin}', content])[:32]}"
    return RawSkill(id=ident, source=kind, origin=origin, text=content, size=size, **rest)


def safe(text: str) -> str:
    """``text`` as a database takes it: without NUL and halves of characters."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def line(value: Any) -> str:
    """One line of at most 200 characters; empty for what is no text."""
    return " ".join(safe(value).split())[:200] if isinstance(value, str) else ""
