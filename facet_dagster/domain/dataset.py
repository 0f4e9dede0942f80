"""What is handed out: the rows of training sets and task sets, and the manifest that tells how they came to be.

Their JSON schemas are written beside the data, so that a reader can check both.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from facet_dagster.domain.outcome import Value

ExportKind = Literal["sft", "near-miss", "harbor"]
Side = Literal["train", "held_out"]


class ChatMessage(Value):
    """A turn, exactly as it was written."""

    role: Literal["system", "user", "assistant"]
    content: str


class ShareGptTurn(Value):
    """The same turn in ShareGPT form."""

    model_config = {"populate_by_name": True, "extra": "forbid", "frozen": True}
    from_: Literal["system", "human", "gpt"] = Field(alias="from")
    value: str


class SftRow(Value):
    """One trajectory. ``train`` says of each message whether a loss is taken on it; ``tokens`` are those of all."""

    id: str
    task: str
    family: str
    skills: list[str]
    licences: list[str]
    model: str
    agent: str
    reward: Literal[0, 1]
    turns: int
    tokens: int
    messages: list[ChatMessage] = Field(min_length=1)
    train: list[bool]
    conversations: list[ShareGptTurn]


class RowCheck(Value):
    """What one check of the verifier said."""

    id: str
    requirement: str
    status: Literal["pass", "fail", "error", "blocked"]


class NearMissRow(SftRow):
    """A failed trajectory; ``check_reward`` is the share of its checks that passed."""

    checks: list[RowCheck]
    passed: int
    missed: int
    check_reward: float = Field(ge=0, le=1)


class TaskRow(Value):
    """One package of a task set. ``package`` is the sha256 of its archive, ``path`` its folder.

    ``image`` and ``verifier_image`` are pinned by digest where images were exported, and otherwise empty.
    """

    task: str
    path: str
    title: str
    instruction: str
    family: str
    families: list[str]
    skills: list[str]
    licences: list[str]
    share_alike: bool
    level: str
    checks: int
    package: str
    image: str
    verifier_image: str


class LeftOut(Value):
    """A task that is not handed out, and the evidence."""

    task: str
    reason: Literal["licence", "contaminated", "near duplicate", "quarantined"]
    what: str
    evidence: dict[str, Any] = {}


class Contamination(Value):
    """What was compared with a benchmark, and how. ``looked`` is false where no folder was named.

    ``highest`` is the highest cosine of a task that is no match; ``embedder`` is empty where meanings were left alone.
    """

    looked: bool
    folder: str = ""
    items: int = 0
    digest: str = ""
    run_words: int = 0
    cosine: float = 0.0
    embedder: str = ""
    tasks: int = 0
    highest: float = 0.0
    matches: list[dict[str, Any]] = []


class Splits(Value):
    """How tasks were held out: whole components of tasks that share skills, at most ``share`` of them."""

    share: float
    number: int
    components: int
    largest_component: int
    train: list[str]
    held_out: list[str]
    train_skills: int
    held_out_skills: int


class Manifest(Value):
    """How an export came to be. ``version`` is a digest of what it holds, and not of when it was ``made``.

    ``files`` maps each data file to its sha256, ``left_out`` counts what stayed behind, by reason; ``refused`` names
    the tasks among it. ``rows`` and ``tasks`` are counts.
    """

    kind: ExportKind
    version: str
    made: str
    project: str
    rows: int
    tasks: int
    left_out: dict[str, int]
    refused: list[LeftOut]
    families: dict[str, int]
    licences: dict[str, int]
    licence_policy: dict[str, Any]
    splits: Splits
    contamination: Contamination
    settings: dict[str, Any]
    files: dict[str, str]
    protocol: dict[str, Any] = {}
    tokenizer: str = ""
    longest: int = 0
    tokens: dict[str, int] = {}
    standin: int = 0
    images: dict[str, Any] = {}
