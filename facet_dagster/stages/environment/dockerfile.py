"""The build context of a recipe, and whose fault it is that packages did not come."""

from __future__ import annotations

import re

from facet_dagster.domain.dockerfile import environment_executables, environment_files
from facet_dagster.domain.environment import ManifestReply, Recipe
from facet_dagster.ports import BuildContext, BuildFailed

# apt goes on without an index that it could not fetch, and then knows no package.
_UNFETCHED = re.compile(r"^\W*[WE]: (?:Failed to fetch|Some index files failed to download)", re.MULTILINE)


def build_context(recipe: Recipe, manifest: ManifestReply, base_image: str) -> BuildContext:
    """What the sandbox builds; the same files are a Harbor package's environment/ folder."""
    return BuildContext(
        files=environment_files(recipe, manifest, base_image), executable=environment_executables(recipe)
    )


def archive_is_away(failed: BuildFailed) -> bool:
    """Whether a step of apt failed because no archive of packages answered: no repair of a recipe could help."""
    return failed.step.startswith("RUN apt-get update") and bool(_UNFETCHED.search(failed.log_tail))
