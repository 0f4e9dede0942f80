"""What services may be, and how replies make and repair them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from facet_dagster.domain.environment import (
    EnvironmentRepairReply,
    ManifestReply,
    Recipe,
    RecipeReply,
    Service,
)
from facet_dagster.prompts import render
from facet_dagster.stages.environment.edits import apply_repair, compose
from facet_dagster.stages.environment.service_policy import service_problems

PLAN = {"name": "db", "package": "redis-server", "port": 6379, "use": "change", "purpose": "stock"}
FILES = [{"path": f"f{n}", "purpose": "p", "how": "literal", "rows": 1} for n in range(3)]


def manifest(*plans: dict[str, Any]) -> ManifestReply:
    return ManifestReply.model_validate({"packages": ["jq"], "rules_file": "f0", "files": FILES, "services": plans})


def service(**values: Any) -> Service:
    given = {"name": "db", "command": "exec db", "healthcheck": "ask db", "user": "redis", "ports": (6379,)}
    return Service.model_validate({**given, **values})


def recipe(*services: Service) -> Recipe:
    return Recipe(packages=("redis-server",), rules_file="f0", files=(), services=services)


def problems(*services: Service, plan: dict[str, Any] = PLAN) -> str:
    return "\n".join(service_problems(recipe(*services), manifest(plan)))


@pytest.mark.parametrize(
    "values",
    [
        {"folders": ("/var/lib/db", "/srv/db"), "workdir": "/var/lib/db"},
        {"user": "agent"},
        {"command": "exec redis-server --bind 127.0.0.1 -::1 --daemonize no"},
        {"healthcheck": "curl --silent http://127.0.0.1:6379/ || exit 1"},
        {"set_up": "redis-server --daemonize yes\nuntil redis-cli ping; do sleep 0.1; done\npg_ctl start &\n"},
    ],
)
def test_a_service_as_the_prompt_describes_it_is_allowed(values: dict[str, Any]) -> None:
    assert problems(service(**values)) == ""


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"user": "root"}, "runs as root"),
        ({"user": "www-data"}, "which package redis-server does not bring; use one of: agent, redis"),
        ({"folders": ("/etc",)}, "keeps data in /etc"),
        ({"folders": ("/srv/../etc",)}, "keeps data in /srv/../etc"),
        ({"ports": (6379, 80)}, "listens on port 80, which only root may"),
        ({"ports": (6380,)}, "is planned on port 6379"),
        ({"command": "redis-server --daemonize yes"}, "goes into the background ('daemonize yes'"),
        ({"folders": ["/srv/a/b"]}, "keeps data in /srv/a/b; use a folder of its own right below"),
        ({"folders": ["/var/lib/dpkg"]}, "keeps data in /var/lib/dpkg"),
        ({"folders": ["/var/lib/."]}, "keeps data in /var/lib/."),
        ({"command": "db &"}, "goes into the background"),
        ({"command": "nohup db"}, "goes into the background"),
        ({"command": "exec db --bind 0.0.0.0"}, "listens on every address ('0.0.0.0'"),
        ({"command": "exec db --bind ::"}, "listens on every address"),
        ({"healthcheck": "true"}, "asks nothing"),
        ({"healthcheck": "sleep 5"}, "asks nothing"),
        ({"healthcheck": "ask db || true"}, "asks nothing"),
        ({"healthcheck": "sleep 3; ask db"}, "sleeps in its healthcheck"),
        ({"healthcheck": "curl http://example.com/"}, "reaches outside in its healthcheck ('http://example.com/')"),
        ({"set_up": "apt-get install -y jq"}, "reaches outside in its set_up ('apt-get')"),
        ({"set_up": "echo $RANDOM > x"}, "every build must give the same data"),
        ({"set_up": "x" * 20_000}, "more than 16384 bytes"),
    ],
)
def test_other_services_are_refused_with_what_to_do(values: dict[str, Any], words: str) -> None:
    assert words in problems(service(**values))


def test_services_are_those_of_the_manifest() -> None:
    assert problems() == "Service db is planned in the manifest and is missing from the services."
    assert "Service web is not planned in the manifest" in problems(service(), service(name="web", ports=(8080,)))
    assert "There are 2 services named db" in problems(service(), service())
    assert "Port 6379 is used by 2 services" in problems(service(), service(name="other"))
    assert "at most 4" in problems(*(service(name=f"s{n}") for n in range(5)))


@pytest.mark.parametrize("wrong", [{"package": "openssh-server"}, {"port": 80}, {"use": "restart"}, {"name": "A b"}])
def test_a_plan_knows_its_packages_ports_and_uses(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        manifest({**PLAN, **wrong})


def test_values_without_services_are_written_as_before() -> None:
    assert "services" not in manifest().model_dump(mode="json")
    assert manifest(PLAN).model_dump(mode="json")["services"] == [PLAN]


def test_the_package_of_a_service_is_installed() -> None:
    reply = RecipeReply(files=[], services=[service()])
    made = compose(manifest(PLAN), reply)
    assert (made.packages, made.services) == (("jq", "redis-server"), (service(),))
    own = compose(manifest({**PLAN, "package": "python3"}), reply)
    assert own.packages == ("jq",), "python3 is in every image"


def test_a_repair_replaces_adds_and_removes_whole_services() -> None:
    start = recipe(service(), service(name="extra"))
    better = service(command="exec db --good")
    reply = EnvironmentRepairReply(diagnosis="d", put_services=[better, service(name="web")], remove_services=["extra"])
    edited, found = apply_repair(start, reply)
    assert found == []
    assert edited.services == (better, service(name="web"))
    assert apply_repair(start, EnvironmentRepairReply(diagnosis="d", put_services=[service()]))[1]


def test_the_prompt_tells_how_to_write_services_only_where_they_are_planned() -> None:
    def told(*plans: dict[str, Any]) -> str:
        variables = {"specification": {}, "manifest": manifest(*plans)}
        return render("environment", variables, RecipeReply).user.partition("Answer with one JSON")[0]

    assert "redis-server: user redis" in told(PLAN)
    assert "services" not in told()
    assert "\n\n\n" not in told() + told(PLAN)
