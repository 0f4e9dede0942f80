"""How much a certificate tries."""

from __future__ import annotations

from pydantic import Field

from facet_dagster.domain.outcome import Value


class Effort(Value):
    """Upper limits: altered outputs that are judged, other spellings of them, other seeds of the generator."""

    mutants: int = Field(default=20, ge=0, le=1_000)
    equivalents: int = Field(default=6, ge=0, le=1_000)
    reseeds: int = Field(default=2, ge=0, le=20)


USUAL = Effort()
