# Sets up what is missing, then runs an experiment or the tests. `make help` lists the targets.

SHELL := /bin/sh
BIN := .venv/bin

# The Python that the environment is made with, 3.11 or later.
PYTHON ?= /usr/bin/python3
# The PyTorch that pip is asked for. testbed/setup/environment.sh tells how to get the CPU build.
TORCH ?= torch==2.13.0
EXPERIMENT ?= experiments/quickstart.yaml
# More arguments for pytest, for example PYTEST='-k fedavg'.
PYTEST ?=

export PYTHON TORCH

.PHONY: help setup packages environment kernel run-experiment test check clean
# The steps of the set-up need each other in this order, and each prints its own progress.
.NOTPARALLEL:

help:
	@echo 'make run-experiment [EXPERIMENT=FILE]  set up, then run an experiment ($(EXPERIMENT))'
	@echo 'make test [PYTEST=ARGUMENTS]           set up, check, then run every test'
	@echo 'make check                             style, types and the direction of imports'
	@echo 'make setup                             packages, Python environment, kernel'
	@echo 'make clean                             remove .venv and caches; results stay'
	@echo
	@echo 'Variables: PYTHON, TORCH, TESTBED_KERNEL (a ready kernel instead of one built here).'

setup: kernel

packages:
	@testbed/setup/packages.sh

environment: packages
	@testbed/setup/environment.sh

kernel: environment
	@$(BIN)/python -m testbed.engines.virtual.kernel

run-experiment: setup
	@$(BIN)/testbed run $(EXPERIMENT)

check: environment
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo 'ruff format would change files; run: $(BIN)/ruff format .'; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

test: setup check
	@TESTBED_REQUIRE_KERNEL=1 $(BIN)/pytest $(PYTEST)

# Only what the project itself makes inside its folder. Results are the user's, the kernel serves others.
clean:
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find algorithms testbed tests topologies -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo 'removed .venv and caches; results/ and the kernel in the cache folder stay'
