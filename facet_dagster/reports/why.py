"""Why did this die, and what was it made from: everything the ledger knows about one id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from facet_dagster.domain.causes import cause_of
from facet_dagster.domain.facts import (
    AttemptFact,
    CandidateFact,
    CheckFact,
    Fact,
    RawSkillFact,
    SeedFact,
    SkillFact,
    StageFact,
    TrialFact,
)
from facet_dagster.domain.findings import wanted_reward
from facet_dagster.domain.outcome import StageResult, Value, Verdict
from facet_dagster.domain.task import Certificate
from facet_dagster.errors import ConfigError
from facet_dagster.funnel import Memo, current
from facet_dagster.pipeline.graph import SeedStages, seed_stages
from facet_dagster.pipeline.quarantine import quarantined
from facet_dagster.ports import ArtifactStore, Ledger
from facet_dagster.reports.decisions import decisions
from facet_dagster.reports.provenance import curated_last
from facet_dagster.settings import Settings


class SkillSource(Value):
    """A skill in a lineage: where it came from, under which licence, and what stage 1 decided.

    ``licence_evidence`` says where the licence is stated, ``commit`` in which state of a repository it was found.
    """

    id: str
    name: str
    licence: str
    origin: str
    verdict: str
    reason: str = ""
    message: str = ""
    licence_evidence: str = ""
    share_alike: bool = False
    commit: str = ""


class Other(Value):
    """A result of the same seed that is not in force: of an earlier version, other settings, or before a retry."""

    stage: str
    under: str
    verdict: str
    reason: str = ""
    message: str = ""
    artifact: str | None = None
    attempts: tuple[dict[str, Any], ...] = ()
    trials: tuple[dict[str, Any], ...] = ()


class Why(Value):
    """The story of an id. ``stage``, ``reason`` and ``component`` are empty while nothing rejected it.

    ``cause`` is which of the six causes of failure a task's rejection belongs to. A trial whose kind holds a slash
    is a probe of a certificate, or a known state; ``ok`` says of these, and of every trial of a certificate, whether it
    came out as wanted. ``remarks`` are those of the certificate. Attempts and trials are those of the results in force;
    ``others`` are the results that are not, each with its own. ``decisions`` are people's, and those of checks.
    """

    id: str
    kind: str
    verdict: str
    stage: str = ""
    reason: str = ""
    component: str = ""
    cause: str = ""
    message: str = ""
    evidence: dict[str, Any] = {}
    skills: tuple[SkillSource, ...] = ()
    stages: tuple[dict[str, Any], ...] = ()
    attempts: tuple[dict[str, Any], ...] = ()
    trials: tuple[dict[str, Any], ...] = ()
    remarks: tuple[str, ...] = ()
    others: tuple[Other, ...] = ()
    decisions: tuple[dict[str, Any], ...] = ()
    quarantined: bool = False
    ancestors: tuple[tuple[int, str, str, str], ...] = ()


def why(ident: str, settings: Settings, ledger: Ledger, store: ArtifactStore | None = None) -> Why:
    """The story of a seed (or task), candidate or skill; ``ident`` may be any unambiguous prefix.

    The remarks of a certificate are read from ``store``. Raises ConfigError when nothing, or more than one thing,
    has that id.
    """
    kind, full = resolve(ident, ledger)
    if kind == "seed":
        return _why_seed(full, settings, ledger, store)
    if kind == "candidate":
        return _why_candidate(full, ledger, store)
    return _why_skill(full, ledger, store)


def resolve(ident: str, ledger: Ledger) -> tuple[str, str]:
    """Kind (seed, candidate or skill) and full id of any unambiguous prefix. Raises ConfigError."""
    ident = ident.removeprefix("facet/")
    if ledger.values(SeedFact, "key", key=ident):
        return "seed", ident
    known = {key: "seed" for (key,) in ledger.values(SeedFact, "key")}
    known |= {candidate: "candidate" for (candidate,) in ledger.values(CandidateFact, "candidate")}
    known |= {skill: "skill" for (skill,) in ledger.values(RawSkillFact, "skill")}
    found = [ident] if ident in known else sorted(full for full in known if full.startswith(ident))
    if not ident or not found:
        raise ConfigError(f"Nothing has the id {ident!r}: `facet seeds` and `facet tasks` list what there is")
    if len(found) > 1:
        raise ConfigError(f"{ident!r} is the beginning of {len(found)} ids, such as {', '.join(found[:3])}")
    return known[found[0]], found[0]


def _why_seed(key: str, settings: Settings, ledger: Ledger, store: ArtifactStore | None) -> Why:
    seed = ledger.find(SeedFact, key=key)[0]
    memo = Memo()
    results = [
        result
        for stage in seed_stages(settings)
        if (result := current(stage, [key], ledger, memo).get(key)) is not None
    ]
    computed = [result for result in results if result.verdict is not Verdict.NOT_REACHED]
    last = next((r for r in computed if r.verdict is Verdict.REJECTED), computed[-1] if computed else None)
    rejection = last.rejection if last else None
    past = _Past(key, {result.input_digest for result in computed}, ledger)
    return Why(
        id=key,
        kind="seed",
        verdict=last.verdict if last else "not started",
        stage=last.stage if last else "",
        reason=rejection.reason if rejection else "",
        component=rejection.component if rejection else "",
        cause=(cause_of(rejection) or "") if rejection else "",
        message=rejection.message if rejection else "",
        evidence=rejection.evidence if rejection else {},
        skills=tuple(_source(skill, ledger, store) for skill in (seed.first, seed.second)),
        stages=tuple(_stage_line(result) for result in computed),
        attempts=past.attempts(),
        trials=past.trials(),
        remarks=_remarks(last, store),
        others=past.others(),
        decisions=tuple(decisions(key, ledger)),
        quarantined=key in quarantined(ledger, key),
        ancestors=tuple(ledger.ancestors(key)),
    )


class _Past:
    """What was done for one seed, told apart by the result that it belongs to.

    What belongs to no stored result, such as agents' attempts, is shown with what is in force.
    """

    def __init__(self, key: str, in_force: set[str], ledger: Ledger) -> None:
        self._ledger = ledger
        self._old = [f for f in ledger.find(StageFact, key=key) if f.input_digest not in in_force]
        self._old = [fact for fact in self._old if fact.stage in SeedStages._fields]
        known = {fact.input_digest for fact in self._old}
        self._attempts, self._trials = (
            defaultdict[str, list[AttemptFact]](list),
            defaultdict[str, list[TrialFact]](list),
        )
        for attempt in ledger.find(AttemptFact, key=key):
            self._attempts[attempt.input_digest if attempt.input_digest in known else ""].append(attempt)
        for trial in ledger.find(TrialFact, key=key):
            self._trials[trial.input_digest if trial.input_digest in known else ""].append(trial)

    def attempts(self, of: str = "") -> tuple[dict[str, Any], ...]:
        return tuple(map(_plain, self._attempts[of]))

    def trials(self, of: str = "") -> tuple[dict[str, Any], ...]:
        made = self._trials[of]
        checks = defaultdict[str, list[CheckFact]](list)
        for check in self._ledger.find(CheckFact, trial=[fact.fact_id for fact in made]) if made else ():
            checks[check.trial].append(check)
        return tuple(_trial(fact, checks[fact.fact_id]) for fact in made)

    def others(self) -> tuple[Other, ...]:
        return tuple(
            Other(
                stage=fact.stage,
                under=fact.under or "settings that were not recorded",
                verdict=fact.verdict,
                reason=fact.reason,
                message=fact.result.rejection.message if fact.result.rejection else "",
                artifact=fact.result.output,
                attempts=self.attempts(fact.input_digest),
                trials=self.trials(fact.input_digest),
            )
            for fact in self._old
        )


def _remarks(last: StageResult | None, store: ArtifactStore | None) -> tuple[str, ...]:
    """Of a certificate, when that is what was computed last."""
    if last is None or last.stage != "certificate" or last.output is None or store is None:
        return ()
    return Certificate.model_validate_json(store.get(last.output)).remarks


def _stage_line(result: StageResult) -> dict[str, Any]:
    return {
        "stage": result.stage,
        "verdict": result.verdict.value,
        "numbers": result.numbers,
        "artifact": result.output,
        "seconds": result.seconds,
    }


def _plain(fact: Fact) -> dict[str, Any]:
    return fact.model_dump(mode="json")


def _trial(fact: TrialFact, checks: Sequence[CheckFact]) -> dict[str, Any]:
    failed = [{"check": c.check, "status": c.status, "message": c.message} for c in checks if c.status != "pass"]
    told = {"ok": fact.reward == wanted_reward(fact.kind)} if fact.stage == "certificate" or "/" in fact.kind else {}
    return {**_plain(fact), "checks": len(checks), "failed": failed, **told}


def _source(skill: str, ledger: Ledger, store: ArtifactStore | None) -> SkillSource:
    facts = ledger.find(SkillFact, skill=skill)
    if not facts:
        raw = ledger.find(RawSkillFact, skill=skill)
        origin = str(raw[0].value.get("origin", "")) if raw else ""
        return SkillSource(id=skill, name="", licence="", origin=origin, verdict="not curated")
    fact = facts[-1]
    said = curated_last(skill, ledger, store) if store is not None else None
    kept = said.skill if said is not None else None
    return SkillSource(
        id=skill,
        name=fact.name,
        licence=fact.licence,
        origin=fact.origin,
        verdict=fact.verdict,
        reason=fact.reason,
        message=fact.message,
        licence_evidence=kept.licence.evidence if kept else "",
        share_alike=kept.licence.share_alike if kept else False,
        commit=kept.commit if kept else "",
    )


def _why_candidate(ident: str, ledger: Ledger, store: ArtifactStore | None) -> Why:
    fact = ledger.find(CandidateFact, candidate=ident)[-1]
    rejected = fact.verdict is Verdict.REJECTED
    return Why(
        id=ident,
        kind="candidate",
        verdict=fact.verdict,
        stage="seed_candidates" if rejected else "",
        reason=fact.reason,
        component="seed" if rejected else "",
        message=fact.message,
        skills=tuple(_source(skill, ledger, store) for skill in (fact.first, fact.second)),
        ancestors=tuple(ledger.ancestors(ident)),
    )


def _why_skill(ident: str, ledger: Ledger, store: ArtifactStore | None) -> Why:
    source = _source(ident, ledger, store)
    rejected = source.verdict == Verdict.REJECTED
    said = curated_last(ident, ledger, store) if store is not None else None
    return Why(
        id=ident,
        kind="skill",
        verdict=source.verdict,
        stage="skills" if rejected else "",
        reason=source.reason,
        component="skill" if rejected else "",
        message=source.message,
        evidence=said.rejection.evidence if said is not None and said.rejection else {},
        skills=(source,),
        ancestors=tuple(ledger.ancestors(ident)),
    )
