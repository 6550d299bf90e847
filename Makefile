# What a newcomer needs: `make demo` and `make test`. A second run is quick: what was installed is remembered by stamp
# files in .venv, and `make clean` forgets it. PYTHON chooses the interpreter, PIP_FLAGS adds options of `pip install`,
# PYTEST_FLAGS options of pytest. LOCK names a file of pinned versions with their hashes (LOCK=.ci/requirements.txt): then
# exactly these are installed, and nothing whose hash it does not name.

PYTHON ?= python3
PIP_FLAGS ?=
LOCK ?=
PYTEST_FLAGS ?= -n 2 --dist worksteal
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Installs these sources with what they need: $(1) says which of it, or LOCK. Hashes cannot be asked of a folder, so that
# the sources come by themselves after what is locked, built with what is installed then.
install = $(if $(LOCK),$(PIP) install $(PIP_FLAGS) --require-hashes -r "$(LOCK)" && $(PIP) install --no-deps --no-build-isolation -e .,$(PIP) install $(PIP_FLAGS) $(1) -e '.[prices]')
# What tries the engine's promises for minutes says nothing about how the package was built: not repeated for the wheel.
ENGINE_TESTS := $(addprefix tests/,$(addprefix whole/test_,$(addsuffix .py,concurrency crashes interrupts malformed races soak)) \
  $(addprefix store/test_,$(addsuffix .py,faults many_processes sqlite staging)) history/test_tampering.py session/test_state_machine.py)
# Tests in which a store and a model go through the same random steps: 10,000 of them with --long.
STATE_MACHINES := $(addprefix tests/,session/test_state_machine.py runtime/test_tree_machine.py runtime/test_runs_machine.py runtime/test_ledger.py)
SHARED := $(or $(TRAILS_SHARED),$(abspath ../shared))
# Some images set it. Then each worker, and each of hundreds of processes that tests start, would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help ontology ontology-page docs sbom demo test test-all frameworks crates long state-machines lint style types pyright layers wheel-test wheel-pythons bench clean
.DELETE_ON_ERROR:

EXAMPLES = build/examples

help:
	@echo "make demo        install into $(VENV) and show in a minute what Trails does"
	@echo "make test        install into $(VENV) and run the tests: with small figures and without the slow ones (four to eight minutes)"
	@echo "make test-all    all tests with their usual figures (ten to thirty minutes)"
	@echo "make frameworks  the agent frameworks' own test suites, on Trails and on their own stores (from the network)"
	@echo "make crates      validate an evidence pack as an RO-Crate by roc-validator, in an environment of its own (from the network)"
	@echo "make long        the tests with their long figures"
	@echo "make state-machines   10,000 random steps against a model (some minutes)"
	@echo "make lint        style (ruff), types (mypy), layers (import-linter)"
	@echo "make wheel-test  build the wheel and run the tests against it, away from these sources"
	@echo "make wheel-pythons   try the wheel on each of Python 3.11 to 3.13 that is on this machine"
	@echo "make ontology    make the ontology's shapes and its page again, after a change to it"
	@echo "make ontology-page    write the ontology's page for people to build/ontology by pyLODE, in an environment of its own (from the network)"
	@echo "make docs        make the site of the documents in build/site; links that lead nowhere are errors"
	@echo "make sbom        write a bill of materials (CycloneDX) to dist/trails.cdx.json (from the network)"
	@echo "make bench       run the benchmarks"
	@echo "make clean       remove $(VENV) and what was built"

demo: $(VENV)/.installed
	@$(BIN)/python -m trails demo
	@echo
	@echo "The program is $(BIN)/trails; to type only trails in this shell: export PATH=\"$(abspath $(BIN)):\$$PATH\""

test: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

test-all: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_FLAGS) --all

frameworks: $(VENV)/.test
	$(BIN)/python -m tests.frameworks --record

# roc-validator 0.13 needs rich below 14, and Trails 14 or newer.
crates: $(VENV)/.test
	rm -rf build/crates && $(PYTHON) -m venv build/crates
	build/crates/bin/python -m pip --disable-pip-version-check --quiet install $(PIP_FLAGS) --require-hashes -r .ci/crates.txt
	TRAILS_CRATES=build/crates/bin/python $(BIN)/python -m pytest tests/audit/test_run_crate.py -k roc_validator

long: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_FLAGS) --long

# One seed, so that a run can be repeated; `make long` draws others.
state-machines: $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_FLAGS) --long --hypothesis-seed=20261121 $(STATE_MACHINES) -k "go_through_the_same_steps or announced_once"

lint: style types layers

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy
	$(BIN)/python -m tests.support.typed_programs $(EXAMPLES)
	$(BIN)/mypy --strict $(EXAMPLES)/page_*.py

