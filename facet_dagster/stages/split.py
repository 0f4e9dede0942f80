"""Which tasks are held out, so that no skill stands on both sides.

Tasks that share a skill, directly or through others, are one component and go to one side.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from facet_dagster.domain.ids import digest

VERSION = "1"


def components(tasks: Mapping[str, Collection[str]]) -> list[tuple[str, ...]]:
    """Tasks (key -> skills) in groups without a skill in common, each sorted; the largest first."""
    parent = {key: key for key in tasks}

    def root(key: str) -> str:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    first: dict[str, str] = {}
    for key in sorted(tasks):
        for skill in tasks[key]:
            parent[root(key)] = root(first.setdefault(skill, key))
    groups: dict[str, list[str]] = {}
    for key in sorted(tasks):
        groups.setdefault(root(key), []).append(key)
    return sorted((tuple(group) for group in groups.values()), key=lambda group: (-len(group), group))


def held_out(tasks: Mapping[str, Collection[str]], share: float, number: int = 0) -> frozenset[str]:
    """Keys of whole components, at most ``share`` of all tasks; ``number`` draws another choice. Pure.

    It is less than ``share`` where the components leave no better choice, and nothing where one holds all tasks.
    """
    room = int(share * len(tasks) + 1e-9)
    chosen: set[str] = set()
    for group in sorted(components(tasks), key=lambda group: digest([number, group])):
        if len(chosen) + len(group) <= room:
            chosen.update(group)
    return frozenset(chosen)
