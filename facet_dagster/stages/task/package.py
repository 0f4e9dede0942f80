"""The Harbor package of a draft: the files that we judge in trials are the files that we ship."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import Field

from facet_dagster.domain.archive import EPOCH, pack, subtree, unpack
from facet_dagster.domain.dockerfile import USER, environment_executables, environment_files, verifier_dockerfile
from facet_dagster.domain.environment import WORKDIR, Environment, Service
from facet_dagster.domain.ids import digest, to_json
from facet_dagster.domain.outcome import Value
from facet_dagster.domain.scenario import Scenario
from facet_dagster.domain.services import HEALTHY, start_seconds
from facet_dagster.domain.skill import Skill
from facet_dagster.domain.task import Certificate, Draft
from facet_dagster.domain.trial import Limits
from facet_dagster.ports import BuildContext
from facet_dagster.stages.task.live import collect_commands
from facet_dagster.stages.task.render import checks_module, markdown, script

SHIPPED = Path(__file__).parents[2] / "package_files"
CERTIFICATE = "certificate.json"
AGENT = USER
FILE_CAP = 8 * 1024 * 1024
TOTAL_CAP = 32 * 1024 * 1024


class TaskLimits(Value):
    """The limits of a task: task.toml states them and our trials run under them.

    ``agent_seconds`` is what an agent gets. Our reference solution must do in ``solution_seconds``, which
    is less, so that a validated task is never one that only just fits.
    """

    agent_seconds: float = Field(default=1800.0, gt=0, le=86_400)
    solution_seconds: float = Field(default=120.0, gt=0, le=7_200)
    verifier_seconds: float = Field(default=120.0, gt=0, le=7_200)
    build_seconds: float = Field(default=600.0, gt=0, le=7_200)
    memory_mb: int = Field(default=1024, ge=64, le=16_384)
    cpus: int = Field(default=1, ge=1, le=16)

    @classmethod
    def of(cls, trial_seconds: float) -> TaskLimits:
        """Limits whose two containers run for at most ``trial_seconds`` each."""
        return cls(
            agent_seconds=max(1800.0, trial_seconds), solution_seconds=trial_seconds, verifier_seconds=trial_seconds
        )

    def container(self, seconds: float) -> Limits:
        return Limits(seconds=seconds, memory=self.memory_mb * 1024 * 1024, cpus=self.cpus)


@dataclass(frozen=True)
class Package:
    """Relative path -> content; paths in ``executable`` have mode 755, all others 644."""

    files: Mapping[str, bytes]
    executable: frozenset[str] = field(default_factory=frozenset)

    def tar(self) -> bytes:
        """One archive, the same bytes for the same package."""
        return pack(self.files, executable=self.executable)


def package_digest(package: Package) -> str:
    """The sha256 of the package's archive: also its address in the artifact store."""
    return digest(package.tar())


def build_package(
    draft: Draft,
    environment: Environment,
    scenario: Scenario,
    skills: Sequence[Skill],
    *,
    e0_archive: bytes,
    limits: TaskLimits,
    certificate: Certificate | None = None,
) -> Package:
    """The whole package (architecture, section 8). Pure: equal arguments give equal bytes.

    ``e0_archive`` is what the sandbox reads below /app in the environment's image; the base
    image appears under its public name. Without ``certificate`` there is no certificate.json.
    """
    tests = verifier_context(draft, e0_archive, environment.base_image)
    level = certificate.level if certificate else ""
    parts: dict[str, Mapping[str, bytes]] = {
        "environment": environment_files(environment.recipe, environment.manifest, environment.base_image),
        "solution": {"solve.sh": script(draft.solution.solve_sh).encode()},
        "tests": tests.files,
    }
    files = {
        "task.toml": task_toml(draft, scenario, skills, limits, level, environment.recipe.services).encode(),
        **({CERTIFICATE: indented_json(certificate.shipped())} if certificate else {}),
        "instruction.md": markdown(draft.instruction).encode(),
        **{f"{part}/{path}": data for part, below in parts.items() for path, data in below.items()},
    }
    executable = {"solution/solve.sh", *(f"tests/{path}" for path in tests.executable)}
    executable |= {f"environment/{path}" for path in environment_executables(environment.recipe)}
    return Package(dict(sorted(files.items())), frozenset(executable))


