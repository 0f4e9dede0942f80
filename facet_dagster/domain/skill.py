"""Skills: what was collected, and what cleaning made of it (paper, section 3.1 and Tables 3, 4)."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from facet_dagster.domain.outcome import Rejection, Sparse, Value
from facet_dagster.domain.taxonomy import Classification
from facet_dagster.domain.taxonomy import Family as Family


class PackageFacts(Sparse):
    """What lies beside the SKILL.md."""

    SPARSE = frozenset({"assets", "tests"})

    files: int = 1
    scripts: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


class RawSkill(Sparse):
    """One SKILL.md as collected.

    ``id`` is ``<source kind>-<32 hex>`` of content plus source (never a name: names collide);
    ``origin`` says where it was found, ``commit`` in which state of a repository.

    ``text`` is the artifact (sha256) that is stored: the file's bytes, or, where something was masked in them,
    the masked text. Then ``notes`` and ``damaged`` (a share, 0 to 1) keep what decoding the bytes had found.
    """

    SPARSE = frozenset({"commit", "notes", "damaged"})

    id: str
    source: str
    origin: str
    owner: str = ""
    slug: str = ""
    text: str
    size: int
    licence_hint: str = ""
    facts: PackageFacts = PackageFacts()
    commit: str = ""
    notes: tuple[str, ...] = ()
    damaged: float = 0.0


class Licence(Value):
    """``spdx`` identifier, whether the policy allows it, and the evidence for it.

    ``share_alike``: what is made from the skill must be shared under the same licence.
    """

    spdx: str
    allowed: bool
    share_alike: bool = False
    evidence: str


class Skill(Sparse):
    """A skill that survived cleaning. ``body`` is Markdown without front matter.

    ``family`` is the nearest of five descriptions and stands in prompts; ``classified`` is the finer judgement.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"classified", "commit"})

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
    commit: str = ""
    classified: Classification | None = None

    @property
    def shelf(self) -> Family:
        """The family under which it is counted, filtered and shown: that of its category where there is one."""
        return self.classified.category.family if self.classified else self.family


class Duplicate(Value):
    """Of which kept skill another one is a copy: of the same file, of the same words, or of most of its word runs."""

    of: str
    kind: Literal["exact", "normalised", "near"]
    similarity: float


class Alike(Value):
    """A kept skill of nearly the same meaning (``cosine`` of their texts): a remark, nothing is dropped."""

    to: str
    cosine: float


class BucketDecisions(Value):
    """What deduplication over the whole corpus said about the skills of one bucket."""

    duplicates: dict[str, Duplicate] = {}
    alike: dict[str, Alike] = {}


class Curated(Sparse):
    """The outcome of stage 1 for one raw skill: exactly one of ``skill`` and ``rejection``."""

    SPARSE = frozenset({"alike"})

    id: str
    origin: str
    skill: Skill | None = None
    rejection: Rejection | None = None
    duplicate_of: str | None = None
    alike: Alike | None = None


class BucketSkills(Value):
    """The value of ``skills``: what cleaning said about one bucket."""

    items: tuple[Curated, ...]


class IndexEntry(Value):
    """One skill in the vector store: the text it is found by, and what searches may be narrowed to."""

    id: str
    text: str
    family: Family
    source: str


class BucketIndex(Value):
    """The value of ``skill_index``: what the vector store holds of one bucket."""

    entries: tuple[IndexEntry, ...]


def describe(name: str, description: str, body: str) -> str:
    """What a skill is compared by: its name, description and headings, at most about 100 tokens."""
    heads = re.findall(r"^#{1,3} +(.{3,60}?)\s*#*$", re.sub(r"^(```|~~~).*?^\1", "", body, flags=re.M | re.S), re.M)
    text = f"{name.replace('-', ' ')}. {description[:400]} {'; '.join(heads[:12])}"
    return " ".join(text.split())[:480]
