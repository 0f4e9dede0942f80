"""Stage 1, first step: find SKILL.md files in a folder tree or in a Parquet table (paper, section 3.1).

Nothing is judged here. Each find becomes a RawSkill and its bytes; the caller stores the bytes under
``RawSkill.text``. Packages are hostile: links are never followed out of a package, nothing is run, and
every read is bounded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from facet_dagster.domain.ids import digest
from facet_dagster.domain.skill import PackageFacts, RawSkill
from facet_dagster.errors import ConfigError

CAP = 4 * 1024 * 1024
META_CAP = 64 * 1024
MOST_FILES = 10_000
MOST_NAMES = 50
BATCH = 2_000

Collected = tuple[RawSkill, bytes]


def collect(path: Path) -> Iterator[Collected]:
    """Collect from a folder or from a ``.parquet`` file.

    Raises ConfigError when ``path`` is missing or holds no skills.
    """
    if path.is_dir():
        return collect_folder(path)
    if path.suffix == ".parquet" and path.is_file():
        return collect_parquet(path)
    if path.exists():
        raise ConfigError(f"{path} is neither a folder nor a .parquet file; give a folder that holds SKILL.md files.")
    raise ConfigError(f"{path} does not exist; give a folder that holds SKILL.md files, or a .parquet file.")


def collect_folder(path: Path) -> Iterator[Collected]:
    """Every SKILL.md below ``path``, in any letter case, in the order of relative paths.

    A package inside a package counts on its own. A file over 4 MiB is not read: its bytes are empty and
    its ``size`` is the true one.

    Raises ConfigError when there is no such folder or no SKILL.md in it.
    """
    if not path.is_dir():
        raise ConfigError(f"{path} is not a folder; give a folder that holds SKILL.md files.")
    root = path.resolve()
    found = sorted(_skill_files(root), key=lambda file: file.relative_to(root).as_posix())
    if not found:
        raise ConfigError(f"{path} holds no SKILL.md; put each skill into a folder of its own with a SKILL.md in it.")
    return (_from_file(root, file) for file in found)


def _skill_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in {".git", "node_modules"})
        yield from (Path(folder) / name for name in files if name.lower() == "skill.md")


def _from_file(root: Path, file: Path) -> Collected:
    size, data = _read(file)
    package = file.parent
    meta = _meta(package)
    origin = file.relative_to(root).as_posix()
    above = package.parent.name if package not in (root, root.parent) and package.parent != root else ""
    raw = _raw(
        "folder",
        origin,
        data,
        size=size,
        owner=_text(meta.get("owner")) or above,
        slug=_text(meta.get("slug")) or package.name,
        licence_hint=_hint(root, package, meta),
        facts=_facts(package),
    )
    return raw, data


def _raw(kind: str, origin: str, data: bytes, *, size: int, **rest: Any) -> RawSkill:
    content = digest(data)
    ident = f"{kind}-{digest([f'{kind}/{origin}', content])[:32]}"
    return RawSkill(id=ident, source=kind, origin=origin, text=content, size=size, **rest)


def _read(file: Path) -> tuple[int, bytes]:
    """Size and bytes. A link that leaves its package is read as its target's name, as version control stores it."""
    try:
        if file.is_symlink() and not _stays_inside(file):
            data = os.readlink(file).encode("utf-8", "replace")
            return len(data), data
        size = file.stat().st_size
        if not file.is_file() or size > CAP:
            return size, b""
        with file.open("rb") as stream:
            return size, stream.read(CAP)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}); make it readable or remove it.") from error


def _stays_inside(link: Path) -> bool:
    try:
        return link.resolve(strict=True).is_relative_to(link.parent.resolve())
    except (OSError, RuntimeError):
        return False


