# Everything a newcomer needs: Python 3.11 or newer, make, and one of these words. `make help` lists them.

PYTHON ?= $(shell for it in python3.13 python3.12 python3.11 python3; do \
	"$$it" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v "$$it" && break; done)
BIN := .venv/bin
STAMP := .venv/stamp

.PHONY: help venv demo test lint bench bench-ring chaos clean
.DEFAULT_GOAL := help

help: ## Say what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP) ## Create .venv with everything in it

# The stamp is touched last: an interrupted install is done again.
$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Shoal needs Python 3.11 or newer, and none is on your PATH. Install one, or say make PYTHON=/path/to/python3.11"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Shoal needs Python 3.11 or newer, but $(PYTHON) is `"$(PYTHON)" -V 2>&1`. Say make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv .venv || { echo "The venv module is missing: install your system's python3-venv package"; exit 1; }
	@echo "Installing into .venv (a minute or so) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP) ## Eight real peers, an app, a kill -9: no row lost, none doubled
	@$(BIN)/peer demo

test: lint ## Lint, types, tests and doctests
	@$(BIN)/python -m pytest -q

lint: $(STAMP) ## ruff and strict mypy
	@$(BIN)/ruff check .
	@$(BIN)/mypy

bench: $(STAMP) ## Compare the engine with polars and bytewax, a minute or two (docs/benchmarks.md)
	@$(BIN)/python -m bench --against polars,bytewax,bytewax-arrow --quick

bench-ring: $(STAMP) ## Measure 20 real peers: repair, suspicion, idle cost
	@$(BIN)/python -m bench.ring_real

MINUTES ?= 5
SEED ?= 1

chaos: $(STAMP) ## Faults over many seeds in the simulator, then kill -9 on real peers for MINUTES=5; counts every row
	@$(BIN)/peer sim chaos --seeds 60
	@$(BIN)/python -m bench.chaos_real --minutes $(MINUTES) --seed $(SEED)

clean: ## Remove .venv and all caches
	@rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
