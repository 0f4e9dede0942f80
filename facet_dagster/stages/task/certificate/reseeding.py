"""The same task on other data: the generator of the fixture runs with another seed, and the work is done on that.

The solution must be accepted there by the verifier over the new initial files, and what it left on the old ones must
be refused. One refusal is no verdict: data of another seed may hold a case that the rules leave open, so each of
several seeds must agree. Outputs that are the same on all data are judged by whether the data is read at all. Rows of
discriminators are literals and must still be there; where one is gone, nothing follows.

Of fixtures without a generator no other data can be made. Dropping a row of a literal file is not fair: it may be the
one that another file refers to, or the only one of its group, and the rules need not say what is right then. What can
be said is that a solution which leaves the same when every input is empty has read none of them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from facet_dagster.domain.archive import pack, unpack
from facet_dagster.domain.dockerfile import GENERATOR
from facet_dagster.domain.environment import DiscriminatorRow, Environment
from facet_dagster.domain.formats import decode
from facet_dagster.domain.outcome import Component, Reason, Rejection
from facet_dagster.errors import SandboxError
from facet_dagster.ports import BuildContext, BuildFailed, Built, Sandbox
from facet_dagster.stages.task.certificate.bench import Bench, Seen, refusal
from facet_dagster.stages.task.certificate.final import Final, outputs_in
from facet_dagster.stages.task.certificate.tampering import blank
from facet_dagster.stages.task.contexts import Contexts, with_e0
from facet_dagster.stages.task.images import e0_archive, shared_verifier
from facet_dagster.stages.task.package import initial_files
from facet_dagster.stages.task.validate import solve_sh

SALT = "other data {number}: "
# Every generator object is seeded through this method. The generator itself stays as it is written.
_RUNNER = """\
import base64
import random


def _salted():
    plain = random.Random.seed

    def seed(self, a=None, version=2):
        plain(self, a if a is None else @SALT@ + repr(a), version)

    random.Random.seed = seed


