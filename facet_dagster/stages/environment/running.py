"""Starts an image's services once and looks at them (the live part of e0)."""

from __future__ import annotations

from collections.abc import Sequence

from facet_dagster.domain.environment import RunningService, Service
from facet_dagster.domain.services import ENTRYPOINT, exposed, look_at, seen, start_seconds
from facet_dagster.domain.trial import ExecResult, Limits
from facet_dagster.ports import Run, Sandbox

_LOOK_SECONDS = 30.0


def observe(
    image: str, services: Sequence[Service], *, sandbox: Sandbox, subject: str
) -> tuple[tuple[RunningService, ...], list[str]]:
    """What is seen of each service, and the problems.

    These are: a service that does not come up, a port that nobody opened, one that is open to other machines.

    Raises SandboxError.
    """
    seconds = start_seconds(services)
    limits = Limits(seconds=seconds + _LOOK_SECONDS * (1 + len(services)))
    with sandbox.open(Run(image, ("sleep", "infinity"), subject, limits=limits)) as session:
        up = session.exec((ENTRYPOINT, "true"), seconds=seconds)
        if not up.ok:
            return (), [_failure(up)]
        looks = [session.exec(("sh", "-c", look_at(s)), user=s.user, seconds=_LOOK_SECONDS).output for s in services]
    found = tuple(seen(service, text) for service, text in zip(services, looks, strict=True))
    problems = [
        f"Service {wanted.name} is healthy but does not listen on port {port}{_instead(running)}."
        for wanted, running in zip(services, found, strict=True)
        for port in wanted.ports
        if port not in running.ports
    ]
    return found, problems + [
        f"Service {service.name} listens on port {port} of every address; bind it to 127.0.0.1."
        for service, text in zip(services, looks, strict=True)
        for port in exposed(text)
    ]


def _instead(running: RunningService) -> str:
    return f", but on {', '.join(map(str, running.ports))}" if running.ports else ""


def _failure(up: ExecResult) -> str:
    return up.output.strip()[-1_500:] or f"The services did not come up: {up.end}, exit code {up.exit_code}."
