# The same targets here and on the build machine. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
CHROMIUM ?= /usr/bin/chromium
WORKERS ?= 3
ARGS ?=
export CHROMIUM
# Tests start hundreds of processes. Without bytecode each of them, and each test worker, compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# Stamps lie inside what they vouch for, so deleting a folder undoes its stamp too. The demo needs a fraction of what the
# tests need, so it has a stamp of its own; whoever installs everything sets both.
DEMO_READY := .venv/.ready-demo
PYTHON_READY := .venv/.ready
# Benchmarks have an environment of their own, with the quickest Python of this machine: see tools/quickest_python.py.
BENCH_BIN := .venv-bench/bin
BENCH_READY := .venv-bench/.ready
NODE_FOLDERS := $(patsubst %/package.json,%,$(wildcard tests/oracle/package.json tests/browser/package.json))
NODE_READY := $(addsuffix /node_modules/.ready,$(NODE_FOLDERS))

.PHONY: attack call-paths chaos chaos-nodes simulate walks help setup setup-demo setup-python setup-node setup-browser dev lint types test check bench bench-core bench-growth bench-lists bench-nodes bench-recovery bench-peer obligations postgres traps wheel docs recording screenshots clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: setup-python setup-node setup-browser ## make everything the other targets need (instant when it is there)

setup-demo: $(DEMO_READY)

setup-python: $(PYTHON_READY)

setup-node: $(NODE_READY)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "unable to set up; $(PYTHON) is missing or older than 3.11. Name a newer one: make $(or $(MAKECMDGOALS),setup) PYTHON=python3.12" >&2; exit 1; }
	@echo "setup: creating .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv

$(DEMO_READY): pyproject.toml | $(BIN)/python
	@$(BIN)/python tools/install.py "everyword and its server" -- --editable '.[server]'
	@touch $@

# `--group` needs a pip that is newer than the one that Python 3.11 brings.
$(PYTHON_READY): pyproject.toml | $(BIN)/python
	@$(BIN)/python tools/install.py "a newer pip" -- --upgrade 'pip>=25.1'
	@$(BIN)/python tools/install.py "what tests, types and docs need" -- --editable . --group dev
	@touch $(DEMO_READY) $@

