"""The dataset card: README.md, whose YAML header Hugging Face's `datasets` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from facet_dagster.domain.dataset import Manifest

WHAT = {
    "sft": "Successful trajectories of an agent on execution-validated terminal tasks, for supervised fine-tuning.",
    "near-miss": "Failed trajectories that missed one or two checks, with what every check said.",
    "harbor": "Execution-validated terminal tasks as Harbor packages: instruction, environment, solution, tests.",
}
COLUMNS = {
    "sft": "`messages` holds each conversation as it was written, `train` says on which messages a loss is taken,"
    " `conversations` is the same in ShareGPT form.",
    "harbor": "Each row is one package: `path` is its folder, `package` the sha256 of its archive."
    " `harbor run -p .` runs them all.",
}
COLUMNS["near-miss"] = f"{COLUMNS['sft']} `checks` is the verdict of every check, `check_reward` the share that passed."
# Names of licences on Hugging Face's hub that are not the SPDX identifier in lower case.
_HUB = {"MIT-0": "other", "NOASSERTION": "other", "none stated": "other"}


def card(manifest: Manifest) -> str:
    """What a reader must know before using the data."""
    parts = [f"# {manifest.kind}", WHAT[manifest.kind], *_made(manifest), COLUMNS[manifest.kind]]
    parts += ["## Splits", _splits(manifest), "## Benchmarks", _benchmarks(manifest)]
    parts += ["## What was left out", _listed(manifest.left_out) or "Nothing."]
    parts += ["## Licences of the skills", _licence_note(), _listed(manifest.licences, "rows")]
    parts += ["## Families of the tasks", _listed(manifest.families)]
    return f"---\n{_header(manifest)}---\n\n" + "\n\n".join(parts) + "\n"


def _header(manifest: Manifest) -> str:
    sides = [side for side in ("train", "held_out") if any(f"/{side}-" in name for name in manifest.files)]
    files = [{"split": side, "path": f"data/{side}-*.parquet"} for side in sides]
    header = {
        "pretty_name": f"facet-dagster {manifest.kind}",
        "license": sorted({_HUB.get(name, name.lower()) for name in manifest.licences}),
        "size_categories": ["n<1K" if manifest.rows < 1000 else "1K<n<10K" if manifest.rows < 10_000 else "10K<n<100K"],
        "tags": ["terminal", "agents", manifest.kind],
        "configs": [{"config_name": "default", "data_files": files}],
    }
    return yaml.safe_dump(header, sort_keys=False)


def _made(manifest: Manifest) -> Iterator[str]:
    yield f"{manifest.rows} rows on {manifest.tasks} tasks, version `{manifest.version[:16]}`, made {manifest.made}."
    if manifest.protocol:
        yield "Protocol: " + ", ".join(f"{name} {value}" for name, value in manifest.protocol.items()) + "."
        tokens = manifest.tokens
        counted = f"{tokens['in_all']} in all, at most {tokens['most']} in one row"
        yield f"Tokens are counted by {manifest.tokenizer}: {counted}."
    if manifest.standin:
        yield f"{manifest.standin} tasks were validated on a local stand-in of their base image."
    if manifest.images:
        yield f"`docker_image` is pinned by digest; the images are in {manifest.images['where']}."


def _splits(manifest: Manifest) -> str:
    found = manifest.splits
    if not found.held_out:
        return f"Nothing is held out (share {found.share:g}). {found.components} groups of tasks share no skill."
    return (
        f"{len(found.train)} tasks to train on and {len(found.held_out)} held out, with {found.train_skills} and"
        f" {found.held_out_skills} skills, none on both sides (share {found.share:g}, number {found.number})."
    )


def _benchmarks(manifest: Manifest) -> str:
    found = manifest.contamination
    if not found.looked:
        return "Compared with no benchmark: none was named."
    meaning = f", and by embedding ({found.embedder}) from a cosine of {found.cosine:g}" if found.embedder else ""
    return (
        f"{found.tasks} tasks were compared with {found.items} tasks of {found.folder} by runs of {found.run_words}"
        f" words{meaning}. {len({match['subject'] for match in found.matches})} were left out; manifest.json holds the"
        f" evidence. The nearest of the others has a cosine of {found.highest:.2f}."
    )


def _licence_note() -> str:
    return "Every task stems from two public skills: what their licences demand holds for these rows."


def _listed(counts: Mapping[str, int], unit: str = "") -> str:
    return "\n".join(f"- {name}: {count} {unit}".rstrip() for name, count in counts.items())
