"""The written descriptions of the 34 categories: ``categories.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from facet_dagster.domain.outcome import Value
from facet_dagster.domain.seed import TaskFamily
from facet_dagster.domain.taxonomy import Category

FILE = Path(__file__).with_name("categories.toml")


class Described(Value):
    """One category. ``skills`` is the paper's count, None where it prints none (``ours``)."""

    title: str
    skills: int | None = None
    ours: bool = False
    task: TaskFamily
    what: str
    like: tuple[str, ...]
    words: tuple[str, ...]

    def sentences(self) -> tuple[str, ...]:
        return (self.what, *self.like)


@cache
def described() -> Mapping[Category, Described]:
    """Every category with its description, in the order of Table 4."""
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {category: Described.model_validate(_table(tables, category)) for category in Category}


def _table(tables: Mapping[str, Mapping[str, object]], category: Category) -> object:
    family, _, name = category.partition(".")
    return tables[family][name]


@cache
def patterns() -> Mapping[Category, tuple[tuple[str, bool, re.Pattern[str]], ...]]:
    """The words of each category: the plain word, whether it is whole, and what finds it and its plural."""
    return {
        category: tuple((word.rstrip("*"), not word.endswith("*"), _pattern(word)) for word in text.words)
        for category, text in described().items()
    }


def _pattern(word: str) -> re.Pattern[str]:
    stem = re.escape(word.rstrip("*"))
    if not word.isascii():
        return re.compile(stem)
    return re.compile(rf"(?<![a-z0-9]){stem}" + ("" if word.endswith("*") else r"(?:s|es)?(?![a-z0-9])"))
