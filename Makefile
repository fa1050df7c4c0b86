# Every target sets up what it needs. `make demo` and `make test` work on a fresh clone with Python 3.11+ and make.
# The interpreter is found by itself; `make PYTHON=... demo` takes another.
export PYTHON ?=
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
JOBS   ?= 2
WORKERS ?= 3# one more than cores: some tests wait. In the order of tests/conftest.py, which begins with those.
RESULTS ?= results
REFERENCES ?= $(wildcard ../shared/reference)
NVFLARE := .venv-nvflare
DOCS   := .venv-docs

.DEFAULT_GOAL := help
.PHONY: help demo demo-network test test-nvflare test-slow coverage lint format bench results docs clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

# An environment whose interpreter is gone, or was replaced by a newer one, is as good as none.
unless_it_works = $(shell $(1)/bin/python -c 'import pip' 2>/dev/null || echo anew)
.PHONY: anew
anew:

$(READY): pyproject.toml $(call unless_it_works,$(VENV))
	@tools/environment.sh $(VENV) dev

demo: $(READY) ## six hospitals mine together: what they find that none finds alone, and what it costs
	@$(BIN)/fedslim demo

demo-network: $(READY) ## the same for real: a server and three members over mutual TLS on this machine, each variant
	@$(BIN)/fedslim demo --network --variant x --variant sa --variant so

test: $(READY) ## the tests that run in minutes, with the import direction and types
	@$(BIN)/ruff check --quiet && $(BIN)/ruff format --check --quiet && $(BIN)/mypy
	@$(BIN)/python -c 'from fedslim.federated.simulation import prepare; prepare("x"); prepare("sa")' # once, not in each worker
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

# Apart: NVFlare brings 32 packages and 100 MB, and pins some of them. See docs/explanation/decisions/nvflare.md.
$(NVFLARE)/.ready: pyproject.toml $(call unless_it_works,$(NVFLARE))
	@tools/environment.sh $(NVFLARE) dev,nvflare

test-nvflare: $(NVFLARE)/.ready ## federations over NVFlare: its simulator, and its deployment with real processes
	@$(NVFLARE)/bin/mypy && $(NVFLARE)/bin/python -m pytest tests/engines tests/test_rooms.py

test-slow: $(READY) ## the tests that take longer (real data sets, large generated data)
	@$(BIN)/python -m pytest -m slow

coverage: $(READY) ## the tests with coverage (kernels are run interpreted, so this is slow)
	@$(BIN)/python -m pytest --cov --cov-report=term-missing:skip-covered --cov-report=html

lint: $(READY) ## ruff, formatting, mypy strict, import direction
	@$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy && $(BIN)/lint-imports

format: $(READY) ## put the code in shape
	@$(BIN)/ruff check --fix && $(BIN)/ruff format

.PHONY: release-check lint-workflows
release-check: $(READY) ## is this ready to publish? Build, install and test it (CHECK=--skip-nvflare for less)
	@$(BIN)/python tools/release_check.py $(CHECK)

lint-workflows: $(READY) ## the workflows in .github
	@$(BIN)/python tools/release_check.py --only workflows

bench: $(READY) ## the engine beside scikit-mine and the published figures
	@$(BIN)/python bench/run.py

results: $(READY) ## the paper's experiments run again as far as data are at hand (hours from nothing), and docs/results.md
	@failed=0; for name in iid gap uneven noniid scalability budget; do \
	  $(BIN)/fedslim experiment run $$name --jobs $(JOBS) --results $(RESULTS) $(REFERENCES:%=--references %) || failed=1; \
	  done; $(BIN)/fedslim experiment document --results $(RESULTS) && exit $$failed

$(DOCS)/.ready: pyproject.toml $(call unless_it_works,$(DOCS))
	@tools/environment.sh $(DOCS) docs

docs: $(DOCS)/.ready ## the documentation site, in docs/_build/html; any warning is an error
	@$(DOCS)/bin/python -m sphinx --quiet --fail-on-warning --keep-going --nitpicky -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean: ## remove the environment and caches
	@rm -rf $(VENV) .venv-* docs/_build out fedslim-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
