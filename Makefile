# Everything starts here; `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
FACET_HOME ?= .facet
export FACET_HOME

VENV := $(FACET_HOME)/venv
FACET := $(VENV)/bin/facet
SETUP := $(PYTHON) -m facet_dagster.setup
# Tests mostly wait for containers: two streams of them, each with a PostgreSQL of its own.
PYTEST_ARGS ?= -n 2 --durations 15

.PHONY: help setup demo test ui verify-harbor check clean-containers stop stack-env pin stack-demo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make this machine ready: Python packages, Docker Engine, base image
	@$(SETUP)

demo: ## run the whole funnel on the shipped examples, without a model
	@$(SETUP) --with harbor
	@$(FACET) demo

test: ## set up what tests need, run the checks, then the test suite
	@$(SETUP) --with harbor,browser,second-base,trainer
	@$(MAKE) --no-print-directory check
	@$(VENV)/bin/python -m pytest $(PYTEST_ARGS)

ui: setup ## serve the Dagster web UI and its daemon on localhost:3000
	@$(FACET) ui

verify-harbor: ## prove accepted tasks with the real Harbor tool
	@$(SETUP) --with harbor
	@$(FACET) verify-harbor

check: ## format, lint, types and import rules
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports

clean-containers: ## remove every container, image and volume that the platform left behind
	@$(FACET) reap

stop: ## stop the embedded Postgres
	@$(FACET) stop

stack-env: setup ## write what docker-compose.yml needs of this host: .env, deploy/secrets
	@$(VENV)/bin/python -m facet_dagster.setup.stack

pin: setup ## write the digests of the images in docker-compose.yml, where a registry answers
	@$(VENV)/bin/python -m facet_dagster.setup.pin

stack-demo: ## bring the stack up from images built here, and carry one seed through it
	@$(SETUP) --with harbor
	@FACET_STACK_DEMO=1 $(VENV)/bin/python -m pytest -n0 tests/e2e/test_stack.py
