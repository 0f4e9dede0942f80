"""What a package carries so that its certificate can be run again from it alone, without ledger and without model.

It lies below ``certificate/``, which Harbor gives neither to agents nor to verifiers.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from facet_dagster.domain.environment import Environment
from facet_dagster.domain.ids import digest
from facet_dagster.domain.outcome import Value
from facet_dagster.domain.replies import Replies
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.second import SecondReply
from facet_dagster.domain.semantic import MutantsReply
from facet_dagster.domain.task import Draft, Task, VerifierReply
from facet_dagster.errors import ConfigError
from facet_dagster.stages.task.certificate.effort import Effort
from facet_dagster.stages.task.package import CERTIFICATE, Package, TaskLimits, indented_json

FOLDER = "certificate"
TASK = f"{FOLDER}/task.json"
MUTANTS = f"{FOLDER}/semantic_mutants.json"
SECOND = f"{FOLDER}/second_solutions.json"
BLIND = f"{FOLDER}/blind_verifier.json"
SOLUTION = "solution/solve.sh"
_SECOND = TypeAdapter(dict[str, SecondReply])


class Carried(Value):
    """The values behind a package, what it was certified with, and the sha256 of each of its files.

    ``environment`` is without its builds and without e0, which the image tells anew.
    """

    draft: Draft
    environment: Environment
    scenario: Scenario
    limits: TaskLimits
    effort: Effort
    files: dict[str, str]

    @classmethod
    def of(cls, task: Task, scenario: Scenario, *, limits: TaskLimits, effort: Effort, package: Package) -> Carried:
        bare = task.environment.model_copy(update={"attempts": (), "e0": None})
        files = {path: digest(data) for path, data in package.files.items() if path != CERTIFICATE}
        return cls(draft=task.draft, environment=bare, scenario=scenario, limits=limits, effort=effort, files=files)

    def task(self, package: Package) -> Task:
        """The task with the solution that stands in the package."""
        solve = package.files[SOLUTION].decode("utf-8", "replace")
        solution = self.draft.solution.model_copy(update={"solve_sh": solve})
        draft = self.draft.model_copy(update={"solution": solution})
        title = draft.instruction.title
        return Task(seed=draft.seed, title=title, draft=draft, environment=self.environment, validations=())

    def altered(self, package: Package) -> list[str]:
        """Files that are not as they were certified: changed, new or gone."""
        now = {path: digest(data) for path, data in package.files.items() if path in self.files or _shipped(path)}
        return sorted(path for path in {*now, *self.files} if now.get(path) != self.files.get(path))


def _shipped(path: str) -> bool:
    return path.startswith(("environment/", "solution/", "tests/"))


def with_carried(package: Package, carried: Carried, kept: Replies) -> Package:
    """The package with all that a second run of its certificate needs."""
    more: dict[str, Value | Mapping[str, Value] | None] = {
        TASK: carried,
        MUTANTS: kept.mutants,
        SECOND: kept.second or None,
        BLIND: kept.blind,
    }
    files = {path: indented_json(_plain(value)) for path, value in more.items() if value is not None}
    return Package(dict(sorted({**package.files, **files}.items())), package.executable)


def _plain(value: Value | Mapping[str, Value]) -> object:
    if isinstance(value, Value):
        return value.model_dump(mode="json")
    return {name: one.model_dump(mode="json") for name, one in value.items()}


def read_carried(package: Package) -> tuple[Carried, Replies]:
    """Raises ConfigError when the package carries nothing of the kind, or something else."""
    if TASK not in package.files or SOLUTION not in package.files:
        raise ConfigError(
            f"The package holds no {TASK}: its certificate cannot be run again. Certify the task anew with `facet run`"
        )
    files = package.files
    try:
        carried = Carried.model_validate_json(files[TASK])
        kept = Replies(
            mutants=MutantsReply.model_validate_json(files[MUTANTS]) if MUTANTS in files else None,
            second=_SECOND.validate_json(files[SECOND]) if SECOND in files else {},
            blind=VerifierReply.model_validate_json(files[BLIND]) if BLIND in files else None,
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"What the package carries below {FOLDER}/ is damaged: {where}: {first['msg']}") from error
    return carried, kept
