"""The build context of a recipe."""

from __future__ import annotations

from facet_dagster.domain.dockerfile import environment_executables, environment_files
from facet_dagster.domain.environment import ManifestReply, Recipe
from facet_dagster.ports import BuildContext


def build_context(recipe: Recipe, manifest: ManifestReply, base_image: str) -> BuildContext:
    """What the sandbox builds; the same files are a Harbor package's environment/ folder."""
    return BuildContext(
        files=environment_files(recipe, manifest, base_image), executable=environment_executables(recipe)
    )