pyright: $(VENV)/.dev
	$(BIN)/python -m tests.support.typed_programs $(EXAMPLES)
	$(BIN)/pyright --pythonpath $(BIN)/python $(EXAMPLES)

layers: $(VENV)/.dev
	$(BIN)/lint-imports

# The tests and the documents that they read are copied to a temporary folder, the sources are not: what is imported there
# is the wheel.
wheel-test: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build $(if $(LOCK),--no-isolation) --outdir dist
	@set -e; away=$$(mktemp -d); trap 'rm -rf "$$away"' EXIT; \
	  $(PYTHON) -m venv "$$away/venv"; pip="$$away/venv/bin/python -m pip --disable-pip-version-check --quiet"; \
	  if [ -n "$(LOCK)" ]; then \
	    $$pip install $(PIP_FLAGS) --require-hashes -r "$(LOCK)"; $$pip install --no-deps dist/*.whl; \
	  else \
	    $$pip install --upgrade 'pip>=25.1'; $$pip install $(PIP_FLAGS) --group test dist/*.whl; \
	  fi; \
	  cp -R tests benchmarks ontology .ci pyproject.toml README.md CONTRIBUTING.md CHANGELOG.md Makefile "$$away"; \
  mkdir "$$away/queries"; cp queries/README.md "$$away/queries"; \
	  cd "$$away"; \
	  venv/bin/python -c 'import sys, trails; print(trails.__file__); sys.exit("site-packages" not in trails.__file__)'; \
	  TRAILS_SHARED="$(SHARED)" venv/bin/python -m pytest $(PYTEST_FLAGS) $(ENGINE_TESTS:%=--ignore=%)

wheel-pythons: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build $(if $(LOCK),--no-isolation) --outdir dist
	LOCK="$(LOCK)" PIP_FLAGS="$(PIP_FLAGS)" .ci/wheel-on-pythons dist/*.whl

ontology: $(VENV)/.installed
	$(BIN)/python -m ontology.generate

# The wheel of pyLODE 3.4.1 cannot be imported: it looks for a pyproject.toml that it has not.
ontology-page: $(VENV)/.installed
	rm -rf build/pylode build/ontology && $(PYTHON) -m venv build/pylode && mkdir -p build/ontology
	build/pylode/bin/python -m pip --disable-pip-version-check --quiet install $(PIP_FLAGS) pylode==3.3.4
	build/pylode/bin/pylode ontology/trails.ttl -o build/ontology/index.html
	$(BIN)/python -m ontology.page build/ontology/index.html

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --config-file .ci/docs/mkdocs.yml
	@echo "build/site/index.html; for its search: $(BIN)/python -m http.server --directory build/site --bind 127.0.0.1"

# What an installation with all extras has, at the versions that the tests run with; and cyclonedx-py beside it, which needs
# other versions of some packages.
sbom: $(VENV)/.made
	rm -rf build/sbom && mkdir -p build/sbom dist && $(PYTHON) -m venv build/sbom/product && $(PYTHON) -m venv build/sbom/tool
	sed -nE 's/^([A-Za-z0-9_.-]+==[^ ]+).*/\1/p' .ci/requirements.txt > build/sbom/versions.txt
	build/sbom/product/bin/python -m pip --disable-pip-version-check --quiet install $(PIP_FLAGS) -c build/sbom/versions.txt '.[all]'
	build/sbom/product/bin/python -m pip --disable-pip-version-check --quiet uninstall --yes setuptools pip
	build/sbom/tool/bin/python -m pip --disable-pip-version-check --quiet install $(PIP_FLAGS) --require-hashes -r .ci/sbom.txt
	build/sbom/tool/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --gather-license-texts \
	  --output-reproducible --validate -o dist/trails.cdx.json build/sbom/product

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist

# --- what is installed

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is missing or older than Python 3.11; install a newer one, or name it: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "error: $(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(if $(LOCK),,$(PIP) install --upgrade 'pip>=25.1')
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml $(LOCK)
	$(call install,)
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml $(LOCK)
	$(call install,--group test)
	@touch $@ $(VENV)/.installed

$(VENV)/.dev: $(VENV)/.made pyproject.toml $(LOCK)
	$(call install,--group dev)
	@touch $@ $(VENV)/.test $(VENV)/.docs $(VENV)/.installed

$(VENV)/.docs: $(VENV)/.made pyproject.toml $(LOCK)
	$(call install,--group docs)
	@touch $@ $(VENV)/.installed

$(VENV)/.bench: $(VENV)/.made pyproject.toml
	$(PIP) install $(PIP_FLAGS) --group bench -e .
	@touch $@ $(VENV)/.installed
