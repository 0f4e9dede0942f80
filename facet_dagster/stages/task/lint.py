"""What is wrong with a draft before any trial. Every problem is one sentence with the component it belongs to."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from facet_dagster.domain.outcome import Component
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.task import Draft, InstructionReply, SolutionReply, VerifierReply
from facet_dagster.errors import ConfigError
from facet_dagster.stages.task import syntax
from facet_dagster.stages.task.live import ARTIFACTS
from facet_dagster.stages.task.render import checks_module, markdown, script

MIN_CHECKS = 12
MAX_CHARS = {Component.INSTRUCTION: 12_000, Component.SOLUTION: 48_000, Component.VERIFIER: 120_000}
LEAK_CHARS = 40
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1[^\n]*\n.*?^\t*\2$", re.MULTILINE | re.DOTALL)
_NETWORK = re.compile(
    r"(?:^|[;&|(`]|\bsudo\s|\bthen\s|\bdo\s)[ \t]*"
    r"(curl|wget|apt|apt-get|pip3?|python3? -m pip|npm|npx|ssh|scp|nc|git clone)[ \t]",
    re.MULTILINE,
)
_LOOPBACK = frozenset({"curl", "wget", "nc"})  # may rightly ask a service of the task
_SOCKET = re.compile(
    r"^\s*(?:import|from)\s+(socket|urllib\.request|requests|http\.client|httpx|aiohttp)\b", re.MULTILINE
)
_JUDGE = re.compile(r"(?<![\w/.}-])/(tests|logs/verifier|logs/agent|solution)(?=[/\s\"')]|$)", re.MULTILINE)
_MACHINERY = re.compile(r"solve\.sh|(?<![\w/.-])/tests\b|run_checks|/logs/verifier")
_CODE = re.compile(r"[()=$;]")  # a header or a sentence may rightly stand in both texts
_CLOCK = re.compile(r"datetime\.(?:now|utcnow|today)\(|date\.today\(|time\.time\(|\$\(date\b(?![^)]*-d)|random\.\w+\(")


class Problem(NamedTuple):
    """A broken rule as a sentence, and the component that breaks it."""

    component: Component
    text: str


def lint(draft: Draft, scenario: Scenario, rules_file: str, *, services: bool = False) -> tuple[Problem, ...]:
    """All problems of a draft, instruction first. ``services`` says that something answers on the loopback."""
    return (
        *lint_instruction(draft.instruction, scenario, rules_file, draft.solution),
        *lint_solution(draft.solution, services=services),
        *lint_verifier(draft.verifier, scenario, draft.instruction),
        *_collect_problems(draft, services=services),
    )


def _collect_problems(draft: Draft, *, services: bool) -> Iterator[Problem]:
    if draft.collect and not services:
        yield Problem(Component.VERIFIER, "There are collect commands, but the environment runs no service.")
    for command in draft.collect:
        if ARTIFACTS not in command.command:
            text = f"The collect command {command.command[:80]!r} writes nothing below {ARTIFACTS}."
            yield Problem(Component.VERIFIER, text)


def lint_instruction(
    instruction: InstructionReply, scenario: Scenario, rules_file: str, solution: SolutionReply | None = None
) -> tuple[Problem, ...]:
    """``rules_file`` is relative to /app; ``solution`` is known only once it is written."""
    text = markdown(instruction)
    texts = [
        *_too_long(text, "instruction", Component.INSTRUCTION),
        *_section_problems(instruction, scenario),
        *_path_problems(instruction, scenario),
        *([] if rules_file in text else [f"The instruction does not mention the rules file /app/{rules_file}."]),
        *_leak_problems(text, solution),
    ]
    return tuple(Problem(Component.INSTRUCTION, text) for text in texts)


def _section_problems(instruction: InstructionReply, scenario: Scenario) -> Iterator[str]:
    known = _requirements(scenario)
    stated = [rid for section in instruction.sections for rid in section.rids]
    for rid in known:
        if rid not in stated:
            yield f"Requirement {rid} is stated in no section of the instruction."
    for rid in sorted(set(stated) - set(known)):
        yield f"A section of the instruction names {rid}, which is no requirement of the scenario."


def _path_problems(instruction: InstructionReply, scenario: Scenario) -> Iterator[str]:
    for path in instruction.outputs:
        if not re.fullmatch(r"/app/[^\s]+", path) or ".." in path:
            yield f"The instruction's output {path!r} is not an absolute path below /app."
    for path in scenario.references.outputs:
        if path.rstrip("/") not in {p.rstrip("/") for p in instruction.outputs}:
            yield f"The scenario's output {path} is missing from the instruction's outputs."


def _leak_problems(text: str, solution: SolutionReply | None) -> Iterator[str]:
    if _MACHINERY.search(text):
        yield "The instruction speaks of solve.sh or of the tests; it must speak of the work only."
    lines = script(solution.solve_sh).splitlines() if solution else []
    code = [line.strip() for line in lines if _CODE.search(line) and not line.lstrip().startswith("#")]
    leaked = next((line for line in code if len(line) >= LEAK_CHARS and line in text), None)
    if leaked is not None:
        yield f"The instruction holds a line of the solution: {leaked[:80]!r}."


def lint_solution(solution: SolutionReply, *, services: bool = False) -> tuple[Problem, ...]:
    """Problems of solve.sh: syntax, network, reading what judges it, clock and chance."""
    text = script(solution.solve_sh)
    code = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    texts = [*_too_long(text, "solution", Component.SOLUTION), *_bash_problems(text)]
    texts += [
        f"solve.sh calls {m[1].strip()!r}, but there is no network."
        for m in _NETWORK.finditer(_HEREDOC.sub("", code))
        if not (services and m[1] in _LOOPBACK)
    ]
    texts += [f"solve.sh imports {m[1]}, but there is no network." for m in _SOCKET.finditer(code) if not services]
    texts += [f"solve.sh uses /{m[1]}, which does not exist while it runs." for m in _JUDGE.finditer(code)]
    texts += [f"solve.sh uses {m[0]!r}, so its result is not the same each time." for m in _CLOCK.finditer(code)]
    return tuple(Problem(Component.SOLUTION, text) for text in dict.fromkeys(texts))


def _bash_problems(text: str) -> Iterator[str]:
    """``bash -n`` reads the script from a pipe and runs nothing of it."""
    try:
        done = subprocess.run(
            ["bash", "--norc", "--noprofile", "-n"],
            input=text.encode(errors="replace"),
            capture_output=True,
            timeout=20,
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
            check=False,
        )
    except FileNotFoundError as error:
        raise ConfigError("bash is not installed; it is needed to check the syntax of solutions") from error
    except subprocess.TimeoutExpired:
        yield "solve.sh could not be parsed by bash in 20 s."
        return
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        yield f"solve.sh is no valid bash: {' '.join(said[:2])[:300]}"


def lint_verifier(
    verifier: VerifierReply, scenario: Scenario, instruction: InstructionReply | None = None
) -> tuple[Problem, ...]:
    """Problems of helpers and checks: syntax, forbidden calls, checks that cannot fail, and the join with rids."""
    source = checks_module(verifier)
    texts = [
        *_too_long(source, "verifier", Component.VERIFIER),
        *syntax.problems(verifier),
        *_id_problems(verifier),
        *_join_problems(verifier, scenario),
        *_output_problems(verifier, instruction.outputs if instruction else ()),
    ]
    if not texts:
        texts += _compile_problems(source)
    if len(verifier.checks) < MIN_CHECKS:
        texts.append(f"The verifier has {len(verifier.checks)} checks; write at least {MIN_CHECKS}.")
    return tuple(Problem(Component.VERIFIER, text) for text in dict.fromkeys(texts))


def _compile_problems(source: str) -> Iterator[str]:
    """What only the compiler sees; compiling runs nothing."""
    try:
        compile(source, "checks.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield f"checks.py does not compile: {error}"


def _id_problems(verifier: VerifierReply) -> Iterator[str]:
    ids = [check.id for check in verifier.checks]
    for ident in sorted({i for i in ids if ids.count(i) > 1}):
        yield f"Check id {ident} is used more than once."
    for check in verifier.checks:
        unknown = [name for name in check.depends_on if name not in ids]
        if unknown:
            yield f"Check {check.id} depends on {', '.join(unknown)}, which does not exist."
    cycle = _on_a_cycle({check.id: set(check.depends_on) & set(ids) for check in verifier.checks})
    if cycle:
        yield f"Checks {', '.join(sorted(cycle))} depend on each other in a circle."


def _on_a_cycle(needs: dict[str, set[str]]) -> set[str]:
    left = dict(needs)
    while True:
        ready = [name for name, unmet in left.items() if not unmet & set(left)]
        if not ready:
            return set(left)
        for name in ready:
            del left[name]


def _join_problems(verifier: VerifierReply, scenario: Scenario) -> Iterator[str]:
    known, tested = _requirements(scenario), {check.rid for check in verifier.checks}
    for rid in known:
        if rid not in tested:
            yield f"Requirement {rid} has no check."
    for check in verifier.checks:
        if check.rid not in known:
            yield f"Check {check.id} tests {check.rid}, which is no requirement of the scenario."


def _output_problems(verifier: VerifierReply, outputs: Sequence[str]) -> Iterator[str]:
    source = "\n".join([verifier.helpers, *(check.body for check in verifier.checks)])
    for path in outputs:
        if path.rstrip("/").rpartition("/")[2] not in source:
            yield f"No check names the output {path}."


def _too_long(text: str, what: str, component: Component) -> Iterator[str]:
    if len(text) > MAX_CHARS[component]:
        yield f"The {what} has {len(text)} characters; the limit is {MAX_CHARS[component]}."


def _requirements(scenario: Scenario) -> list[str]:
    return [requirement.rid for requirement in scenario.references.requirements]
