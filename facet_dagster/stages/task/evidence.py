"""What a repair is shown: the task under the names by which edits address its parts, and why it is not valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from facet_dagster.domain.environment import Environment
from facet_dagster.domain.task import Draft, RepairRound, Validation
from facet_dagster.errors import InvariantError


def artifacts(draft: Draft) -> dict[str, Any]:
    """The draft with the names by which edits address its parts."""
    return {
        "title": draft.instruction.title,
        "instruction": draft.instruction.intro,
        "sections": [
            {"target": f"section {n}", "rids": s.rids, "text": s.text} for n, s in enumerate(draft.instruction.sections)
        ],
        "outputs": draft.instruction.outputs,
        "solve.sh": draft.solution.solve_sh,
        "helpers": draft.verifier.helpers,
        "checks": [check.model_dump(mode="json") for check in draft.verifier.checks],
        **({"collect": [command.model_dump(mode="json") for command in draft.collect]} if draft.collect else {}),
    }


def recipe_view(environment: Environment) -> dict[str, Any]:
    """What an environment repair may edit: paths of literal files (their content stands in e0) and the generator."""
    services = environment.recipe.services
    return {
        "literal_files": [file.path for file in environment.recipe.files],
        "generator": environment.recipe.generator,
        **({"services": [service.model_dump(mode="json") for service in services]} if services else {}),
    }


def evidence(validation: Validation) -> dict[str, Any]:
    """Why the draft is not valid. Texts that may differ between machines stand under ``log_tail``."""
    rejection = validation.rejection
    if rejection is None:
        raise InvariantError("A valid task has no evidence of a defect")
    data = dict(rejection.evidence)
    problems = [{"log_tail": text} for text in data.pop("problems", [])]
    shown = dict(_certificate(data))
    return {
        "reason": str(rejection.reason),
        "component_by_rule": str(rejection.component),
        "what_happened": {"log_tail": rejection.message},
        "rule_problems": problems,
        "program": {name: data.pop(name) for name in ("end", "exit_code", "log_tail") if name in data},
        "checks_not_passed": data.pop("failed", []) or data.pop("checks", []),
        "checks_passed_at_start": data.pop("passed", []),
        "remarks": list(validation.remarks),
        **({"tried_by_certificate": shown} if shown else {}),
    }


def _certificate(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a certificate tried, and what came of it: by kind of finding, as much of it as a repair can act on."""
    if "findings" in data:
        yield "surviving_mutants", [_mutant(finding) for finding in data["findings"]]
    if "said" in data:
        yield "referee", data["said"]
        yield "second_solution", data.get("second_script", "")
    if "known" in data:
        yield "known_states", data["known"]
    if "probe" in data:
        yield "probe", {name: data["probe"][name] for name in ("what", "wanted", "reward")}
    if "path" in data:
        yield "answer_found", {"path": data["path"], "what": data["found"]}
    if "limit" in data:
        yield "seconds_allowed", data["limit"]


def _mutant(finding: Mapping[str, Any]) -> dict[str, Any]:
    """A wrong reading, the place in solve.sh that has it, and what of the final state it changes."""
    found = finding["evidence"]
    mutant = {name: found["mutant"][name] for name in ("rule", "wrong_reading", "find", "replace")}
    return {
        **mutant,
        "says": finding["what"],
        "files_that_differ": found["differing"],
        "solution_minus_mutant_plus": {"log_tail": found["difference"]},
        **({"row_that_should_tell": found["row"]} if found["row"] else {}),
    }


def history_entry(item: RepairRound) -> dict[str, Any]:
    return {
        "round": item.round,
        "component": str(item.component),
        "evidence": item.evidence,
        "changed": list(item.changed),
        "result": {"log_tail": item.result},
    }
