"""Make a machine ready: `python3 -m facet_dagster.setup`, idempotent, in two phases.

Phase 1 uses the standard library only and makes the virtual environment; phase 2 runs in it and brings the
Docker Engine, the base images and, on request, what tests need. Every failure is a SetupError of one sentence.
"""