_salted()
_source = base64.b64decode("@SOURCE@")
exec(compile(_source, __file__, "exec", dont_inherit=True), globals())
"""


@dataclass(frozen=True)
class _Again:
    """One other seed. ``same``: the outputs are those of the old data; ``stale``: the old outputs judged here."""

    seen: Seen
    same: bool
    stale: Seen | None = None
    unread: bool = False
    changed: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        program = self.seen.work.program if self.seen.work else None
        return self.seen.probe.reward == 1 and program is not None and program.ok


def on_other_data(
    bench: Bench, final: Final, contexts: Contexts, environment: Environment, sandbox: Sandbox, *, most: int
) -> tuple[Rejection | None, list[str]]:
    """TASK_HARD_CODED when ``most`` seeds agree on it, else remarks. ``final`` is what the solution left."""
    if GENERATOR not in contexts.environment.files:
        return _never_read(bench, final, environment), []
    refused: list[_Again] = []
    for number in range(1, most + 1):
        with _built(bench, salted(contexts.environment, number), sandbox) as image:
            if isinstance(image, BuildFailed):
                if GENERATOR not in image.step and image.step != "timeout":
                    # All but the generator is as it was when it was built before.
                    said = f"The image with other data does not build ({image.step}): {image.log_tail[-300:]}"
                    raise SandboxError(said, transient=True)
                text = f"The generator fails with another seed ({image.step}): {image.log_tail[-200:].strip()}"
                return None, [text]
            found = _tried(bench, final, contexts, environment, image.image, sandbox, number)
        if isinstance(found, str):
            return None, [found]
        if found.accepted and not found.unread and (found.stale is None or found.stale.probe.reward != 1):
            return None, [_said(one) for one in refused]
        refused.append(found)
        if found.same:
            break
    return (_hard_coded(refused[-1]) if refused else None), []


def _never_read(bench: Bench, final: Final, environment: Environment) -> Rejection | None:
    """None too where services run, which hold data of their own."""
    data = sorted(path for path in final.initial if path != environment.recipe.rules_file)
    if environment.recipe.services or not final.outputs or not data:
        return None
    named = bench.draft.instruction.outputs
    work = bench.work(blank(bench.draft.solution.solve_sh, data))
    left = outputs_in(unpack(work.left.app), named) if work.left.app else {}
    if {path: left.get(path) for path in final.outputs} != dict(final.outputs):
        return None
    seen = bench.judge("stale/empty", "what the solution leaves when every input is empty", work.left, work=work)
    text = "The solution leaves the same outputs when every input is empty: it reads none of them."
    return refusal(Reason.TASK_HARD_CODED, text, seen, component=Component.SOLUTION, changed=data)


def salted(context: BuildContext, number: int) -> BuildContext:
    """The context whose generator runs with other seeds; ``number`` tells them apart."""
    source = base64.b64encode(context.files[GENERATOR]).decode()
    runner = _RUNNER.replace("@SALT@", repr(SALT.format(number=number))).replace("@SOURCE@", source)
    return replace(context, files={**context.files, GENERATOR: runner.encode()})


@contextmanager
def _built(bench: Bench, context: BuildContext, sandbox: Sandbox) -> Iterator[Built | BuildFailed]:
    """The image for the block; nobody needs it afterwards."""
    built = sandbox.build(context, subject=bench.draft.seed, seconds=bench.trials.limits.build_seconds)
    bench.seconds += built.seconds
    if isinstance(built, BuildFailed):
        yield built
        return
    try:
        with sandbox.hold(built.image) as there:
            if not there:
                raise SandboxError(f"Image {built.image} was removed by somebody else", transient=True)
            yield built
    finally:
        sandbox.remove_image(built.image)


def _tried(
    bench: Bench,
    final: Final,
    contexts: Contexts,
    environment: Environment,
    image: str,
    sandbox: Sandbox,
    number: int,
) -> _Again | str:
    """What came of one other seed, or why nothing follows from it."""
    archive = e0_archive(image, sandbox)
    files = initial_files(archive)
    changed = tuple(path for path, data in files.items() if final.initial.get(path) != data)
    if not changed:
        return "The generator writes the same files with another seed: whether answers are typed is not known."
    lost = [row.id for row in lost_rows(environment.recipe.rows, final.initial, files)]
    if lost:
        return f"The rows of {', '.join(lost)} are not there with another seed: they are no literals."
    tests = with_e0(contexts.tests, files)
    trials = bench.trials
    with shared_verifier(environment.base_image, trials.subject, sandbox, trials.limits) as judge:
        packed = pack(tests.files, executable=tests.executable)
        other = replace(trials.images, environment=image, verifier=judge, tests=packed, e0=archive)
        return _worked(bench.beside(replace(trials, images=other)), final, archive, changed, number)


def lost_rows(
    rows: Sequence[DiscriminatorRow], before: Mapping[str, bytes], after: Mapping[str, bytes]
) -> list[DiscriminatorRow]:
    """Those whose mark stood in its file ``before`` and does not ``after``."""

    def stands(row: DiscriminatorRow, files: Mapping[str, bytes]) -> bool:
        return row.find in (decode(files.get(row.path, b""))[1] or "")

    return [row for row in rows if stands(row, before) and not stands(row, after)]


def _worked(bench: Bench, final: Final, archive: bytes, changed: tuple[str, ...], number: int) -> _Again:
    solution, named = solve_sh(bench.draft), bench.draft.instruction.outputs
    work = bench.work(solution)
    seen = bench.judge(f"reseeded/{number}", "the solution on data of another seed", work.left, work=work)
    new = Final.of(work.left, named, archive)
    old = dict(final.outputs)
    same = bool(old) and outputs_of(new, named, old) == old
    found = _Again(seen, same, changed=changed)
    if not found.accepted or not old:
        return found
    if same:
        blind = bench.work(blank(bench.draft.solution.solve_sh, changed))
        left = outputs_in(unpack(blind.left.app), named) if blind.left.app else {}
        return replace(found, unread={path: left.get(path) for path in old} == old)
    what = "what the solution left on the data of the task, on data of another seed"
    return replace(found, stale=bench.judge(f"stale/{number}", what, new.altered(old)))


def outputs_of(final: Final, named: Sequence[str], wanted: Mapping[str, bytes]) -> dict[str, bytes | None]:
    found = outputs_in(final.members, named)
    return {path: found.get(path) for path in wanted}


def _said(one: _Again) -> str:
    if one.stale is not None:
        return (
            f"Outputs of other data were accepted with one other seed and refused with the next ({one.stale.probe.id})."
        )
    return f"The solution was refused on the data of one other seed and accepted on the next ({one.seen.probe.id})."


def _hard_coded(one: _Again) -> Rejection:
    """The solution is blamed where it leaves the same, or fails, whatever the data; otherwise the verifier."""
    changed = ", ".join(one.changed[:5])
    if one.same:
        how = "they are never read" if one.unread else "the verifier expects others"
        text = f"The solution leaves the same outputs when {changed} hold other data: {how}."
        return refusal(Reason.TASK_HARD_CODED, text, one.seen, component=Component.SOLUTION, changed=list(one.changed))
    if one.accepted and one.stale is not None:
        text = f"The verifier accepts outputs that were made from other data than {changed} hold."
        return refusal(Reason.TASK_HARD_CODED, text, one.stale, component=Component.VERIFIER, changed=list(one.changed))
    program = one.seen.work.program if one.seen.work else None
    failed = program is None or not program.ok
    who = "solve.sh fails" if failed else "The verifier refuses what solve.sh makes"
    text = f"{who} when {changed} hold data of another seed: one of the two knows the data of this fixture."
    part = Component.SOLUTION if failed else Component.VERIFIER
    return refusal(Reason.TASK_HARD_CODED, text, one.seen, component=part, changed=list(one.changed))
