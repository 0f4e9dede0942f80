"""A Docker environment for Harbor that enforces `no-network` without pulling an image.

Harbor's own Docker environment enforces it with a side container built from registry images, and refuses the task
where it cannot. A container without any network needs no side container: only the loopback device is in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import override

from harbor.environments.capabilities import EnvironmentCapabilities
from harbor.environments.docker.docker import DockerEnvironment
from harbor.models.task.config import NetworkMode, NetworkPolicy

_OVERLAY = Path(__file__).resolve().with_name("no-network.yaml")


class OfflineDockerEnvironment(DockerEnvironment):
    """Run `public` tasks as Harbor does and `no-network` tasks with no network at all; `allowlist` stays refused."""

    @classmethod
    @override
    def _egress_control_kernel_support(cls) -> bool:
        # Harbor would ask a container of a registry image; "no" keeps its side container away.
        return False

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        """Harbor's capabilities, with isolation from the network added."""
        return super().capabilities.model_copy(update={"disable_internet": True})

    @override
    def validate_network_policy_support(self, network_policy: NetworkPolicy | None = None) -> None:
        """Refuse what the overlay cannot isolate. Raises ValueError."""
        super().validate_network_policy_support(network_policy)
        policy = network_policy or self.network_policy
        services = [path for path in (self._environment_docker_compose_path,) if path.exists()]
        if policy.network_mode == NetworkMode.NO_NETWORK and (services or self.extra_docker_compose_paths):
            raise ValueError(
                "network_mode='no-network' with compose files of the task's own is not supported by "
                "OfflineDockerEnvironment: it can isolate the main service only."
            )

    @property
    @override
    def _docker_compose_paths(self) -> list[Path]:
        paths = super()._docker_compose_paths
        return [*paths, _OVERLAY] if self._network_disabled else paths