def _meta(package: Path) -> Mapping[str, Any]:
    try:
        value = json.loads(_small(package / "_meta.json") or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _small(file: Path) -> str:
    """The first 64 KiB of a regular file as text; empty when it is missing or a link."""
    try:
        if file.is_symlink() or not file.is_file():
            return ""
        with file.open("rb") as stream:
            return stream.read(META_CAP).decode("utf-8-sig", "replace")
    except OSError:
        return ""


def _text(value: Any) -> str:
    return " ".join(value.split())[:200] if isinstance(value, str) else ""


def _hint(root: Path, package: Path, meta: Mapping[str, Any]) -> str:
    """One line for each piece of evidence, ``<where>: <text>``, the closest first."""
    lines = []
    if own := _licence_file(package):
        lines.append(f"package LICENSE: {own}")
    if named := _text(meta.get("license") or meta.get("licence")):
        lines.append(f"_meta.json: {named}")
    above = package.parent if package != root else None
    while above is not None and above.is_relative_to(root):
        if text := _licence_file(above):
            lines.append(f"repository LICENSE: {text}")
            break
        above = above.parent
    return "\n".join(lines)


def _licence_file(folder: Path) -> str:
    names = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "LICENCE.txt", "LICENCE.md", "COPYING")
    return next((text for name in names if (text := " ".join(_small(folder / name).split())[:200])), "")


def _facts(package: Path) -> PackageFacts:
    """Count and names of what lies beside the SKILL.md; packages inside are not counted."""
    count, scripts, references = 0, list[str](), list[str]()
    for folder, folders, files in os.walk(package):
        here = Path(folder)
        if here != package and any(name.lower() == "skill.md" for name in files):
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if name not in {".git", "node_modules"})
        for name in sorted(files):
            count += 1
            relative = (here / name).relative_to(package)
            top = relative.parts[0].lower()
            if top in {"scripts", "bin"}:
                scripts.append(relative.as_posix())
            elif top in {"references", "reference", "docs"}:
                references.append(relative.as_posix())
        if count > MOST_FILES:
            break
    return PackageFacts(files=count, scripts=tuple(scripts[:MOST_NAMES]), references=tuple(references[:MOST_NAMES]))


def collect_parquet(path: Path) -> Iterator[Collected]:
    """Every row of a table with the columns ``repo``, ``path`` and ``raw`` or ``text``, read in batches.

    ``license``, ``license_evidence``, ``n_files``, ``has_scripts`` and ``has_references`` are used where present.

    Raises ConfigError when the file is no such table.
    """
    try:
        frame = pl.scan_parquet(path)
        columns = frame.collect_schema().names()
        rows = int(frame.select(pl.len()).collect().item())
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ConfigError(f"{path} cannot be read as Parquet: {error}") from error
    missing = [name for name in ("repo", "path") if name not in columns]
    if not {"raw", "text"} & set(columns):
        missing.append("text (or raw)")
    if missing:
        raise ConfigError(f"{path} lacks the columns {', '.join(missing)}; they are needed to name and read a skill.")
    if not rows:
        raise ConfigError(f"{path} has no rows; give a table with one skill a row.")
    return _rows(frame, columns, rows)


def _rows(frame: pl.LazyFrame, columns: list[str], rows: int) -> Iterator[Collected]:
    optional = ("raw", "text", "license", "license_evidence", "n_files", "has_scripts", "has_references")
    wanted = ["repo", "path", *(name for name in optional if name in columns)]
    for start in range(0, rows, BATCH):
        batch = frame.select(wanted).slice(start, BATCH).collect()
        for row in batch.iter_rows(named=True):
            yield _from_row(row)


def _from_row(row: Mapping[str, Any]) -> Collected:
    content = row.get("raw")
    if content is None:
        content = row.get("text") or ""
    data = content if isinstance(content, bytes) else str(content).encode("utf-8", "surrogatepass")
    size = len(data)
    if size > CAP:
        data = b""
    repo, place = _text(row["repo"]), _text(row["path"])
    parts = Path(place).parts
    named = _text(row.get("license"))
    facts = PackageFacts(
        files=int(row.get("n_files") or 1),
        scripts=("scripts/",) if row.get("has_scripts") else (),
        references=("references/",) if row.get("has_references") else (),
    )
    raw = _raw(
        "parquet",
        f"{repo}:{place}",
        data,
        size=size,
        owner=repo.partition("/")[0],
        slug=parts[-2] if len(parts) > 1 else repo.rpartition("/")[2],
        licence_hint=f"{_text(row.get('license_evidence')).replace(':', ',') or 'table'}: {named}" if named else "",
        facts=facts,
    )
    return raw, data
