"""Skills: what was collected, and what cleaning made of it (paper, section 3.1 and Tables 3, 4)."""

from __future__ import annotations

import re
from typing import ClassVar

from facet_dagster.domain.outcome import Rejection, Sparse, Value
from facet_dagster.domain.taxonomy import Classification
from facet_dagster.domain.taxonomy import Family as Family


class PackageFacts(Value):
    """What lies beside the SKILL.md."""

    files: int = 1
    scripts: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


class RawSkill(Value):
    """One SKILL.md as collected.

    ``id`` is ``<source kind>-<32 hex>`` of content plus source (never a name: names collide);
    ``origin`` says where it was found; ``text`` is the artifact (sha256) with the raw bytes.
    """

    id: str
    source: str
    origin: str
    owner: str = ""
    slug: str = ""
    text: str
    size: int
    licence_hint: str = ""
    facts: PackageFacts = PackageFacts()


class Licence(Value):
    """``spdx`` identifier, whether redistribution is allowed, and the evidence for it."""

    spdx: str
    allowed: bool
    share_alike: bool = False
    evidence: str


class Skill(Sparse):
    """A skill that survived cleaning. ``body`` is Markdown without front matter.

    ``family`` is the nearest of five descriptions and stands in prompts; ``classified`` is the finer judgement.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"classified"})

    id: str
    name: str
    title: str
    description: str
    body: str
    family: Family
    licence: Licence
    source: str
    origin: str
    notes: tuple[str, ...] = ()
    facts: PackageFacts = PackageFacts()
    classified: Classification | None = None

    @property
    def shelf(self) -> Family:
        """The family under which it is counted, filtered and shown: that of its category where there is one."""
        return self.classified.category.family if self.classified else self.family


class Curated(Value):
    """The outcome of stage 1 for one raw skill: exactly one of ``skill`` and ``rejection``."""

    id: str
    origin: str
    skill: Skill | None = None
    rejection: Rejection | None = None
    duplicate_of: str | None = None


class BucketSkills(Value):
    """The value of ``skills``: what cleaning said about one bucket."""

    items: tuple[Curated, ...]


def describe(name: str, description: str, body: str) -> str:
    """What a skill is compared by: its name, description and headings, at most about 100 tokens."""
    heads = re.findall(r"^#{1,3} +(.{3,60}?)\s*#*$", re.sub(r"^(```|~~~).*?^\1", "", body, flags=re.M | re.S), re.M)
    text = f"{name.replace('-', ' ')}. {description[:400]} {'; '.join(heads[:12])}"
    return " ".join(text.split())[:480]
