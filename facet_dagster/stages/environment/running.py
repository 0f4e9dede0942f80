"""Starts an image's services once and looks at them (the live part of e0)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from facet_dagster.domain.environment import RunningService, Service
from facet_dagster.domain.services import ENTRYPOINT, exposed, look_at, seen, start_seconds
from facet_dagster.domain.trial import ExecResult, Limits
from facet_dagster.errors import SessionOver
from facet_dagster.ports import Run, Sandbox

_LOOK_SECONDS = 30.0
_LOG = 4_000


class Observed(NamedTuple):
    """What was seen of each service, the problems, and what programs said, which differs from run to run."""

    services: tuple[RunningService, ...]
    problems: list[str]
    log_tail: str = ""


def observe(image: str, services: Sequence[Service], *, sandbox: Sandbox, subject: str) -> Observed:
    """Problems: a service does not come up, nobody opened a port, or it is open to more than the loopback.

    Raises SandboxError.
    """
    seconds = start_seconds(services)
    limits = Limits(seconds=seconds + _LOOK_SECONDS * (1 + len(services)))
    with sandbox.open(Run(image, ("sleep", "infinity"), subject, limits=limits)) as session:
        up = session.exec((ENTRYPOINT, "true"), seconds=seconds)
        if not up.ok:
            return _failure(up)
        try:
            looks = [
                session.exec(("sh", "-c", look_at(s)), user=s.user, seconds=_LOOK_SECONDS).output for s in services
            ]
        except SessionOver as error:
            return Observed((), ["The services ended their container after they had come up."], str(error)[-_LOG:])
    found = tuple(seen(service, text) for service, text in zip(services, looks, strict=True))
    problems = [
        f"Service {wanted.name} is healthy but does not listen on port {port}{_instead(running)}."
        for wanted, running in zip(services, found, strict=True)
        for port in wanted.ports
        if port not in running.ports
    ]
    problems += [
        f"Service {service.name} listens on port {port} of every address; bind it to 127.0.0.1."
        for service, text in zip(services, looks, strict=True)
        for port in exposed(text)
    ]
    return Observed(found, problems)


def _instead(running: RunningService) -> str:
    return f", but on {', '.join(map(str, running.ports))}" if running.ports else ""


def _failure(up: ExecResult) -> Observed:
    said, _, log = up.output.strip().partition("\n")
    problem = said or f"The services did not come up: {up.end}, exit code {up.exit_code}."
    return Observed((), [problem], log[-_LOG:])
