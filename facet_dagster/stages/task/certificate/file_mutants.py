"""Small errors in the files of accepted work, and other spellings of it: what the verifier tells apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from facet_dagster.domain.file_variants import choose, equivalents, mutants
from facet_dagster.domain.findings import Variant
from facet_dagster.stages.task.certificate.bench import Asked, Bench, Seen
from facet_dagster.stages.task.certificate.effort import Effort
from facet_dagster.stages.task.certificate.final import Final
from facet_dagster.stages.task.render import markdown

# What instruction or rules say when they decide a spelling: to refuse another one is then no over-strictness.
_SPOKEN = {
    "quoted": re.compile(r"quot", re.IGNORECASE),
    "crlf": re.compile(r"\bLF\b|line feed|newline|line end", re.IGNORECASE),
    "final_newline": re.compile(r"\bLF at|(final|trailing|last|one) (newline|line feed)|newline at", re.IGNORECASE),
    "indent": re.compile(r"indent|compact|one line", re.IGNORECASE),
    "sort_keys": re.compile(r"(keys|members|fields)[^.]{0,60}(order|sorted)", re.IGNORECASE),
    "spaces": re.compile(r"compact|no (space|blank)|separator", re.IGNORECASE),
}
SPOKEN = "; the texts speak of it"
FREE_TEXT = frozenset({"md", "txt", "rst", "html", "htm"})


def judged_variants(bench: Bench, final: Final, effort: Effort, rules: str) -> list[str]:
    """Remarks about mutants that are accepted and other spellings that are refused: questions to a reader.

    A spelling of which the instruction or ``rules`` say something may be refused.
    """
    wrong = {path: _mutants_of(path, data, final) for path, data in final.outputs.items()}
    equal = {path: equivalents(path, data) for path, data in final.outputs.items()}
    asked = [
        *_asked(final, "file_mutant", choose(wrong, most=effort.mutants)),
        *_asked(final, "equivalent", choose(equal, most=effort.equivalents)),
    ]
    texts = f"{markdown(bench.draft.instruction)}\n{rules}"
    told = [one._replace(what=one.what + SPOKEN) if _spoken(one.ident, texts) else one for one in asked]
    return [text for seen in bench.judge_each(told, final.left) if (text := _remark(seen))]


def _spoken(ident: str, texts: str) -> bool:
    """Whether a spelling is one that ``texts`` say something of: then its refusal is no question to a reader."""
    kind, _, name = ident.partition("/")
    pattern = _SPOKEN.get(name.rpartition(":")[2]) if kind == "equivalent" else None
    return pattern is not None and pattern.search(texts) is not None


def _remark(seen: Seen) -> str:
    probe = seen.probe
    if probe.kind == "equivalent" and probe.reward != 1 and not probe.what.endswith(SPOKEN):
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
