# Everything lives in .venv and .cache of this folder; `make clean` removes both.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .cache/bench
export ORT_DISABLE_TELEMETRY := 1
export RAGSTREAM_CACHE ?= $(CURDIR)/.cache/ragstream

.PHONY: help setup demo test test-unit test-integration check lint types imports contract chaos lock bench soak bench-lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: $(VENV)/.ready ## Make .venv with the pinned dependencies

$(VENV)/.ready: requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@mkdir -p "$(RAGSTREAM_CACHE)"
	@touch $@

demo: setup ## Question in, cited answer out, through real Kafka
	$(BIN)/python -m ragstream demo

test: setup ## Every test; starts the services it needs
	$(BIN)/python -m tests.vectors tests/vectors/vectors.json
	$(BIN)/python -m pytest

test-unit: setup ## Tests that need no service
	$(BIN)/python -m pytest -m "not integration"

test-integration: setup ## Tests on real Kafka, Valkey, PostgreSQL and the vector store
	$(BIN)/python -m pytest -m integration

chaos: setup ## Kill, stop and starve real processes under load, and look what is lost (25 minutes)
	$(BIN)/python -m tests.chaos

check: lint types imports contract ## Linters and the contract check

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

contract: setup
	$(BIN)/ragstream contract --check

lock: ## Resolve requirements.lock anew
	uv pip compile pyproject.toml --extra embedded --group dev --group build --python-version 3.11 \
	  --universal --generate-hashes --no-emit-index-url --no-emit-find-links --quiet \
	  --custom-compile-command "make lock" -o requirements.lock

bench: $(BENCH)/.ready ## ragstream beside aiokafka, Quix, FastStream and plain Faust (11 minutes)
	$(BENCH)/bin/python -m benchmarks

soak: $(BENCH)/.ready ## Ten minutes at a steady rate: memory, tasks, open files
	$(BENCH)/bin/python -m benchmarks soak

# The peers are not dependencies of the project: a venv and a lock of their own.
$(BENCH)/.ready: benchmarks/requirements.lock pyproject.toml
	@test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r benchmarks/requirements.lock
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

bench-lock: ## Resolve benchmarks/requirements.lock, as near to requirements.lock as the peers allow
	cp requirements.lock benchmarks/requirements.lock
	uv pip compile pyproject.toml benchmarks/requirements.in --extra embedded --group build \
	  --python-version 3.11 --universal --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --quiet --custom-compile-command "make bench-lock" -o benchmarks/requirements.lock

clean: ## Remove the venv, caches and the embedded stack's data
	rm -rf $(VENV) .cache .ragstream .pytest_cache .mypy_cache .ruff_cache .hypothesis
