"""What stands behind a sandbox: the engine in words, and what is on it."""

from __future__ import annotations

from dataclasses import dataclass

from facet_dagster.adapters.docker_engine import Engine, engine_errors
from facet_dagster.adapters.docker_labels import RUN

Counts = dict[str, int]


@dataclass(frozen=True)
class EngineFacts:
    """The engine: ``cgroup`` is the version of its control groups, ``where`` is ``local`` or its address."""

    version: str
    storage_driver: str
    builder: str
    cgroup: str
    where: str

    def __str__(self) -> str:
        return (
            f"Docker Engine {self.version}, storage driver {self.storage_driver}, {self.builder},"
            f" cgroup version {self.cgroup}, {self.where}"
        )


def engine_facts(engine: Engine, builder: str) -> EngineFacts:
    """Raises SandboxError when no engine answers."""
    info, address = engine.info, str(engine.api.base_url)
    return EngineFacts(
        version=str(info.get("ServerVersion", "unknown")),
        storage_driver=str(info.get("Driver", "unknown")),
        builder=builder,
        cgroup=str(info.get("CgroupVersion") or "1"),  # engines before 20.10 know no other and do not say
        where="local" if address.startswith("http+docker://local") else f"remote at {address}",
    )


def counts(engine: Engine, run_id: str | None = None) -> Counts:
    """How many containers, images (layers without a name included), networks and volumes there are.

    With ``run_id`` only what that sandbox made. Raises SandboxError.
    """
    filters = {} if run_id is None else {"label": f"{RUN}={run_id}"}
    api = engine.api
    with engine_errors("count what is there"):
        return {
            "containers": len(api.containers(all=True, filters=filters)),
            "images": len(api.images(all=True, filters=filters)),
            "networks": len(api.networks(filters=filters)),
            "volumes": len(api.volumes(filters=filters)["Volumes"] or []),
        }
