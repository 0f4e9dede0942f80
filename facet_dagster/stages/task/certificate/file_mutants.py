"""Small errors in the files of accepted work, and other spellings of it: what the verifier tells apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from facet_dagster.domain.file_variants import choose, equivalents, mutants
from facet_dagster.domain.findings import Variant
from facet_dagster.stages.task.certificate.bench import Asked, Bench, Seen
from facet_dagster.stages.task.certificate.effort import Effort
from facet_dagster.stages.task.certificate.final import Final

FREE_TEXT = frozenset({"md", "txt", "rst", "html", "htm"})


def judged_variants(bench: Bench, final: Final, effort: Effort) -> list[str]:
    """Remarks about mutants that are accepted and other spellings that are refused: questions to a reader."""
    wrong = {path: _mutants_of(path, data, final) for path, data in final.outputs.items()}
    equal = {path: equivalents(path, data) for path, data in final.outputs.items()}
    asked = [
        *_asked(final, "file_mutant", choose(wrong, most=effort.mutants)),
        *_asked(final, "equivalent", choose(equal, most=effort.equivalents)),
    ]
    return [text for seen in bench.judge_each(asked, final.left) if (text := _remark(seen))]


def _remark(seen: Seen) -> str:
    probe = seen.probe
    if probe.kind == "equivalent" and probe.reward != 1:
        return f"Another spelling is refused by {_checks(seen)}: {probe.what} ({probe.id})."
    if probe.kind == "file_mutant" and probe.reward == 1:
        return f"A mutant is accepted: {probe.what} ({probe.id})."
    return ""


def _checks(seen: Seen) -> str:
    return ", ".join(seen.probe.failed[:10]) or "no check failed"


def _mutants_of(path: str, data: bytes, final: Final) -> tuple[Variant, ...]:
    free = path.rpartition(".")[2].lower() in FREE_TEXT
    return mutants(path, data, free_text=free, before=final.initial.get(path))


def _asked(final: Final, kind: str, variants: Sequence[Variant]) -> Iterator[Asked]:
    for variant in variants:
        if final.differs({variant.path: variant.data}):
            left = final.altered({variant.path: variant.data})
            yield Asked(f"{kind}/{variant.path}:{variant.kind}", f"{variant.path}: {variant.what}", left)
