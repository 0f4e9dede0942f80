"""Commands about training on what was exported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from facet_dagster.cli_output import Json, out, say
from facet_dagster.errors import ConfigError
from facet_dagster.settings import load_settings
from facet_dagster.training import TrainCheck, check_export

train_app = typer.Typer(help="Train on an export, with TRL in an environment of its own.", no_args_is_help=True)
Tokenizer = Annotated[
    Path | None,
    typer.Option(exists=True, help="tokenizer.json, or a model's folder; FACET_TOKENIZER; none: a small one is made."),
]
Template = Annotated[str, typer.Option(help="Chat template that marks assistant turns: a file, or one of TRL's.")]
Length = Annotated[int, typer.Option(min=0, help="Tokens that a row may have; 0: 32,768 (paper, Table 9).")]
Steps = Annotated[int, typer.Option(min=0, help="Training steps of a random model of two layers on the CPU.")]


@train_app.command()
def check(
    export: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="What `facet export sft` wrote.")],
    tokenizer: Tokenizer = None,
    template: Template = "",
    max_length: Length = 0,
    steps: Steps = 0,
    json_: Json = False,  # noqa: FBT002 - an option's default
) -> None:
    """Load an SFT export with TRL and tell token counts, truncations and loss masks, without a GPU."""
    settings = load_settings()
    found = check_export(
        export,
        settings.home,
        os.environ,  # noqa: TID251 - a composition root
        tokenizer=tokenizer or settings.tokenizer,
        template=template,
        max_length=max_length,
        steps=steps,
    )
    say(found, lambda: _print(found), as_json=json_)
    if found.problem_count:
        raise ConfigError(f"{found.problem_count} problems: the export cannot be trained on as it says")


def _print(found: TrainCheck) -> None:
    tokens, spans = found.tokens, found.spans
    out.print(f"{found.rows} rows, tokenizer {found.tokenizer}", markup=False, soft_wrap=True)
    spread = f"at least {tokens['least']:,}, median {tokens['median']:,}, at most {tokens['most']:,}"
    out.print(f"  tokens: {tokens['in_all']:,} in all; a row has {spread}", soft_wrap=True)
    out.print(f"  truncated at {found.max_length:,}: {found.truncated} rows; nothing left to train on: {found.dropped}")
    out.print(f"  trained on: {found.trained_tokens:,} tokens = {100 * found.trained_share:.1f} %")
    told = (
        f"{spans['equal']} equal, {spans['trimmed']} without outer blanks, {spans['respaced']} with other inner blanks"
    )
    told += f", {spans['cut']} cut by truncation"
    out.print(f"  trained spans, decoded and held against the messages: {told}", soft_wrap=True)
    out.print(f"  assistant turns that the export keeps from training: {found.not_trained}")
    if found.steps:
        losses = f"{found.steps['first_loss']:.2f} to {found.steps['last_loss']:.2f}"
        out.print(f"  {found.steps['steps']:.0f} steps of a random model: loss {losses}")
    for problem in found.problems:
        out.print(f"  {problem}", markup=False, soft_wrap=True)
