"""Stage 4: from an environment to a validated, certified Harbor task (paper, sections 3.3 and 3.4, Table 8)."""

from __future__ import annotations

from facet_dagster.domain.ids import digest
from facet_dagster.prompts import version
from facet_dagster.stages.task.blind import BLIND_VERSION
from facet_dagster.stages.task.certificate import Effort, certify
from facet_dagster.stages.task.draft import draft
from facet_dagster.stages.task.examine import EXAMINE_VERSION
from facet_dagster.stages.task.images import Images
from facet_dagster.stages.task.orders import ORDERS, Strategy
from facet_dagster.stages.task.package import (
    SHIPPED,
    Package,
    TaskLimits,
    build_package,
    export,
    package_digest,
    package_files,
)
from facet_dagster.stages.task.recording import Recording
from facet_dagster.stages.task.repair import Rebuild, finish
from facet_dagster.stages.task.settle import certify_and_repair
from facet_dagster.stages.task.trial import Trials
from facet_dagster.stages.task.validate import first_validation, validate

_FILES = digest([(SHIPPED / name).read_text(encoding="utf-8") for name in ("run_checks.py", "test.sh")])[:16]

DRAFT_VERSION = f"2-{version('instruction', 'solution', 'verifier')}"
JOINT_VERSION = f"1-{version('joint')}"
RECORDING_VERSION = f"1-{version('session', 'session_instruction', 'session_verifier')}"
VALIDATION_VERSION = f"2-{_FILES}"
VERSION = f"3-{version('repair_task')}-{_FILES}"
# Of level strict alone.
REBUILD_VERSION = "rebuild-1"
CERTIFICATE_VERSION = f"5-{version('repair_task')}-{_FILES}"

__all__ = [
    "BLIND_VERSION",
    "CERTIFICATE_VERSION",
    "DRAFT_VERSION",
    "EXAMINE_VERSION",
    "JOINT_VERSION",
    "ORDERS",
    "REBUILD_VERSION",
    "RECORDING_VERSION",
    "VALIDATION_VERSION",
    "VERSION",
    "Effort",
    "Images",
    "Package",
    "Rebuild",
    "Recording",
    "Strategy",
    "TaskLimits",
    "Trials",
    "build_package",
    "certify",
    "certify_and_repair",
    "draft",
    "export",
    "finish",
    "first_validation",
    "package_digest",
    "package_files",
    "validate",
]
