"""Small errors in the files of accepted work, and other spellings of it: what the verifier tells apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from facet_dagster.domain.file_variants import choose, equivalents, mutants
from facet_dagster.domain.findings import Variant
from facet_dagster.stages.task.certificate.bench import Bench, Seen
from facet_dagster.stages.task.certificate.final import Final

MUTANTS = 20
EQUIVALENTS = 6
FREE_TEXT = frozenset({"md", "txt", "rst", "html", "htm"})


def judged_mutants(bench: Bench, final: Final) -> list[str]:
    """Remarks about mutants that are accepted: each is a question to whoever wrote the verifier."""
    per_file = {path: _mutants_of(path, data, final) for path, data in final.outputs.items()}
    seen = _judged(bench, final, "file_mutant", choose(per_file, most=MUTANTS))
    return [f"A mutant is accepted: {s.probe.what} ({s.probe.id})." for s in seen if s.probe.reward == 1]


def judged_equivalents(bench: Bench, final: Final) -> list[str]:
    """Remarks about other spellings of the same content that are refused."""
    chosen = choose({path: equivalents(path, data) for path, data in final.outputs.items()}, most=EQUIVALENTS)
    seen = _judged(bench, final, "equivalent", chosen)
    return [
        f"Another spelling is refused by {_checks(s)}: {s.probe.what} ({s.probe.id})."
        for s in seen
        if s.probe.reward != 1
    ]


def _checks(seen: Seen) -> str:
    return ", ".join(seen.probe.failed[:10]) or "no check failed"


def _mutants_of(path: str, data: bytes, final: Final) -> tuple[Variant, ...]:
    free = path.rpartition(".")[2].lower() in FREE_TEXT
    return mutants(path, data, free_text=free, before=final.initial.get(path))


def _judged(bench: Bench, final: Final, kind: str, variants: Sequence[Variant]) -> Iterator[Seen]:
    for variant in variants:
        if final.differs({variant.path: variant.data}):
            left = final.altered({variant.path: variant.data})
            yield bench.judge(f"{kind}/{variant.path}:{variant.kind}", f"{variant.path}: {variant.what}", left)
