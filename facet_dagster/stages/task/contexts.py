"""What the two images of a package are built from, whether the package is just made or read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from facet_dagster.domain.dockerfile import environment_executables, environment_files
from facet_dagster.domain.environment import Environment
from facet_dagster.domain.task import Draft
from facet_dagster.ports import BuildContext
from facet_dagster.stages.task.package import Package, e0_files, verifier_context

ENVIRONMENT, TESTS = "environment", "tests"


@dataclass(frozen=True)
class Contexts:
    """The folders environment/ and tests/ of a package, each a build context."""

    environment: BuildContext
    tests: BuildContext

    @classmethod
    def of(cls, draft: Draft, environment: Environment, e0_archive: bytes) -> Contexts:
        files = environment_files(environment.recipe, environment.manifest, environment.base_image)
        work = BuildContext(files, environment_executables(environment.recipe))
        return cls(work, verifier_context(draft, e0_archive, environment.base_image))

    @classmethod
    def in_package(cls, package: Package) -> Contexts:
        return cls(_below(ENVIRONMENT, package), _below(TESTS, package))


def _below(folder: str, package: Package) -> BuildContext:
    start = f"{folder}/"
    files = {path.removeprefix(start): data for path, data in package.files.items() if path.startswith(start)}
    return BuildContext(files, frozenset(p.removeprefix(start) for p in package.executable if p.startswith(start)))


def with_e0(tests: BuildContext, e0: Mapping[str, bytes]) -> BuildContext:
    """The same verifier with other pristine copies of the initial files (path relative to /app -> content)."""
    code = {path: data for path, data in tests.files.items() if path != "e0.json" and not path.startswith("e0/")}
    return replace(tests, files={**code, **e0_files(e0)})
