# Every target sets up what it needs. `make demo` and `make test` work on a fresh clone with Python 3.11+ and make.
# The interpreter is found automatically; `make PYTHON=... demo` uses another.
export PYTHON ?=
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
JOBS   ?= 2
WORKERS ?= 3# one more than cores, because some tests wait; tests/conftest.py runs those first.
RESULTS ?= results
REFERENCES ?= $(wildcard ../shared/reference)
NVFLARE := .venv-nvflare
RAY    := .venv-ray
DOCS   := .venv-docs

.DEFAULT_GOAL := help
.PHONY: help demo demo-network test test-nvflare test-ray test-slow coverage lint format bench results docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

# Set up again an environment whose interpreter was removed or replaced by a newer one.
unless_it_works = $(shell $(1)/bin/python -c 'import pip' 2>/dev/null || echo anew)
.PHONY: anew
anew:

$(READY): pyproject.toml $(call unless_it_works,$(VENV))
	@tools/environment.sh $(VENV) dev

demo: $(READY) ## six hospitals mine together: what they find that none finds alone, and the cost
	@$(BIN)/fedslim demo

demo-network: $(READY) ## a server and three members as processes over mutual TLS on this machine, each variant
	@$(BIN)/fedslim demo --network --variant x --variant sa --variant so

# The kernels, once and not in each process of the tests.
COMPILE := $(BIN)/python -c 'from fedslim.federated.simulation import prepare; prepare("x"); prepare("sa")'

test: $(READY) ## lint, types, import direction and the fast tests (minutes)
	@$(COMPILE) & $(BIN)/ruff check --quiet && $(BIN)/ruff format --check --quiet && $(BIN)/mypy && wait $$! || \
	  { kill $$! 2>/dev/null; exit 1; }
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

test test-slow: export PYTHONDONTWRITEBYTECODE =# hundreds of processes start, and would compile all modules anew

# A separate environment: NVFlare brings 32 packages and 100 MB, some pinned. See docs/explanation/decisions/nvflare.md.
$(NVFLARE)/.ready: pyproject.toml $(call unless_it_works,$(NVFLARE))
	@tools/environment.sh $(NVFLARE) dev,nvflare

test-nvflare: $(NVFLARE)/.ready ## federations over NVFlare: in its simulator, and deployed as real processes
	@$(NVFLARE)/bin/mypy && $(NVFLARE)/bin/python -m pytest tests/engines tests/test_rooms.py

$(RAY)/.ready: pyproject.toml $(call unless_it_works,$(RAY))
	@tools/environment.sh $(RAY) dev,ray

test-ray: $(RAY)/.ready ## the search on Ray: equal tables, and a cluster on this machine whose nodes are killed
	@$(RAY)/bin/mypy && $(RAY)/bin/python -m pytest tests/engines_ray tests/engines/test_rows.py tests/test_rooms.py

test-slow: $(READY) ## the slow tests (real data sets, large generated data), and properties with more examples
	@$(BIN)/python -m pytest -m slow
	@FEDSLIM_TESTS=thorough $(BIN)/python -m pytest tests/algorithm1 tests/data tests/federated/test_records.py tests/mdl tests/protocol tests/secagg

coverage: $(READY) ## the tests with coverage (slow: kernels run interpreted)
	@$(BIN)/python -m pytest --cov --cov-report=term-missing:skip-covered --cov-report=html

lint: $(READY) ## ruff, formatting, mypy strict, import direction
	@$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy && $(BIN)/lint-imports

format: $(READY) ## format the code and apply safe fixes
	@$(BIN)/ruff check --fix && $(BIN)/ruff format

.PHONY: release-check lint-workflows
release-check: $(READY) ## is this ready to publish? Build, install and test it (CHECK=--skip-nvflare for less)
	@$(BIN)/python tools/release_check.py $(CHECK)

lint-workflows: $(READY) ## the workflows in .github
	@$(BIN)/python tools/release_check.py --only workflows

bench: $(READY) ## compare the engine with scikit-mine and published figures
	@$(BIN)/python bench/run.py

results: $(READY) ## run the paper's experiments on the data available (hours), and write docs/results.md
	@failed=0; for name in iid gap uneven noniid scalability budget; do \
	  $(BIN)/fedslim experiment run $$name --jobs $(JOBS) --results $(RESULTS) $(REFERENCES:%=--references %) || failed=1; \
	  done; $(BIN)/python bench/results.py --results $(RESULTS) && exit $$failed

$(DOCS)/.ready: pyproject.toml $(call unless_it_works,$(DOCS))
	@tools/environment.sh $(DOCS) docs

docs: $(DOCS)/.ready ## the documentation site, in docs/_build/html; any warning is an error
	@$(DOCS)/bin/python -m sphinx --quiet --fail-on-warning --keep-going --nitpicky -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean: ## remove the environment and caches
	@rm -rf $(VENV) .venv-* docs/_build out fedslim-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
