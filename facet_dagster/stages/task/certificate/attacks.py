"""Work that nobody did: parts of it, trivial files, forged verdicts, inputs made easy. None of it may be accepted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from facet_dagster.domain.archive import Member, unpack
from facet_dagster.domain.environment import WORKDIR
from facet_dagster.domain.file_variants import partials, trivial_attacks
from facet_dagster.domain.formats import decode
from facet_dagster.domain.outcome import Reason, Rejection
from facet_dagster.stages.task.certificate import tampering
from facet_dagster.stages.task.certificate.bench import Asked, Bench, Seen, refusal
from facet_dagster.stages.task.certificate.final import Final, outputs_in
from facet_dagster.stages.task.render import markdown

WHAT = {
    "empty": "empty outputs",
    "input_copy": "outputs that are copies of inputs",
    "bare": "outputs that hold a header, or an empty object, and nothing else",
    "bare_list": "outputs that hold an empty list, or a header, and nothing else",
    "instruction_words": "outputs that repeat the instruction",
}


def accepted_attack(bench: Bench, final: Final, rules_file: str) -> Rejection | None:
    """The first attack that got the reward; what is only judged goes first. ``rules_file`` is relative to /app."""
    return _judged(bench, final) or _forged(bench) or _eased(bench, final, rules_file)


def _judged(bench: Bench, final: Final) -> Rejection | None:
    for seen in bench.judge_each([*_partial(final), *_trivial(bench, final)], final.left):
        if seen.probe.reward == 1 and seen.probe.kind == "partial":
            return refusal(Reason.TASK_PARTIAL_ACCEPTED, f"Part of the work is enough: {seen.probe.what}.", seen)
        if seen.probe.reward == 1:
            return _accepted(seen.probe.what, seen)
    return None


def _partial(final: Final) -> Iterator[Asked]:
    for variant in partials(tuple(final.outputs)):
        left = final.altered({variant.path: variant.data})
        yield Asked(f"partial/{variant.path}:{variant.kind}", variant.what, left)


def _trivial(bench: Bench, final: Final) -> Iterator[Asked]:
    inputs = {path: data for path, data in final.initial.items() if data}
    for name, files in trivial_attacks(tuple(final.outputs), inputs, markdown(bench.draft.instruction)):
        if final.differs(files):
            yield Asked(f"attack/{name}", WHAT.get(name, name), final.altered(files))


def _forged(bench: Bench) -> Rejection | None:
    """A program that does none of the work, and writes wherever a verdict could come from."""
    what = "forged results and planted modules, without any output"
    work = bench.work(tampering.forge(bench.draft.verifier))
    seen = bench.judge("attack/forged", what, work.left, work=work)
    return _accepted(what, seen) if seen.probe.reward == 1 else None


def _eased(bench: Bench, final: Final, rules_file: str) -> Rejection | None:
    """The solution at work on inputs that were cut before: right only for a verifier that trusts /app.

    All inputs are cut at once; then only the end of the longest, which leaves what a verifier names by hand.
    """
    solve_sh, longest = bench.draft.solution.solve_sh, _longest_input(final, rules_file)
    attacks = {"eased": ("inputs that were cut before", tampering.ease(solve_sh, rules_file))}
    if longest:
        attacks["shortened"] = (f"{longest} without its end", tampering.ease(solve_sh, rules_file, only=longest))
    for name, (inputs, program) in attacks.items():
        what = f"the work done on {inputs}"
        work = bench.work(program)
        left = unpack(work.left.app) if work.left.app else {}
        if not _was_cut(left, final) or _same_outputs(bench, left, final):
            continue
        crashed = work.program is None or not work.program.ok
        seen = bench.judge(f"attack/{name}", what, work.left, work=work, crashed=crashed)
        if seen.probe.reward == 1:
            return _accepted(what, seen)
    return None


def _longest_input(final: Final, rules_file: str) -> str | None:
    """The initial text with most lines, and with two at least; the rules are none."""
    texts = {path: data for path, data in final.initial.items() if path != rules_file and decode(data)[1] is not None}
    lines = {path: data.count(b"\n") for path, data in texts.items() if data.count(b"\n") > 1}
    return max(lines, key=lambda path: lines[path], default=None)


def _was_cut(left: Mapping[str, Member], final: Final) -> bool:
    """Whether an input differs from what the plain work left of it; some inputs cannot be cut."""
    names = [f"{WORKDIR.strip('/')}/{path}" for path in final.initial]
    return any(_data(left.get(name)) != _data(final.members.get(name)) for name in names)


def _data(member: Member | None) -> bytes | None:
    return member.data if member else None


def _same_outputs(bench: Bench, left: Mapping[str, Member], final: Final) -> bool:
    found = outputs_in(left, bench.draft.instruction.outputs)
    return {path: found.get(path) for path in final.outputs} == dict(final.outputs)


def _accepted(what: str, seen: Seen) -> Rejection:
    return refusal(Reason.TASK_ATTACK_ACCEPTED, f"The verifier gives the reward for {what}.", seen)
