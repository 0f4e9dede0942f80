"""Tokens of a conversation with the mask of what is trained on, and the proof that the mask is the export's.

A chat template marks assistant turns as spans, in their order; a span whose message has ``train`` false is masked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from datasets import Dataset

from facet_trainer.export import NotUsableError
from facet_trainer.tokenize import THINK

IGNORED = -100  # the label of a token on which no loss is taken


class Compared(NamedTuple):
    """Trained spans of a row beside the messages that the export trains on.

    ``trimmed`` spans lack blanks around their message, as some templates take them off; ``respaced`` ones differ in
    inner blanks; ``problems`` tell the others.
    """

    equal: int
    trimmed: int
    respaced: int
    cut: int
    problems: tuple[str, ...]


def tokens_of(rows: Any, tokenizer: Any) -> tuple[Dataset, list[str]]:
    """Every row that can be tokenized, under its number, and what is wrong with the others. Raises NotUsableError."""
    made, problems = list[dict[str, Any]](), list[str]()
    for number, row in enumerate(rows):
        try:
            made.append({"row": number, **tokenized(row, tokenizer)})
        except Exception as error:  # noqa: BLE001 - a template raises what it likes
            problems.append(f"row {number}: {error}")
    if not made:
        raise NotUsableError(f"No row can be tokenized: {problems[0]}")
    return Dataset.from_list(made), problems


def tokenized(row: Mapping[str, Any], tokenizer: Any) -> dict[str, Any]:
    """``input_ids`` and ``assistant_masks`` of a row, as TRL's SFTTrainer takes them. Raises ValueError."""
    messages = [{"role": m["role"], "content": m["content"]} for m in row["messages"]]
    if len(messages) != len(row["train"]):
        raise ValueError(f"{len(messages)} messages, but {len(row['train'])} marks in train")
    if wrong := [
        m["role"] for m, train in zip(messages, row["train"], strict=True) if train and m["role"] != "assistant"
    ]:
        raise ValueError(f"a message of {wrong[0]} is marked to be trained on: only the assistant's may be")
    found = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    mask = list(found["assistant_masks"])
    said = [train for m, train in zip(messages, row["train"], strict=True) if m["role"] == "assistant"]
    runs = list(spans(mask, 0))
    if len(runs) != len(said):
        raise ValueError(f"the chat template marks {len(runs)} spans for {len(said)} assistant turns")
    for (start, end), train in zip(runs, said, strict=True):
        if not train:
            mask[start:end] = [0] * (end - start)
    return {"input_ids": list(found["input_ids"]), "assistant_masks": mask}


def spans(values: Sequence[int], none: int) -> Iterator[tuple[int, int]]:
    """Start and end of every run of values other than ``none``."""
    start = None
    for index, value in enumerate([*values, none]):
        if value != none and start is None:
            start = index
        elif value == none and start is not None:
            yield start, index
            start = None


def compare(
    row: Mapping[str, Any], ids: Sequence[int], labels: Sequence[int], tokenizer: Any, *, cut: bool
) -> Compared:
    """Decode what is trained on and hold it against the messages; ``cut``: the row was truncated at its end."""
    wanted = [m["content"] for m, train in zip(row["messages"], row["train"], strict=True) if train]
    runs = list(spans(labels, IGNORED))
    problems = [] if len(runs) == len(wanted) or (cut and len(runs) < len(wanted)) else [_count(runs, wanted)]
    if any(label not in (IGNORED, token) for token, label in zip(ids, labels, strict=True)):
        problems.append("a label is not its token")
    marks = sorted({*tokenizer.get_added_vocab(), *THINK}, key=len, reverse=True)
    equal = trimmed = respaced = shortened = 0
    for (start, end), content in zip(runs, wanted, strict=False):
        text = tokenizer.decode(ids[start:end], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if content in text and not _bare(text.replace(content, "", 1), marks):
            equal += 1
        elif _unmarked(text, marks).strip() == _unmarked(content, marks).strip():
            trimmed += 1
        elif _bare(text, marks) == _bare(content, marks):
            respaced += 1
        elif cut and end == len(ids) and _bare(content, marks).startswith(_bare(_torn(text, marks), marks)):
            shortened += 1
        else:
            problems.append(f"trained on {text[:120]!r}, where the export says {content[:120]!r}")
    return Compared(equal, trimmed, respaced, shortened, tuple(problems))


def _count(runs: Sequence[object], wanted: Sequence[object]) -> str:
    return f"{len(runs)} spans are trained on, and {len(wanted)} messages should be"


def _torn(text: str, marks: Sequence[str]) -> str:
    """Without the part of a character or of a mark at which truncation may have ended."""
    text = text.rstrip("\ufffd")
    ends = (mark[:size] for mark in marks for size in range(len(mark) - 1, 0, -1) if text.endswith(mark[:size]))
    return text.removesuffix(max(ends, key=len, default=""))


def _bare(text: str, marks: Sequence[str]) -> str:
    """Without the marks of a template, and with single blanks."""
    return " ".join(_unmarked(text, marks).split())


def _unmarked(text: str, marks: Sequence[str]) -> str:
    for mark in marks:
        text = text.replace(mark, "")
    return text
