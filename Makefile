# Needs Python 3.11 or newer (PYTHON=... chooses one), make and git; everything else is
# installed into .venv and .peers. `make help` lists the targets.
#
# Recipes stay within what make 3.81 knows: it is the one macOS ships.

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
PY := $(VENV)/bin/python
PEERS := .peers
PINS := tests/servers/peers
BENCH_PINS := benchmarks/peers
SUITE := conformance
BUILD := .build
SITE ?= $(BUILD)/scoreboard

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# The tests start hundreds of interpreters: none is to compile everything anew, whatever
# the environment says of writing bytecode.
export PYTHONDONTWRITEBYTECODE :=

WORKERS ?= 4
PART := sh .ci/part
QUIET := sh .ci/quiet
MAKE_QUIETLY := $(MAKE) --no-print-directory
PIP := $(PY) -m pip --quiet
# Pins are complete, so pip resolves nothing and installs into an environment without pip.
PEER_PIP = $(PY) -m pip --quiet --python $(@D)/bin/python install --no-deps

.DEFAULT_GOAL := help
.PHONY: help demo setup peers lint types format test verify pytest coverage fresh conformance \
	fuzz soak rows bench bench-peers plots scoreboard clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

# --- environments -------------------------------------------------------------------

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "mcpwire needs Python 3.11 or newer, this is %d.%d: make PYTHON=... chooses another" % v[:2])'
	@$(QUIET) $(BUILD)/venv.log $(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml .ci/constraints.txt
	@$(QUIET) $(BUILD)/install.log $(PIP) install -c .ci/constraints.txt -e .
	@touch $@

# `--group` came with pip 25.1, newer than the pip Python 3.11 brings along.
$(VENV)/.dev: $(VENV)/.made pyproject.toml .ci/constraints.txt
	@$(QUIET) $(BUILD)/pip.log $(PIP) install -c .ci/constraints.txt --upgrade pip
	@$(QUIET) $(BUILD)/dev.log $(PIP) install -c .ci/constraints.txt -e . --group dev
	@touch $(VENV)/.installed $@

setup: $(VENV)/.dev ## make .venv with mcpwire and the tools of development
	@:

$(PEERS)/node/.made: $(PINS)/package.json $(PINS)/package-lock.json | $(VENV)/.dev
	@mkdir -p $(@D)
	@cp $(PINS)/package.json $(PINS)/package-lock.json $(@D)/
	@PATH="$(BIN):$$PATH" $(QUIET) $(BUILD)/peers-node.log \
		npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund
	@touch $@

$(PEERS)/conformance/.made: $(SUITE)/package.json $(SUITE)/package-lock.json | $(VENV)/.dev
	@mkdir -p $(@D)
	@cp $(SUITE)/package.json $(SUITE)/package-lock.json $(@D)/
	@PATH="$(BIN):$$PATH" $(QUIET) $(BUILD)/peers-conformance.log \
		npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund
	@touch $@

define install_peer
@$(QUIET) $(BUILD)/peers-$*.log $(PY) -m venv --without-pip $(@D)
@$(QUIET) $(BUILD)/peers-$*.log $(PEER_PIP) -r $<
@touch $@
endef

$(PEERS)/%/.made: $(PINS)/requirements-%.txt | $(VENV)/.dev
	$(install_peer)

$(PEERS)/%/.made: $(BENCH_PINS)/requirements-%.txt | $(VENV)/.dev
	$(install_peer)

peers: ## install the real servers of the tests and the official suite into .peers
	@MAKEFLAGS= $(MAKE_QUIETLY) -s -j 3 $(PEERS)/fastmcp/.made $(PEERS)/node/.made \
		$(PEERS)/python-sdk/.made $(PEERS)/servers/.made $(PEERS)/authlib/.made \
		$(PEERS)/conformance/.made

bench-peers: peers ## install the rest too, which only benchmarks compare (200 MB)
	@$(MAKE_QUIETLY) -s $(PEERS)/chuk-mcp/.made $(PEERS)/mcp-use/.made \
		$(PEERS)/mcp-proxy/.made

# --- proof --------------------------------------------------------------------------

lint: $(VENV)/.dev ## check style, format, types and the figures of the tree
	@mkdir -p $(BUILD); code=0; \
	$(PY) -m ruff check --quiet . || code=1; \
	$(PY) -m ruff format --check . >$(BUILD)/format.log || { cat $(BUILD)/format.log; code=1; }; \
	$(PY) -m mypy --no-error-summary || code=1; \
	$(BIN)/basedpyright >$(BUILD)/pyright.log || { cat $(BUILD)/pyright.log; code=1; }; \
	$(PY) tests/house.py >$(BUILD)/house.log || { cat $(BUILD)/house.log; code=1; }; \
	exit $$code

format: $(VENV)/.dev ## write the format and the fixes that are safe
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

# Hypothesis builds its table of characters once, which takes three seconds, but fifteen
# where coverage looks on.
.hypothesis/unicode_data: | $(VENV)/.dev
	@$(PY) -c "import hypothesis as h; h.find(h.strategies.text(), lambda _: True)"

# Nearly half of the tests' time is waited for (a peer that must be given up in time, a
# child that starts), so there are two workers more than this is meant to have cores.
pytest: $(VENV)/.dev .hypothesis/unicode_data
	@rm -f .coverage .coverage.*
	@$(PY) -m compileall -q mcpwire
	@$(PY) tests/prewarm.py
	@$(PY) tests/run_tests.py --no-header -n $(WORKERS) --dist=worksteal \
		--durations=10 --tb=short $(PYTEST_ARGS)

coverage: $(VENV)/.dev
	@$(PY) -m coverage combine --quiet --keep
	@$(PY) -m coverage report --include="$$($(PY) tests/gates.py)" --precision=2 --fail-under=100
	@$(PY) -m coverage report --precision=2 --fail-under=95

test: ## set up, then lint, types, tests, coverage, a stranger's install, two official legs
	@mkdir -p $(BUILD) && rm -f $(BUILD)/times $(BUILD)/junit*.xml
	@$(PART) "set-up" $(MAKE_QUIETLY) setup
	@$(PART) "real servers, lint and types" $(MAKE_QUIETLY) -j 2 peers lint
	@$(PART) "tests" $(MAKE_QUIETLY) pytest
	@$(PART) "coverage, fresh install, official legs" \
		$(MAKE_QUIETLY) -j 3 coverage fresh conformance LEGS="--leg C4 --leg S4"
	@cat $(BUILD)/times
	@$(PY) tests/run_tests.py --report

verify: ## everything else and everything larger: all legs, soak, load, fuzz, rows, benchmarks
	@mkdir -p $(BUILD) && rm -f $(BUILD)/times $(BUILD)/junit*.xml
	@$(PART) "set-up" $(MAKE_QUIETLY) setup
	@$(PART) "real servers" $(MAKE_QUIETLY) bench-peers
	@$(PART) "tests, every cell and many examples" env HYPOTHESIS_PROFILE=verify \
		$(MAKE_QUIETLY) pytest PYTEST_ARGS="--all-grounds --timeout=900"
	@$(PART) "official legs" $(MAKE_QUIETLY) conformance
	@$(PART) "soak and load" $(MAKE_QUIETLY) soak LOAD=--full
	@$(PART) "fuzz" $(MAKE_QUIETLY) fuzz
	@$(PART) "rows of the five systems" $(MAKE_QUIETLY) rows
	@$(PART) "benchmarks" $(MAKE_QUIETLY) bench
	@$(PART) "slowdowns are found" $(PY) benchmarks/detection.py --trials 20
	@cat $(BUILD)/times
	@$(PY) tests/run_tests.py --report

fresh: $(VENV)/.dev $(PEERS)/node/.made ## install the wheel as a stranger does, and use it
	@$(PY) tests/fresh_install.py

conformance: $(VENV)/.dev $(PEERS)/conformance/.made ## put client and server to the official suite; LEGS="--leg C4 ..."
	@$(PY) conformance/run.py $(LEGS)
	@$(PY) tests/record/make.py conformance

soak: $(VENV)/.dev ## use the client for long, put the server under load; SOAK="--calls N", LOAD=--full
	@$(PY) tests/soak/soak.py $(SOAK)
	@$(PY) tests/soak/load.py $(LOAD)

fuzz: $(VENV)/.dev ## attack the server with 700,000 frames (some minutes); FUZZ="--frames N --seed N"
	@$(PY) tests/adversity/server/fuzz.py $(FUZZ)

rows: $(VENV)/.dev peers ## break each row of the five systems: its test fails; ROWS="A01 12 --anew"
	@$(PY) tests/rows.py --workers $(WORKERS) $(ROWS)

bench: bench-peers ## run all benchmarks, beside all peers; PUBLISH=1, BENCH="--only stdio"
	@$(PY) benchmarks/run.py $(if $(PUBLISH),--publish) $(BENCH)

plots: $(VENV)/.dev ## draw benchmarks/plots/*.svg from the published figures
	@$(PY) benchmarks/plot.py

scoreboard: $(VENV)/.dev ## check and measure the servers of conformance/subjects; SITE=dir, BOARD="--only NAME"
	@PYTHONPATH=$(SUITE) $(PY) -m scoreboard --site $(SITE) $(BOARD)

# --- use ----------------------------------------------------------------------------

demo: $(VENV)/.installed ## install and show the main job against the embedded server
	@$(PY) -m mcpwire demo

clean: ## remove everything that was made
	@rm -rf $(VENV) $(PEERS) $(BUILD) dist .mypy_cache .ruff_cache .pytest_cache \
		.hypothesis .coverage .coverage.*
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
