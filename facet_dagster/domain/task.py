"""Instruction, solution and verifier, and the Harbor task they become (paper, sections 3.3 and 3.4)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from facet_dagster.domain.environment import Environment, Line, Service
from facet_dagster.domain.findings import KillMatrix, KnownState, Probe
from facet_dagster.domain.outcome import Component, Rejection, Sparse, Value
from facet_dagster.domain.trial import Trial

# In which order the artifacts of a draft are written, and how one comes from a pair of skills to a draft.
Order = Literal["forward", "reverse", "joint"]
Pipeline = Literal["facet", "direct", "recording"]


class Section(Value):
    """A part of the instruction and the requirements it states."""

    rids: list[str] = Field(description="requirement ids this section states; empty for context")
    text: str = Field(description="Markdown, no heading, never the requirement ids themselves")


class InstructionReply(Value):
    """Reply of the ``instruction`` call; the Markdown is rendered from it."""

    title: str = Field(description="at most 10 words")
    intro: str = Field(description="who needs what, where the inputs and the rules file are; Markdown, no heading")
    sections: list[Section] = Field(description="together they state every requirement", min_length=1)
    outputs: list[str] = Field(description="absolute paths the work must create", min_length=1)


class SolutionReply(Value):
    """Reply of the ``solution`` call."""

    solve_sh: str = Field(description="complete bash script, runs as user 'agent' with working directory /app")
    steps: list[str] = Field(description="what it does, step by step, each naming its requirement ids")


class Check(Value):
    """One assertion of the verifier, tied to one requirement."""

    id: str = Field(description="C1, C2, ...", pattern=r"^C\d+$")
    rid: str = Field(description="the requirement it tests", pattern=r"^R\d+$")
    title: str = Field(description="at most 12 words: the one rule or field group it tests")
    invariant: bool = Field(default=False, description="true when it also passes on the untouched initial state")
    depends_on: list[str] = Field(default=[], description="check ids that must pass first, e.g. the file parses")
    discriminators: list[str] = Field(default=[], description="ids of the discriminators whose row it looks at")
    body: str = Field(
        description="statements of a Python function without arguments, starting in column 0, without a def line; "
        "uses the helpers, APP and E0; asserts with a message that shows expected and found"
    )


class CollectCommand(Value):
    """A line of shell, run as root when the work is done and the services still run.

    What it writes below /logs/artifacts, as it alone can, the verifier finds at the same path.
    """

    command: Line = Field(
        description="one line of bash, run as root in /app: asks a service and writes the answer below /logs/artifacts"
    )
    seconds: int = Field(default=30, ge=1, le=300, description="its limit")


class VerifierReply(Sparse):
    """Reply of the ``verifier`` call. A draft keeps ``collect`` beside the verifier."""

    SPARSE: ClassVar[frozenset[str]] = frozenset({"collect"})

    helpers: str = Field(
        description="Python 3 standard library: imports, then helper functions; nothing that reads files on import"
    )
    checks: list[Check] = Field(description="18 to 32, parses checks first", min_length=8)
    collect: list[CollectCommand] = Field(
        default=[], max_length=12, description="only where services run: how their state becomes files for the checks"
    )


class JointReply(Value):
    """Reply of the ``joint`` call: all three artifacts at once."""

    instruction: InstructionReply
    solution: SolutionReply
    verifier: VerifierReply


class TaskEdit(Value):
    """Replace ``find`` (must occur exactly once) by ``replace``.

    ``target`` is ``instruction`` (the intro), ``section <n>`` (from 0), ``solve.sh``, ``helpers`` or a
    check id; for an environment repair a path below /app, or ``generator``.
    """

    target: str
    find: str
    replace: str


class Quote(Value):
    """What justifies an expected value: both parts are looked up, letter by letter, blanks aside."""

    rule: str = Field(description="the sentence of the rules file or the instruction that decides the value")
    row: str = Field(description="the line, or value, of the initial state to which it applies")


class TaskRepairReply(Value):
    """Reply of the ``repair_task`` call: a classification and edits of that component only.

    ``outputs`` and ``steps`` are whole lists, which replace the old ones; empty when they stay.
    """

    component: Literal["instruction", "environment", "solution", "verifier"]
    evidence: str = Field(description="quote the failing check and the sentence or file that shows who is wrong")
    infeasible: bool = Field(default=False, description="true when no bounded edit can make the task valid")
    edits: list[TaskEdit] = []
    put_checks: list[Check] = Field(
        default=[], description="verifier only: new checks, or whole replacements of checks with the same id"
    )
    add_sections: list[Section] = Field(default=[], description="instruction only: sections added at the end")
    put_collect: list[CollectCommand] = Field(
        default=[], max_length=12, description="verifier only, where services run: all collect commands anew"
    )
    put_services: list[Service] = Field(
        default=[], description="environment only: whole new versions of services, by name"
    )
    outputs: list[str] = Field(default=[], description="instruction only: all outputs, when their list is wrong")
    steps: list[str] = Field(default=[], description="solution only: all steps, when the edits change what they say")
    quotes: list[Quote] = Field(default=[], description="verifier only: needed when an edit changes an expected value")


class Draft(Sparse):
    """The three artifacts as written on one e0; ``round`` counts repairs.

    ``collect`` says how the verifier gets to know the state of live services. ``order`` is empty for forward, and in a
    recording, which has an order of its own; ``pipeline`` is empty for facet.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"collect", "order", "pipeline"})

    seed: str
    instruction: InstructionReply
    solution: SolutionReply
    verifier: VerifierReply
    e0_digest: str
    image: str
    round: int = 0
    collect: tuple[CollectCommand, ...] = ()
    order: Literal["", "reverse", "joint"] = ""
    pipeline: Literal["", "direct", "recording"] = ""


