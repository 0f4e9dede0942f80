"""All checks of an installation, side by side and each for a bounded time."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from facet_dagster.doctor import database, engine, files, machine, models
from facet_dagster.doctor.finding import Check, Finding, Patient, broken, ok, warn
from facet_dagster.errors import ConfigError, FacetError
from facet_dagster.settings import load_settings, unknown_variables

CHECKS = (
    Check("packages", machine.packages),
    Check("home", machine.home),
    Check("disk", machine.disk),
    Check("files", files.configured),
    Check("postgres", database.postgres),
    Check("migrations", database.migrations),
    Check("artifacts", files.artifacts),
    Check("vectors", files.vectors),
    Check("docker", engine.docker),
    Check("engine disk", engine.disk),
    Check("base image", engine.base_image),
    Check("leftovers", engine.leftovers),
    Check("model", models.model, seconds=120.0),
    Check("teacher", models.teacher, seconds=120.0),
    Check("harbor", models.harbor),
    Check("web port", machine.web_port),
)


def examine(environment: Mapping[str, str], *, live: bool = False, checks: Sequence[Check] = CHECKS) -> list[Finding]:
    """Findings in the order of ``checks``, the settings first; nothing else is looked at while those are wrong."""
    try:
        settings = load_settings()
    except ConfigError as error:
        return [broken("settings", str(error), "correct what is named; nothing else was looked at")]
    return [_settings(environment), *_all(Patient(settings, environment, live), checks)]


def _settings(environment: Mapping[str, str]) -> Finding:
    unknown = unknown_variables(environment)
    if unknown:
        what = f"{', '.join(unknown)}: no setting has this name, so it changes nothing"
        return warn("settings", what, "correct the name, or remove it from the environment")
    return ok("settings", "every value can be read")


def _all(patient: Patient, checks: Sequence[Check]) -> list[Finding]:
    """In daemon threads, since one that hangs shall not keep the process."""
    found: dict[str, Finding] = {}

    def work(check: Check) -> None:
        found[check.name] = _one(check, patient)

    began = time.monotonic()
    threads = [threading.Thread(target=work, args=(check,), daemon=True) for check in checks]
    for thread in threads:
        thread.start()
    for check, thread in zip(checks, threads, strict=True):
        thread.join(max(0.0, began + check.seconds - time.monotonic()))
    return [found.get(check.name) or _hangs(check) for check in checks]


def _one(check: Check, patient: Patient) -> Finding:
    try:
        return check.look(patient)
    except FacetError as error:
        return broken(check.name, str(error), "do what the sentence says, then look again")
    except Exception as error:  # noqa: BLE001 - a check that cannot look says so, and the others go on
        return broken(check.name, f"could not be looked at ({type(error).__name__})", "report this as a defect")


def _hangs(check: Check) -> Finding:
    return broken(
        check.name, f"gave no answer in {check.seconds:g} s", "restart what stands behind it, then look again"
    )
