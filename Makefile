# Everything runs in .venv, which each target builds by itself from requirements-dev.lock. `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/sh

# What the machine or the shell of the caller has set must not change what is installed or tested.
unexport PYTHONDONTWRITEBYTECODE VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONSAFEPATH PYTHONWARNINGS PYTHONOPTIMIZE PYTHONUSERBASE
unexport PIP_TARGET PIP_PREFIX PIP_ROOT PIP_PYTHON PIP_CONSTRAINT PIP_BUILD_CONSTRAINT PIP_REQUIREMENT PIP_EDITABLE
unexport PIP_NO_BINARY PIP_ONLY_BINARY PIP_PRE PIP_DRY_RUN PIP_NO_DEPS PIP_IGNORE_INSTALLED PIP_NO_CLEAN PIP_REPORT
unexport PYTEST_ADDOPTS PYTEST_PLUGINS PYTEST_DISABLE_PLUGIN_AUTOLOAD COVERAGE_FILE COVERAGE_RCFILE COVERAGE_PROCESS_START
unexport MYPYPATH MYPY_CACHE_DIR RUFF_CONFIG
unexport $(filter GATEWAY_% OPENAI_% ANTHROPIC_%,$(.VARIABLES))
export PIP_USER := 0
export PIP_REQUIRE_VIRTUALENV := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONNOUSERSITE := 1
# Clients in tests speak to loopback, never through a proxy.
export NO_PROXY := $(if $(NO_PROXY),$(NO_PROXY),$(no_proxy)),127.0.0.1,localhost
export no_proxy := $(NO_PROXY)

PYTHON ?=
PY := .venv/bin/python
BUILT := .venv/built
STAMP := .venv/installed

# A checkout that was moved, or whose Python is gone, builds its environment anew.
ifneq ($(shell test -x $(PY) && $(PY) -c 'print("runs")' 2>/dev/null && cat $(BUILT) 2>/dev/null),runs $(CURDIR))
$(shell rm -f $(BUILT))
endif

.PHONY: help demo test check coverage-mirror test-long test-idp test-valkey test-clients test-vllm test-pythons test-peers fuzz bench lock clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

$(BUILT): requirements-dev.lock tools/venv.sh
	@tools/venv.sh .venv $(PYTHON)
	@printf '%s\n' '$(CURDIR)' > $@

$(STAMP): $(BUILT) pyproject.toml
	@$(PY) -m pip install -qq --no-input --no-deps --no-index --no-build-isolation --editable .
	@touch $@

demo: $(STAMP)  ## an engine simulator, the gateway and a fresh key on loopback, with curl lines to paste
	@.venv/bin/vllm-gateway demo

# Tests that start whole processes and mostly wait for them: they take as long as all others, and run beside them.
STARTED := tests/e2e

test: $(STAMP)  ## every test that needs no other install, service or GPU; with branch coverage
	@rm -f .coverage .coverage.*
	@tools/side_by_side.sh "$(PY) -m coverage run -m pytest -m 'not long' $(STARTED)" \
	    "$(PY) -m coverage run -m pytest -m 'not long' $(STARTED:%=--ignore=%)"
	@$(PY) -m coverage combine --quiet
	@$(PY) -m coverage report

check: $(STAMP)  ## lint, format, types, the policies' own cases and mutants, the schema
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/vllm-gateway check policies/
	@.venv/bin/vllm-gateway schema | diff -u policies/schema/policy.v1.json - || { echo "The schema is stale: vllm-gateway schema > policies/schema/policy.v1.json" >&2; exit 1; }

coverage-mirror: $(STAMP)  ## each file of the pure floors, fully covered by its own mirror test alone
	$(PY) tools/coverage_mirror.py

test-long: $(STAMP)  ## the tests of `make test` with fifty times the examples, and those that take minutes (half an hour of soak)
	$(PY) -m pytest --hypothesis-profile=long

test-idp: $(STAMP) tests/idp/node_modules/.package-lock.json  ## an identity provider that we did not write, which this installs (node, 1 minute)
	$(PY) -m pytest tests/idp

