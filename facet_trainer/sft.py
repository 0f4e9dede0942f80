"""Fine-tune on an SFT export under the paper's Table 9.

    accelerate launch --config_file facet_trainer/zero3.yaml -m facet_trainer.sft \\
        --export out/sft --model Qwen/Qwen3.5-4B --output out/tuned [--set NAME=VALUE ...]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import trl
import yaml

from facet_trainer.export import NotUsableError, read_export
from facet_trainer.masks import tokens_of
from facet_trainer.settings import accumulation, table9
from facet_trainer.tokenize import open_tokenizer


def train(options: argparse.Namespace, scratch: Path) -> None:
    """Raises NotUsableError before a model is loaded, also when a single row of the export cannot be used."""
    rows, _ = read_export(options.export, scratch)
    tokenizer, _ = open_tokenizer(Path(options.tokenizer or options.model), rows, options.template)
    data, problems = tokens_of(rows, tokenizer)
    if problems:
        raise NotUsableError(f"{len(problems)} rows cannot be trained on, first: {problems[0]}")
    changed = dict(text.split("=", 1) for text in options.set)
    settings = table9(output_dir=options.output, **{name: yaml.safe_load(text) for name, text in changed.items()})
    if "gradient_accumulation_steps" not in changed:
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        settings.gradient_accumulation_steps = accumulation(processes, settings.per_device_train_batch_size)
    trainer = trl.SFTTrainer(options.model, settings, train_dataset=data, processing_class=tokenizer)
    trainer.train()
    trainer.save_model(options.output)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="facet_trainer.sft")
    parser.add_argument("--export", type=Path, required=True)
    parser.add_argument("--model", required=True, help="a folder with the model, or its name on a hub")
    parser.add_argument("--output", required=True)
    parser.add_argument("--tokenizer", default="", help="a folder; the model's own when empty")
    parser.add_argument("--template", default="", help="a chat template that marks assistant turns")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a value of SFTConfig")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """1 and one sentence on standard error for an export that cannot be trained on."""
    with tempfile.TemporaryDirectory(prefix="facet-train-") as scratch:
        try:
            train(parse(argv), Path(scratch))
        except NotUsableError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
