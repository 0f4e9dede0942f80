"""The certificate of a validated task: what was tried on it, and what each trial found."""

from __future__ import annotations

from facet_dagster.stages.task.certificate.certify import Certified, certified, certify
from facet_dagster.stages.task.certificate.effort import Effort

__all__ = ["Certified", "Effort", "certified", "certify"]
