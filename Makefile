# Every target sets up what it needs. `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Test processes at once: two cores, and some tests start servers of their own.
WORKERS ?= 2

.PHONY: help setup run test test-real check lint types unit models bench docs fmt clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Headgate needs Python 3.11 or later; hint: make PYTHON=python3.12 …"; exit 4; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the pinned dependencies into $(VENV) (once; about two minutes)"
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet -c constraints.txt --group dev -e ".[all]"
	@touch $@

setup: $(READY) ## Create the environment with the pinned dependencies

run: $(READY) ## Run the demo pipeline on the embedded parts
	@$(BIN)/headgate demo

check: lint types unit ## The fast loop: lint, types, import rules, unit tests (under 2 minutes)

lint: $(READY)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports

types: $(READY)
	@$(BIN)/mypy
	@$(BIN)/pytest -q tests/typing

unit: $(READY)
	@$(BIN)/pytest -q -n $(WORKERS) -m "not slow and not real and not spark" tests/unit tests/guards

test: $(READY) ## All tests on the embedded parts, graph and local Spark
	@$(BIN)/pytest -n $(WORKERS) --dist loadgroup -m "not real" --durations=15 --cov --cov-report=term:skip-covered

test-real: $(READY) ## The tests that need real servers: lakeFS, Conductor, S3, a Spark cluster
	@$(BIN)/python -m tools.servers install
	@$(BIN)/pytest -m real --durations=15 || { code=$$?; [ $$code -eq 5 ] || exit $$code; \
	  echo "make test-real: there are no tests against real servers"; }

models: $(READY) ## Explore the models of both protocols (an hour or more)
	@$(BIN)/python models/publication_protocol.py
	@$(BIN)/python models/publication_protocol.py --broken all --without all
	@$(BIN)/python models/graph_protocol.py
	@$(BIN)/python models/graph_protocol.py --broken all

bench: $(READY) ## Run the benchmarks and write bench/report
	@$(BIN)/python -m bench

docs: $(READY) ## Build the documentation site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

fmt: $(READY) ## Format the source and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean: ## Remove the environment and everything that was built
	rm -rf $(VENV) dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
