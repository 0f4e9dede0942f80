"""Load an SFT export with TRL, without a GPU, and tell what would be trained on: one JSON value.

python -m facet_trainer.check EXPORT [--tokenizer PATH] [--template NAME] [--max-length N] [--steps N]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.update(
    HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1", WANDB_DISABLED="1"
)

import datasets
import torch
import transformers
import trl
from datasets import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM

from facet_trainer.export import NotUsableError, read_export
from facet_trainer.masks import IGNORED, compare, tokens_of
from facet_trainer.settings import BATCH, table9
from facet_trainer.tokenize import open_tokenizer

SHOWN = 20
STEP_LENGTH = 1024  # tokens of a row in a training step on the CPU


def check(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Raises NotUsableError."""
    rows, manifest = read_export(options.export, scratch / "cache")
    tokenizer, name = open_tokenizer(options.tokenizer, rows, options.template)
    data, problems = tokens_of(rows, tokenizer)
    length = options.max_length or table9(output_dir=str(scratch), bf16=False).max_length
    prepared = _trainer(data, tokenizer, scratch, max_length=length).train_dataset
    whole = [len(ids) for ids in data["input_ids"]]
    found = _compared(rows, prepared, {row: n > length for row, n in zip(data["row"], whole, strict=True)}, tokenizer)
    return {
        "export": str(options.export),
        "kind": manifest.get("kind"),
        "rows": len(rows),
        "tokenizer": f"{name} ({len(tokenizer)} tokens)",
        "max_length": length,
        "tokens": _spread(whole),
        "truncated": sum(n > length for n in whole),
        "dropped": len(data) - len(prepared),
        "not_trained": _not_trained(rows),
        **found,
        "problems": [*problems, *found["problems"]][:SHOWN],
        "problem_count": len(problems) + len(found["problems"]),
        "steps": _steps(data, tokenizer, scratch, options.steps) if options.steps else None,
        "trainer": {"trl": trl.__version__, "transformers": transformers.__version__, "torch": torch.__version__},
        "table9": _table9(scratch),
    }


def _not_trained(rows: Any) -> int:
    """Assistant turns that the export keeps from training."""
    pairs = zip(rows["messages"], rows["train"], strict=True)
    return sum(m["role"] == "assistant" and not t for ms, ts in pairs for m, t in zip(ms, ts, strict=False))


def _trainer(data: Dataset, tokenizer: Any, scratch: Path, **settings: Any) -> trl.SFTTrainer:
    """TRL's own, over a random model of two layers: nothing but its preparation of data matters here."""
    torch.manual_seed(0)
    shape = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    arguments = table9(output_dir=str(scratch / "out"), bf16=False, use_cpu=True, save_strategy="no", **settings)
    return trl.SFTTrainer(Qwen2ForCausalLM(shape), arguments, train_dataset=data, processing_class=tokenizer)


def _compared(rows: Any, prepared: Any, cut: dict[int, bool], tokenizer: Any) -> dict[str, Any]:
    spans, trained, tokens = Counter(equal=0, trimmed=0, respaced=0, cut=0), 0, 0
    problems = list[str]()
    for made in prepared:
        number, ids, labels = made["row"], made["input_ids"], made["labels"]
        found = compare(rows[number], ids, labels, tokenizer, cut=cut[number])
        spans.update({name: getattr(found, name) for name in spans})
        problems += [f"row {number}: {problem}" for problem in found.problems]
        trained, tokens = trained + sum(label != IGNORED for label in labels), tokens + len(ids)
    return {
        "trained_tokens": trained,
        "trained_share": trained / tokens if tokens else 0.0,
        "spans": dict(spans),
        "problems": problems,
    }


def _spread(lengths: Sequence[int]) -> dict[str, int]:
    ordered = sorted(lengths)
    return {
        "in_all": sum(ordered),
        "least": ordered[0],
        "median": ordered[len(ordered) // 2],
        "most": ordered[-1],
    }


def _steps(data: Dataset, tokenizer: Any, scratch: Path, steps: int) -> dict[str, float]:
    """Loss on the trained tokens before and after a few real steps of the random model."""
    changed = {"max_steps": steps, "learning_rate": 1e-2, "max_length": STEP_LENGTH, "activation_checkpointing": False}
    trainer = _trainer(data, tokenizer, scratch, disable_tqdm=True, **changed)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return {"steps": steps, "first_loss": float(losses[0]), "last_loss": float(losses[-1])}


def _table9(scratch: Path) -> dict[str, Any]:
    found = table9(output_dir=str(scratch), bf16=False)
    names = ("learning_rate", "lr_scheduler_type", "warmup_steps", "num_train_epochs", "max_length")
    return {name: getattr(found, name) for name in names} | {"effective_batch": BATCH, "precision": "bf16", "zero": 3}


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="facet_trainer.check")
    parser.add_argument("export", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--template", default="")
    parser.add_argument("--max-length", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0)
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """The last line of standard output is the JSON value; 1 and one sentence on standard error otherwise."""
    datasets.disable_progress_bars()
    transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="facet-train-") as scratch:
        try:
            found = check(parse(argv), Path(scratch))
        except NotUsableError as error:
            print(error, file=sys.stderr)
            return 1
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
