"""People look at a sample of certified tasks: how it is drawn, and how many of them have a defect."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import sqrt

from facet_dagster.domain.facts import AuditFact, SampleFact
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Value
from facet_dagster.errors import ConfigError
from facet_dagster.ports import Ledger
from facet_dagster.reports.statistics import Rate, rate
from facet_dagster.reports.tasks import TaskLine

Z = 1.959963984540054  # of a 95 % interval
Stratum = tuple[str, bool]


class StratumRate(Value):
    """Verdicts on one stratum: ``tasks`` it had when drawn, ``drawn`` of them, and the defects among the judged."""

    family: str
    repaired: bool
    tasks: int
    drawn: int
    defects: Rate


class AuditReport(Value):
    """``plain``: defects among all that were judged, with Wilson's interval. ``weighted``: every stratum counts as
    many tasks as it has; its interval is normal, with variances of (defects + 1) / (judged + 2) and the correction for
    a finite population. It is None while a stratum that was drawn has no verdict. ``open`` are tasks without one."""

    sample: str
    drawn: int
    plain: Rate
    weighted: float | None
    low: float | None
    high: float | None
    strata: tuple[StratumRate, ...]
    open: tuple[str, ...]
    defects: tuple[str, ...]


def draw(lines: Sequence[TaskLine], count: int, number: int, ledger: Ledger) -> list[SampleFact]:
    """``count`` tasks, the strata (family, repaired) in proportion and each with one at least, recorded.

    The same tasks, count and number give the same sample, which is then recorded once. Raises ConfigError without
    a task.
    """
    if not lines:
        raise ConfigError("There is no certified task to audit: `facet funnel` counts the losses")
    strata = defaultdict[Stratum, list[TaskLine]](list)
    for line in lines:
        strata[line.families[0] if line.families else "", line.repairs > 0].append(line)
    name = digest([number, count, [(line.key, line.package) for line in lines]])[:12]
    shares = _shares({stratum: len(of) for stratum, of in strata.items()}, count)
    found = [
        SampleFact(
            sample=name,
            key=line.key,
            number=number,
            family=stratum[0],
            repaired=stratum[1],
            of=len(strata[stratum]),
            package=line.package,
        )
        for stratum in sorted(strata)
        for line in random.Random(f"{number} {stratum}").sample(strata[stratum], shares[stratum])  # noqa: S311
    ]
    ledger.append(found)
    return found


def _shares(sizes: Mapping[Stratum, int], count: int) -> dict[Stratum, int]:
    """Largest remainders, after one for each stratum, the largest first where there are too few."""
    order = sorted(sizes, key=lambda stratum: (-sizes[stratum], stratum))
    count = min(count, sum(sizes.values()))
    found = {stratum: int(place < count) for place, stratum in enumerate(order)}
    while (left := count - sum(found.values())) > 0:
        free = [s for s in order if found[s] < sizes[s]]
        best = max(free, key=lambda s: (sizes[s] / sum(sizes.values()) * count - found[s], sizes[s], s))
        found[best] += min(left, 1)
    return found


def record(line: TaskLine, ledger: Ledger, *, ok: bool, note: str = "", name: str = "") -> AuditFact:
    """A person's verdict on the version of the task that is in force."""
    with ledger.claim(f"audit/{line.key}"):
        before = ledger.find(AuditFact, key=line.key, package=line.package)
        fact = AuditFact(key=line.key, package=line.package, round=len(before), ok=ok, note=note, name=name)
        ledger.append([fact])
        return fact


def report(ledger: Ledger, sample: str = "") -> AuditReport:
    """Of the sample drawn last, or of the one whose name begins so. Raises ConfigError when there is none."""
    samples = list(dict.fromkeys(fact.sample for fact in ledger.find(SampleFact)))
    found = [name for name in samples if name.startswith(sample)]
    if not found:
        raise ConfigError("There is no such sample: `facet audit sample` draws one")
    facts = ledger.find(SampleFact, sample=found[-1])
    verdicts = {(f.key, f.package): f for f in ledger.find(AuditFact, key=[fact.key for fact in facts])}
    strata = defaultdict[Stratum, list[SampleFact]](list)
    for fact in facts:
        strata[fact.family, fact.repaired].append(fact)
    lines = [_stratum(name, of, verdicts) for name, of in sorted(strata.items())]
    judged = [verdicts[fact.key, fact.package] for fact in facts if (fact.key, fact.package) in verdicts]
    weighted, low, high = _weighted(lines)
    return AuditReport(
        sample=found[-1],
        drawn=len(facts),
        plain=rate(sum(not one.ok for one in judged), len(judged)),
        weighted=weighted,
        low=low,
        high=high,
        strata=tuple(lines),
        open=tuple(fact.key for fact in facts if (fact.key, fact.package) not in verdicts),
        defects=tuple(one.key for one in judged if not one.ok),
    )


def _stratum(name: Stratum, facts: Sequence[SampleFact], verdicts: Mapping[tuple[str, str], AuditFact]) -> StratumRate:
    judged = [verdicts[f.key, f.package] for f in facts if (f.key, f.package) in verdicts]
    defects = rate(sum(not one.ok for one in judged), len(judged))
    return StratumRate(family=name[0], repaired=name[1], tasks=facts[0].of, drawn=len(facts), defects=defects)


def _weighted(strata: Sequence[StratumRate]) -> tuple[float | None, float | None, float | None]:
    if any(not one.defects.of for one in strata):
        return None, None, None
    tasks = sum(one.tasks for one in strata)
    mean = variance = 0.0
    for one in strata:
        share, count, of = one.tasks / tasks, one.defects.count, one.defects.of
        smooth = (count + 1) / (of + 2)  # without it a stratum without a defect would be certain of it
        mean += share * count / of
        variance += share**2 * smooth * (1 - smooth) / of * (1 - of / one.tasks)
    reach = Z * sqrt(variance)
    return mean, max(0.0, mean - reach), min(1.0, mean + reach)