$(BENCH_READY): pyproject.toml tools/quickest_python.py
	@python=$$($(PYTHON) tools/quickest_python.py $(PYTHON)); \
	  echo "setup: python packages for benchmarks, with $$python"; \
	  rm -rf .venv-bench; $$python -m venv .venv-bench
	@$(BENCH_BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BENCH_BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

%/node_modules/.ready: %/package.json
	@command -v npm >/dev/null \
	  || { echo "unable to set up $*; npm is missing. Install Node.js 20 or newer." >&2; exit 1; }
	@echo "setup: npm packages of $*"
	@cd $* && npm install --no-package-lock --no-audit --no-fund --loglevel=error </dev/null
	@touch $@

setup-browser:
	@test -x $(CHROMIUM) || tools/install-chromium

dev: setup-demo ## install what the demo needs, start it, and print the address of its page (ARGS='--port 0')
	@exec $(BIN)/everyword dev $(ARGS)

lint: setup-python
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup-python
	@$(BIN)/mypy
	@$(BIN)/basedpyright

test: setup lint types ## every check: lint, types, architecture, unit, property, crash, browser
	@$(BIN)/pytest -n $(WORKERS) $(ARGS)

# What a change to the rules or the runtime breaks, breaks here first; stores, servers and the SDK oracle take longer.
INNER := $(addprefix tests/,architecture docs mutants core messages codec wire runtime agents log/test_memory.py test_events.py)

check: setup-python lint types ## the inner loop: lint, types and the fast tests, in under a minute
	@$(BIN)/pytest -n $(WORKERS) -m 'not crash and not browser and not slow' $(INNER) $(ARGS)

# The peer is only there to be compared with: without npm or a network the table says so and does without it.
bench: $(BENCH_READY) ## all loads over real sockets in one table (ROWS=flat,tiny SERVERS=everyword,stored SIZES=small)
	@$(MAKE) -s bench-peer || echo "bench: the peer is left out; npm could not install it" >&2
	@exec $(BENCH_BIN)/python -m benchmarks $(ARGS)

bench-core: $(BENCH_READY) ## the benchmarks that need no sockets (ARGS=log for those whose name has the word)
	@exec $(BENCH_BIN)/python -m benchmarks.core $(ARGS)

bench-growth: $(BENCH_READY) ## what things cost in a store of 100,000 conversations and 10 million chunks (SIZE=small)
	@exec $(BENCH_BIN)/python -m benchmarks.growth $(ARGS)

bench-lists: $(BENCH_READY) ## pages and searches of 100,000 conversations, on SQLite and PostgreSQL (SIZE=small)
	@exec $(BENCH_BIN)/python -m benchmarks.lists $(ARGS)

bench-nodes: $(BENCH_READY) ## PostgreSQL and several nodes: costs, takeovers, idle agents (PARTS=one,relay SIZES=small)
	@exec $(BENCH_BIN)/python -m benchmarks.nodes $(ARGS)

bench-recovery: $(BENCH_READY) bench-peer ## how an answer is stored after kill -9, here and at the peer (SERVERS=peer KILLS=1)
	@exec $(BENCH_BIN)/python -m benchmarks.recovery

bench-peer: benchmarks/peer/node_modules/.ready

benchmarks/peer/node_modules/.ready: benchmarks/peer/worker.js benchmarks/peer/email.js benchmarks/peer/build.sh

walks: setup ## many random walks of two tabs over a bad network (WALKS=50 make walks); `make test` takes a few
	@$(BIN)/pytest tests/browser/test_walks.py -n $(WORKERS) $(ARGS)

call-paths: setup-python ## count the calls of four walks through the code (ARGS='--tree chunk' prints one as a tree)
	@$(BIN)/python -m tools.call_paths $(ARGS)

chaos: setup-python ## kill a server under load at random for ten minutes (`make test` does it for one)
	@$(BIN)/python -m tools.chaos $(ARGS)

chaos-nodes: setup-python ## three nodes on PostgreSQL under load and faults (FAULTS=200 SEED=7)
	@exec $(BIN)/python -m tests.nodes.chaos --faults $(or $(FAULTS),100) $(if $(SEED),--seed $(SEED))

attack: setup-python ## attack real servers for five minutes: frames, requests, kills, stops, sockets (ARGS='--seconds 30')
	@$(BIN)/python -m tools.attack $(ARGS)

simulate: setup-python ## ten thousand seeds of the deterministic simulation, and as many with several nodes (`make test` plays 300 of each)
	@PYTHONHASHSEED=0 $(BIN)/python -m tools.simulate --seeds 10000 $(ARGS)
	@PYTHONHASHSEED=0 $(BIN)/python -m tools.simulate --nodes --seeds 10000 $(ARGS)

postgres: setup-python ## run a PostgreSQL until Ctrl-C and print its URL (ARGS='--durable --tcp')
	@exec $(BIN)/python -m tests.postgres $(ARGS)

obligations: setup ## how many of the obligations a passing test proves, and which are open
	@$(BIN)/python -m tools.obligations $(ARGS)

traps: setup-python ## how we know that we are in none of the protocol's traps, and which are open
	@$(BIN)/python -m tools.traps

wheel: | $(BIN)/python ## build dist/everyword-<version>-py3-none-any.whl, to install elsewhere
	@rm -f dist/everyword-*.whl
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/everyword-*.whl

docs: setup-python ## write the generated parts of the docs, then build the site into build/site
	@$(BIN)/python -m tools.diagram --write
	@$(BIN)/python -m tools.reference
	@$(BIN)/python -m tools.site

screenshots: setup-python setup-browser ## take the pictures of the playground anew: docs/images/*.png
	@$(BIN)/python -m tools.screenshots

recording: setup-python setup-browser ## film the demo that is killed and goes on: docs/images/kill-9.gif
	@$(BIN)/python -m tools.record

clean: ## remove everything that setup and the tests made
	rm -rf .venv .venv-bench .stamps .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
	rm -rf $(addsuffix /node_modules,$(NODE_FOLDERS)) benchmarks/peer/node_modules
	find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