class Validation(Sparse):
    """One full validation of a draft: its trials, and the rejection when it is not valid.

    Trials are None when they were not reached. ``remarks`` are defects that do not decide the verdict.
    ``by_certificate``: the trials are those of the validation before, and the rejection is what a certificate found.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"by_certificate"})

    round: int
    baseline: Trial | None
    oracle: Trial | None
    rejection: Rejection | None
    remarks: tuple[str, ...] = ()
    by_certificate: bool = False

    @property
    def valid(self) -> bool:
        return self.rejection is None


class RepairRound(Value):
    """One repair round. ``result`` says why code refused the edit, or what the validation after it found."""

    round: int
    component: Component
    evidence: str
    changed: tuple[str, ...]
    result: str = ""


class Task(Sparse):
    """The value of ``first_validation`` and ``task``: the draft in force, its environment and its history.

    ``environment`` is the one in force: a repair may have rebuilt it. ``known`` are final states of which certificates
    showed what the verifier must say.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"known"})

    seed: str
    title: str
    draft: Draft
    environment: Environment
    validations: tuple[Validation, ...]
    repairs: tuple[RepairRound, ...] = ()
    known: tuple[KnownState, ...] = ()

    @property
    def valid(self) -> bool:
        return bool(self.validations) and self.validations[-1].valid


Level = Literal["basic", "standard", "strict"]


class Certificate(Sparse):
    """What was shown about a task. Level ``basic``: whatever needs no model.

    ``oracle`` and ``baseline`` are the rewards of repeated trials, ``image`` a tag made of the context's hash and
    ``image_id`` the engine's own digest. ``remarks`` are questions to a reader that do not decide. ``seconds`` is
    what the sandbox was used for; ``day`` (UTC) is when. ``task`` is the one in force where a certificate's findings
    changed it, or were too much for it; None while that is the value of stage ``task``.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"task"})

    seed: str
    level: Level
    oracle: tuple[int, ...]
    baseline: tuple[int, ...]
    image: str
    base_image: str
    standin: bool
    package: str = Field(default="", description="sha256 of the Harbor package's archive in the artifact store")
    image_id: str = ""
    snapshot_date: str = ""
    day: str = ""
    probes: tuple[Probe, ...] = ()
    kills: KillMatrix = KillMatrix()
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0
    task: Task | None = None

    def shipped(self) -> dict[str, Any]:
        """What the package says of itself: nothing that differs when equal work is done again on one machine."""
        data = self.model_dump(
            mode="json", exclude={"package", "image_id", "day", "seconds", "probes", "kills", "task"}
        )
        probes = [probe.model_dump(mode="json", exclude={"seconds", "wanted"}) for probe in self.probes]
        matrix = {"distinct": self.kills.distinct, "padding": round(self.kills.padding, 3), "kills": self.kills.kills}
        return {**data, "probes": probes, "kill_matrix": matrix}