tests/idp/node_modules/.package-lock.json: tests/idp/package-lock.json
	@command -v npm >/dev/null || { echo "make test-idp needs node and npm: apt install npm" >&2; exit 1; }
	@npm ci --silent --prefix tests/idp --ignore-scripts --no-audit --no-fund
	@touch $@

test-valkey: $(STAMP)  ## limits that gateways share, on a real server (apt: redis-server, or valkey-server)
	@command -v valkey-server >/dev/null || command -v redis-server >/dev/null || { \
		echo "make test-valkey needs a server of Valkey or Redis: apt-get install redis-server" >&2; exit 1; }
	$(PY) -m pytest tests/valkey

test-clients: .venv-clients/built  ## LangChain and LiteLLM as partners have them, which this installs (2 minutes, 500 MB)
	.venv-clients/bin/python -m pytest tests/clients

.venv-clients/built: requirements-clients.lock tools/venv.sh
	@tools/venv.sh .venv-clients "$(PYTHON)" requirements-clients.lock
	@touch $@

test-vllm: $(STAMP)  ## the gateway in front of a real vLLM on the CPU, which this installs (python3.11, 4 minutes)
	$(PY) -m pytest tests/vllm

# What differs between Pythons is asyncio, ssl, sockets and processes.
SOCKETS := $(patsubst %,tests/adapters/test_%.py,walk edge downstream outbox engine_client engine_pool engine_queue)
STREAMS := tests/test_app.py tests/test_process.py $(patsubst %,tests/e2e/test_%.py,apis queue tls)

test-pythons: $(STAMP)  ## the data path on every other Python of 3.11 to 3.14 that PATH or pyenv has (a minute each); NEWEST=1: one
	@tools/pythons.sh .venv-pythons $(PY) "$(NEWEST)" "$(SOCKETS)" "$(STREAMS)"

test-peers: $(STAMP) .venv-peers/built  ## nginx, Envoy and vllm-router under the raw cases of the corpus, LiteLLM as an engine; CI=true: none may be missing
	$(PY) -m tests.peers.compare
	$(PY) -m pytest tests/peers

TARGET ?= target headers strict-json form event-stream response credential compact-jws chat responses response-events messages message-events edge differential audit log
SECONDS ?= 60

fuzz: .venv-fuzz/built  ## each fuzz target for SECONDS=60, or those named: TARGET="edge chat"
	@for target in $(TARGET); do .venv-fuzz/bin/python -m tests.fuzz.hunt $$target $(SECONDS) || exit 1; done

.venv-fuzz/built: requirements-fuzz.lock tools/venv.sh
	@tools/venv.sh .venv-fuzz "$(or $(PYTHON),python3.13 python3.12 python3.11)" requirements-fuzz.lock
	@touch $@

.venv-peers/built: requirements-peers.lock tools/venv.sh
	@tools/venv.sh .venv-peers "$(PYTHON)" requirements-peers.lock
	@touch $@

bench: $(STAMP)  ## the cost of a request and of a chunk on the data path
	$(PY) bench/run.py

lock:  ## write the lock files anew from pyproject.toml; UPGRADE=--upgrade takes newer releases
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	uv pip compile $(LOCK) pyproject.toml --output-file requirements.lock
	uv pip compile $(LOCK) pyproject.toml --group dev --constraint requirements.lock --output-file requirements-dev.lock
	uv pip compile $(LOCK) --group build --constraint requirements-dev.lock --output-file requirements-build.lock
	uv pip compile $(LOCK) pyproject.toml --group clients --constraint requirements-dev.lock --output-file requirements-clients.lock
	uv pip compile $(LOCK) pyproject.toml --group fuzz --constraint requirements-dev.lock --output-file requirements-fuzz.lock
	uv pip compile $(LOCK) --group peers --output-file requirements-peers.lock

LOCK = --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(UPGRADE)

clean:  ## remove what the targets made
	rm -rf .venv .venv-vllm .venv-clients .venv-fuzz .venv-peers .venv-pythons .fuzz tests/idp/node_modules .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
