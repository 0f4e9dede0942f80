"""What services must satisfy before anything is built. Every problem is a sentence that a repair can act on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from facet_dagster.domain.environment import ManifestReply, PlannedService, Recipe, Service

MAX_SERVICES = 4
MAX_SET_UP = 16 * 1024
FIRST_PORT = 1_024
# Debian package -> the users that it brings.
USERS: Mapping[str, frozenset[str]] = {
    "memcached": frozenset({"memcache"}),
    "nginx-light": frozenset({"www-data"}),
    "postgresql": frozenset({"postgres"}),
    "python3": frozenset(),
    "redis-server": frozenset({"redis"}),
}

_DAEMON = re.compile(
    r"daemonize[ =]+yes|--daemon\b|\bdaemon on\b|\bnohup\b|\bsystemctl\b|\bpg_ctl\b|\bservice \S+ start\b|[^&>]&\s*$"
)
_EVERYWHERE = re.compile(r"0\.0\.0\.0|(?<![\w:])\[?::\]?(?![\w:])|listen_addresses ?= ?'?\*")
_OUTSIDE = re.compile(
    r"\b(?:apt|apt-get|pip3?|npm|git clone|ssh|scp)\s|https?://(?!(?:127\.0\.0\.1|localhost)\b)[^\s'\"]+"
)
_ALWAYS = re.compile(r"\s*(?:true|:|exit 0|echo\b[^|&;]*|sleep\b[^|&;]*)\s*|.*\|\|\s*(?:true|:)\s*")
_CHANCE = re.compile(r"\$RANDOM\b|\$\{RANDOM\b|/dev/u?random|\buuidgen\b|\bshuf\b|\$\(date\b")
# Right below, so that no service's folder lies in another's, where a link could stand.
_FOLDER = re.compile(r"/(?:var/lib|srv)/[A-Za-z0-9_-][A-Za-z0-9._-]*")
_SYSTEM = frozenset({"/var/lib/dpkg", "/var/lib/apt", "/var/lib/pam", "/var/lib/systemd"})


def service_problems(recipe: Recipe, manifest: ManifestReply) -> list[str]:
    """Every violation: first of the services together, then of each one by itself, then against the plan."""
    planned = {plan.name: plan for plan in manifest.services}
    found = _joint_problems(recipe.services)
    for service in recipe.services:
        found += [f"Service {service.name} {problem}" for problem in _own_problems(service)]
        found += [f"Service {service.name} {problem}" for problem in _plan_problems(service, planned.get(service.name))]
    names = {service.name for service in recipe.services}
    missing = [name for name in planned if name not in names]
    return found + [f"Service {name} is planned in the manifest and is missing from the services." for name in missing]


def _joint_problems(services: Sequence[Service]) -> list[str]:
    names = Counter(service.name for service in services)
    found = [f"There are {n} services named {name}; give each a name of its own." for name, n in names.items() if n > 1]
    if len(services) > MAX_SERVICES:
        found.append(f"There are {len(services)} services; at most {MAX_SERVICES} are allowed.")
    ports = Counter(port for service in services for port in set(service.ports))
    return found + [f"Port {port} is used by {n} services; give each its own." for port, n in ports.items() if n > 1]


def _own_problems(service: Service) -> Iterator[str]:
    if service.user == "root":
        yield "runs as root; use the agent or a user that its package brings."
    for folder in service.folders:
        if not _FOLDER.fullmatch(folder) or folder in _SYSTEM:
            yield f"keeps data in {folder}; use a folder of its own right below /var/lib or /srv."
    for port in service.ports:
        if port < FIRST_PORT:
            yield f"listens on port {port}, which only root may; use one of at least {FIRST_PORT}."
    if found := _DAEMON.search(service.command):
        yield f"goes into the background ({found[0].strip()!r} in its command); keep it in the foreground."
    if found := _EVERYWHERE.search(service.command):
        yield f"listens on every address ({found[0]!r}); bind it to 127.0.0.1."
    if _ALWAYS.fullmatch(service.healthcheck):
        yield "has a healthcheck that asks nothing; ask the service itself, and let a wrong answer fail."
    elif re.search(r"\bsleep\b", service.healthcheck):
        yield "sleeps in its healthcheck, which is repeated every 0.2 s anyway; only ask."
    yield from _text_problems(service)


def _text_problems(service: Service) -> Iterator[str]:
    for part, text in (("command", service.command), ("healthcheck", service.healthcheck), ("set_up", service.set_up)):
        if found := _OUTSIDE.search(text):
            yield f"reaches outside in its {part} ({found[0].strip()!r}); there is only 127.0.0.1."
    if len(service.set_up.encode("utf-8", "replace")) > MAX_SET_UP:
        yield f"has a set_up of more than {MAX_SET_UP} bytes; put its data into a file below /app and load that."
    if found := _CHANCE.search(service.set_up):
        yield f"uses {found[0]!r} in its set_up; every build must give the same data."


def _plan_problems(service: Service, plan: PlannedService | None) -> Iterator[str]:
    if plan is None:
        yield "is not planned in the manifest; leave it out."
        return
    if service.user not in {"agent", "root"} | USERS[plan.package]:
        users = ", ".join(["agent", *sorted(USERS[plan.package])])
        yield f"runs as {service.user}, which package {plan.package} does not bring; use one of: {users}."
    if plan.port not in service.ports:
        yield f"is planned on port {plan.port}, which is not among its ports; listen there and name it."
