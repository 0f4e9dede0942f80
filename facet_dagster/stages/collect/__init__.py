"""Stage 1, first step: find SKILL.md files in a folder, a repository or a table (paper, section 3.1).

Nothing is judged here. Each find becomes a RawSkill and its bytes; the caller stores the bytes under
``RawSkill.text``. Packages are hostile: links are never followed out of a package, nothing is run, archives
are not opened, and every read is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from facet_dagster.errors import ConfigError
from facet_dagster.stages.collect.folder import FolderTree, folder_state
from facet_dagster.stages.collect.packages import CAP, Collected, Origin, Unread, collect_tree
from facet_dagster.stages.collect.tables import collect_jsonl, collect_parquet

__all__ = ["CAP", "Collected", "Origin", "Unread", "collect", "collect_folder", "collect_tree", "folder_state"]

ARCHIVES = frozenset({".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar"})
TABLES = {".parquet": collect_parquet, ".jsonl": collect_jsonl, ".ndjson": collect_jsonl}


def collect(path: Path, *, unread: Unread | None = None) -> Iterator[Collected]:
    """Collect from a folder, or from a ``.parquet`` or ``.jsonl`` file.

    What cannot be read by itself goes to ``unread``; without it the first such file raises. Raises ConfigError when
    ``path`` is missing or holds no skills, SourceError when it vanishes while it is read.
    """
    suffix = path.suffix.lower()
    if path.is_dir():
        return collect_folder(path, unread=unread)
    if suffix in TABLES and path.is_file():
        return TABLES[suffix](path, unread=unread)
    if suffix in ARCHIVES and path.exists():
        raise ConfigError(f"{path} is an archive, and archives are not opened: unpack it into a folder first.")
    if path.exists():
        raise ConfigError(
            f"{path} is neither a folder nor a .parquet or .jsonl file; give a folder that holds SKILL.md files."
        )
    raise ConfigError(f"{path} does not exist; give a folder that holds SKILL.md files, or a .parquet or .jsonl file.")


def collect_folder(path: Path, *, rule: str = "", unread: Unread | None = None) -> Iterator[Collected]:
    """Every SKILL.md below ``path``; ``rule`` is the licence under which a registry publishes (see Origin).

    Raises ConfigError when there is no such folder or no SKILL.md in it.
    """
    if not path.is_dir():
        raise ConfigError(f"{path} is not a folder; give a folder that holds SKILL.md files.")
    root = path.resolve()
    return collect_tree(FolderTree(root), Origin("folder", name=root.name, rule=rule), unread=unread)
