# Everything starts here. A fresh machine needs Python 3.11 and make, nothing else.

PYTHON  ?= python3
# Test processes side by side, each with one torch thread. WORKERS=0 runs the tests in one process.
WORKERS ?= 2
# Handed on: `make run ARGS="--help"`, `make bench ARGS="--help"`.
ARGS    ?=

VENV      := .venv
BIN       := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help run test lint format bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(INSTALLED) ## Set up once, then run the quick start
	$(BIN)/mgnni quickstart $(ARGS)

test: lint ## Lint, types, tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

lint: $(INSTALLED) ## Check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED) ## Fix what can be fixed automatically
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED) ## Time the solvers
	$(BIN)/mgnni bench $(ARGS)

clean: ## Remove what was built or cached; keeps .venv and .data
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +

# Done once, and again whenever the requirements change.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@
