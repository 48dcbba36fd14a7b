# Condyle: every target builds what it needs; the second run starts at once.

PYTHON      ?= python3
PYTEST_ARGS ?=
# one more than there are cores: a test that waits for a browser or another process leaves its core to the others
TEST_WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
VENV        := .venv
BIN         := $(VENV)/bin
# PYTEST_ARGS: --random draws new examples, --empty-cache compiles everything again. The tests of a file share robots and kernels
PYTEST      := $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile
# the markers that `make test` leaves out and `make test-all` adds (pyproject.toml)
LEFT_OUT    := slow or docs or peers or browser or gpu

# the optional packages each target installs
demo_extras  := plot,viewer,export,precision
test_extras  := test
bench_extras := precision,casadi,plot,mjcf,peers
lint_extras  := lint
docs_extras  := docs

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-all bench lint docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-demo ## five robots, simulated, checked and reported, in a minute
	$(BIN)/condyle demo

test: $(VENV)/.installed-test ## run the tests of every module, in minutes; PYTEST_ARGS="-k name -x" narrows them
	$(PYTEST) -m "not ($(LEFT_OUT))" $(PYTEST_ARGS)

test-all: test ## then those that train, run pages and demos, open browsers, or compare with other libraries
	$(PYTEST) -m "$(LEFT_OUT)" $(PYTEST_ARGS)

bench: $(VENV)/.installed-bench ## measure the speeds the documentation quotes
	$(BIN)/python -m benchmarks

lint: $(VENV)/.installed-lint ## check style, formatting, types, and the text of code and pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_text.py
	$(BIN)/mypy

docs: $(VENV)/.installed-docs ## build the documentation with its reference and search: site/index.html
	$(BIN)/python scripts/build_site.py

clean: ## remove caches and outputs; the environment stays (rm -r .venv)
	rm -rf build dist out site .hypothesis .mypy_cache .pytest_cache .ruff_cache .test_cache
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

# an install is redone when pyproject.toml changes; each target keeps its own mark
$(VENV)/.installed-%: pyproject.toml | $(VENV)/.created
	@echo "installing condyle[$($*_extras)] into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --editable '.[$($*_extras)]'
	@touch $@

# the mark is set last, so that an interrupted or impossible creation is not taken for an environment
$(VENV)/.created:
	@$(PYTHON) -c '' 2>/dev/null \
	  || { echo "error: '$(PYTHON)' does not run; on Debian or Ubuntu: sudo apt-get install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: Condyle needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1); sudo apt-get install python3.11 python3.11-venv, then: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "error: $(PYTHON) lacks the venv module; on Debian or Ubuntu: sudo apt-get install python3-venv" >&2; exit 1; }
	@echo "creating $(VENV) with $$($(PYTHON) -V) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@
