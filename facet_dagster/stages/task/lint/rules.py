"""Every rule on a draft: its name, the component it blames, whether it refuses, and what to do."""

from __future__ import annotations

from typing import NamedTuple

from facet_dagster.domain.outcome import Component

INSTRUCTION, SOLUTION = Component.INSTRUCTION, Component.SOLUTION
VERIFIER, ENVIRONMENT = Component.VERIFIER, Component.ENVIRONMENT


class Rule(NamedTuple):
    """``refuses``: a broken one refuses the draft and goes to its repair; otherwise it is a remark on record."""

    component: Component
    refuses: bool
    what: str


RULES: dict[str, Rule] = {
    # What refuses: nothing here is a matter of degree.
    "instruction-length": Rule(INSTRUCTION, True, "Keep the instruction below 12,000 characters."),
    "requirement-section": Rule(INSTRUCTION, True, "State every requirement in a section, and no other."),
    "output-path": Rule(INSTRUCTION, True, "Name every output of the scenario, as an absolute path below /app."),
    "lost-path": Rule(INSTRUCTION, True, "Name no path that is not there and that nothing else knows."),
    "rules-file": Rule(INSTRUCTION, True, "Name the rules file."),
    "machinery": Rule(INSTRUCTION, True, "Speak of the work, never of solve.sh or of the tests."),
    "solution-leak": Rule(INSTRUCTION, True, "Quote no line of the solution."),
    "solution-length": Rule(SOLUTION, True, "Keep solve.sh below 48,000 characters."),
    "bash-syntax": Rule(SOLUTION, True, "Write a script that `bash -n` accepts."),
    "solution-network": Rule(SOLUTION, True, "Fetch nothing: there is no network."),
    "solution-judge": Rule(SOLUTION, True, "Touch nothing below /tests, /solution and /logs."),
    "solution-steady": Rule(SOLUTION, True, "Use neither clock nor chance."),
    "verifier-length": Rule(VERIFIER, True, "Keep the verifier below 120,000 characters."),
    "python-syntax": Rule(VERIFIER, True, "Write helpers and checks that compile."),
    "forbidden-module": Rule(VERIFIER, True, "Import only the allowed part of the standard library."),
    "forbidden-call": Rule(VERIFIER, True, "Start no program, run no text as code, and touch no machinery of Python."),
    "verifier-clock": Rule(VERIFIER, True, "Do not read the clock."),
    "typed-hash": Rule(VERIFIER, True, "Compare with E0_SHA, or compute the hash."),
    "cannot-fail": Rule(VERIFIER, True, "Assert something that can be false."),
    "lost-comparison": Rule(VERIFIER, True, "Assert what is compared; a check's result is not looked at."),
    "caught-failure": Rule(VERIFIER, True, "Let the failure of an assert out of its check."),
    "never-run": Rule(VERIFIER, True, "Make a check a plain function without arguments."),
    "code-on-import": Rule(VERIFIER, True, "Only define in the helpers."),
    "undefined-name": Rule(VERIFIER, True, "Define or import every name."),
    "check-ids": Rule(
        VERIFIER, True, "Give each check an id of its own, and let it depend on others without a circle."
    ),
    "requirement-join": Rule(VERIFIER, True, "Test every requirement, and nothing that is none."),
    "unchecked-output": Rule(VERIFIER, True, "Look at every output of the instruction."),
    "few-checks": Rule(VERIFIER, True, "Write at least 12 checks."),
    "collect": Rule(VERIFIER, True, "Collect only where services run, and write below /logs/artifacts."),
    "expectation-from-app": Rule(VERIFIER, True, "Compute expected values from E0: the work may change files of APP."),
    # Remarks: a pattern that is often a defect.
    "undeclared-path": Rule(INSTRUCTION, False, "Name only paths that are in e0 or outputs."),
    "missing-tool": Rule(SOLUTION, False, "Use only programs of the image, or add the package."),
    "gawk-feature": Rule(SOLUTION, False, "awk is mawk: do without the extensions of gawk."),
    "unknown-literal": Rule(VERIFIER, False, "Take each value from e0, instruction or solution, or recompute it."),
    "unstated-output": Rule(VERIFIER, False, "Look only at files that the instruction or e0 names."),
    "invariant": Rule(VERIFIER, False, "Mark exactly the checks that pass on the untouched initial state."),
    "sampled-comparison": Rule(VERIFIER, False, "Compare a file that is edited in place with its pristine copy in E0."),
    "parse-it": Rule(VERIFIER, False, "Parse and evaluate: a regular expression knows one of many spellings."),
    "exact-beside-tolerance": Rule(VERIFIER, False, "Compare within the tolerance that the instruction gives."),
    "raw-text": Rule(VERIFIER, False, "Parse CSV, JSON and YAML, and split lines in one shared helper."),
    "unsteady-verifier": Rule(VERIFIER, False, "Use neither hash(), id() nor times of files."),
    "boundary-row": Rule(ENVIRONMENT, False, "Give each rule with a limit a discriminator whose row lies on it."),
    "shared-random": Rule(ENVIRONMENT, False, "Make one Random for each generated file, seeded by its name."),
    "encoding-claim": Rule(ENVIRONMENT, False, "Let a file show the encoding or the torn end that it is planned with."),
}


class Problem(NamedTuple):
    """A broken rule as a sentence, the component that breaks it, and the rule's name."""

    component: Component
    text: str
    rule: str


def said(rule: str, text: str) -> Problem:
    return Problem(RULES[rule].component, text, rule)
