"""A tokenizer with its chat template: the user's, or a small one made of the export."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from facet_trainer.export import NotUsableError

TEMPLATE = "qwen3_5_nothink_training"  # of TRL, for the models that the paper trains
VOCABULARY = 4096
END, PAD = "<|im_end|>", "<|endoftext|>"
MARKS = (PAD, "<|im_start|>", END)
THINK = ("<think>", "</think>")


def open_tokenizer(path: Path | None, rows: Any, template: str) -> tuple[Any, str]:
    """The tokenizer and what it is, in words. Raises NotUsableError."""
    try:
        found, name = (_small(rows), "made of this export") if path is None else (_read(path), str(path))
    except NotUsableError:
        raise
    except Exception as error:
        raise NotUsableError(f"{path} is no tokenizer that can be read: {error}") from error
    found.chat_template = _template(template) if template or not _marked(found.chat_template) else found.chat_template
    missing = [mark for mark in MARKS if mark in found.chat_template and mark not in found.get_vocab()]
    if missing:
        found.add_special_tokens({"additional_special_tokens": missing})
        name += f", with {' '.join(missing)} added"
    return found, name


def _read(path: Path) -> Any:
    """A model's folder, or its tokenizer.json alone."""
    if path.is_dir():
        return AutoTokenizer.from_pretrained(str(path), local_files_only=True)
    return PreTrainedTokenizerFast(tokenizer_file=str(path), eos_token=END, pad_token=PAD)


def _marked(template: str | None) -> bool:
    return bool(template) and "generation %}" in template


def _template(name: str) -> str:
    """A file, or one of TRL's by name. Raises NotUsableError where assistant turns are not marked in it."""
    name = name or TEMPLATE
    found = Path(name) if Path(name).is_file() else files("trl") / "chat_templates" / f"{name}.jinja"
    if not found.is_file():
        raise NotUsableError(f"There is no chat template {name}: name a file, or one of TRL's such as {TEMPLATE}")
    text = found.read_text(encoding="utf-8")
    if not _marked(text):
        raise NotUsableError(
            f"The chat template {name} marks no assistant turn with {{% generation %}}: it gives no mask"
        )
    return text


def _small(rows: Any) -> Any:
    """Byte-level BPE: every text comes back from its tokens as it was."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(MARKS), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(_texts(rows), trainer)
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in THINK])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )


def _texts(rows: Any) -> Iterator[str]:
    for messages in rows["messages"]:
        for message in messages:
            yield message["content"]