def indented_json(value: Any) -> bytes:
    """For people: one field a line, in a fixed order."""
    return (json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()


def package_files(package: Package) -> dict[str, bytes]:
    return dict(package.files)


def verifier_context(draft: Draft, e0_archive: bytes, base_image: str) -> BuildContext:
    """The tests/ folder, which is the build context of the verifier image.

    ``base_image`` is a public name. e0 below it holds pristine copies of the initial files, up to 8 MiB
    each and 32 MiB together; e0.json holds the sha256 of every one.
    """
    files = {
        "Dockerfile": verifier_dockerfile(base_image, ()).encode(),
        "test.sh": (SHIPPED / "test.sh").read_bytes(),
        "run_checks.py": (SHIPPED / "run_checks.py").read_bytes(),
        "checks.py": checks_module(draft.verifier).encode(),
        **e0_files(initial_files(e0_archive)),
    }
    return BuildContext(files, frozenset({"test.sh"}))


def e0_files(e0: Mapping[str, bytes]) -> dict[str, bytes]:
    """What the tests/ folder says of the initial files (path relative to /app -> content)."""
    sums = {path: digest(data) for path, data in e0.items()}
    return {"e0.json": to_json(sums).encode(), **{f"e0/{path}": data for path, data in _bounded(e0).items()}}


def initial_files(e0_archive: bytes) -> dict[str, bytes]:
    """Regular files of the captured work directory: path relative to it -> content."""
    members = unpack(subtree(e0_archive, WORKDIR.strip("/")))
    return {path: member.data for path, member in sorted(members.items()) if member.type == "file"}


def _bounded(files: Mapping[str, bytes]) -> dict[str, bytes]:
    kept, total = {}, 0
    for path, data in files.items():
        if len(data) <= FILE_CAP and total + len(data) <= TOTAL_CAP:
            kept[path] = data
            total += len(data)
    return kept


def task_toml(
    draft: Draft,
    scenario: Scenario,
    skills: Sequence[Skill],
    limits: TaskLimits,
    level: str,
    services: Sequence[Service] = (),
) -> str:
    """task.toml, schema 1.4, written by a TOML library: titles and skill names are untrusted text."""
    families = sorted({str(skill.family) for skill in skills})
    table = {
        "schema_version": "1.4",
        "artifacts": [WORKDIR],
        "task": {
            "name": f"facet/{draft.seed}",
            "version": "1.0.0",
            "description": _plain(scenario.references.title),
            "keywords": families,
            "authors": [{"name": "facet-dagster"}],
        },
        "metadata": {
            "seed": draft.seed,
            "families": families,
            "task_family": scenario.references.family.value,
            "solution_seconds": limits.solution_seconds,
            **({"certificate": level, "certificate_file": CERTIFICATE} if level else {}),
            **({"share_alike": True} if any(skill.licence.share_alike for skill in skills) else {}),
            "skills": [_credit(skill) for skill in skills],
        },
        "environment": {
            "network_mode": "no-network",
            "build_timeout_sec": limits.build_seconds,
            "cpus": limits.cpus,
            "memory_mb": limits.memory_mb,
            "workdir": WORKDIR,
            **({"healthcheck": _healthcheck(services)} if services else {}),
        },
        "agent": {"timeout_sec": limits.agent_seconds, "user": AGENT},
        "verifier": {
            "timeout_sec": limits.verifier_seconds,
            "environment_mode": "separate",
            "user": "root",
            **({"collect": _collect(draft)} if draft.collect else {}),
        },
    }
    return tomlkit.dumps(table)


def _healthcheck(services: Sequence[Service]) -> dict[str, object]:
    """Failures count only after the time that the services may take to start."""
    return {
        "command": HEALTHY,
        "interval_sec": 2.0,
        "timeout_sec": 30.0,
        "start_period_sec": start_seconds(services),
        "start_interval_sec": 1.0,
        "retries": 3,
    }


def _collect(draft: Draft) -> list[dict[str, object]]:
    return [
        {"command": item.command, "timeout_sec": float(item.seconds), "user": "root"}
        for item in collect_commands(draft.collect)
    ]


def _credit(skill: Skill) -> dict[str, object]:
    """Whose work the task is made from, and what says that it may be."""
    licence = skill.licence
    return {
        "id": skill.id,
        "name": _plain(skill.name),
        "licence": licence.spdx,
        "licence_evidence": _plain(licence.evidence),
        **({"share_alike": True} if licence.share_alike else {}),
        "origin": _plain(skill.origin),
        **({"commit": _plain(skill.commit)} if skill.commit else {}),
    }


def _plain(text: str) -> str:
    """One line without control characters, at most 300 characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:300]


def export(tar: bytes, folder: Path) -> None:
    """Write a package's archive as ``folder``, which appears when it is whole and replaces an older one.

    All has the archive's time: a build copies it into the image, as ours did.
    """
    part, old = (folder.with_name(f".{folder.name}.{kind}-{os.getpid()}") for kind in ("part", "old"))
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(part, ignore_errors=True)
    for path, member in unpack(tar).items():
        if member.type != "file":
            continue
        target = part / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(member.data)
        target.chmod(0o755 if member.mode & 0o111 else 0o644)
        os.utime(target, (member.mtime, member.mtime))
    for made in (part, *(path for path in part.rglob("*") if path.is_dir())):
        os.utime(made, (EPOCH, EPOCH))
    if folder.exists():
        folder.rename(old)
    part.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
