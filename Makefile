# Penstock. On a fresh machine these need Python 3.11 or newer and make; each sets up .venv by itself.
#
#   make demo       a broker, real data of this machine, a lake table, a report (DEMO_SECONDS=60)
#   make test       the tests, ten minutes
#   make simulate   592 simulated clusters, 84 of them with consumer groups, 96 with transactions, 100 with users, 150 with
#                   quotas, 100 quorums of Guardian, and 100 with plans on two clusters (SEEDS=1..6
#                   GROUP_SEEDS=1..12 TRANSACTION_SEEDS=1..8 USER_SEEDS=1..50 QUOTA_SEEDS=1..50
#                   GUARDIAN_SEEDS=1..100 GOVERNED_SEEDS=1..100)
#   make test-slow  what make test leaves out: more of the interop, clusters whose nodes freeze and die
#   make test-secured  the interop tests of clients again, over SASL_SSL and as an ordinary user with ACLs
#   make test-other-pythons  the unit tests on every newer Python that this machine has (OTHER_PYTHONS=3.13)
#   make test-all   all of these, and the long runs: thousands of seeds, storms of kills
#   make lint       style, types, import contracts
#   make docs       the documentation as a site, in site/
#   make bench      figures beside Apache Kafka, in one run

PYTHON ?= python3
DEMO_SECONDS ?= 60
SEEDS ?= 1..6
GROUP_SEEDS ?= 1..12
TRANSACTION_SEEDS ?= 1..8
USER_SEEDS ?= 1..50
QUOTA_SEEDS ?= 1..50
GUARDIAN_SEEDS ?= 1..100
GOVERNED_SEEDS ?= 1..100
OTHER_PYTHONS ?=
# Where slow tests are: three processes that collect all others, too, take half a minute longer.
SLOW = $(shell grep -rl --include='*.py' 'mark\.slow' tests | sed 's,/conftest\.py$$,,' | sort)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Spark needs a Java of 17 or newer; without one the extra `java` brings it.
JAVA_MAJOR := $(shell java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
JAVA_EXTRA := $(shell [ "$(JAVA_MAJOR)0" -ge 170 ] || echo ,java)

# Tests and figures start hundreds of processes. Without bytecode each compiles anew all that it imports, which an
# installed package never does: half of the start of a node.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-slow test-secured test-other-pythons simulate test-all lint docs bench clean
.DELETE_ON_ERROR:

demo: .venv/ready-demo
	@DEMO_SECONDS=$(DEMO_SECONDS) exec $(BIN)/penstock demo

# Three processes on two cores: a third of the time a test waits, for an election, a rebalance, another process.
test: .venv/ready-test
	$(BIN)/python -m pytest -n 3 --dist loadgroup -m "not slow and not long"

test-slow: .venv/ready-test
	$(BIN)/python -m pytest -n 3 --dist loadgroup -m "slow and not long" $(SLOW)

# What each module is granted, and what cannot run so: tests/interop/secured/grants.py.
test-secured: .venv/ready-test
	PYTHONPATH=tests $(BIN)/python -m interop.secured -n 3 --dist loadgroup

test-other-pythons: .venv/ready-test
	$(BIN)/python tools/other_pythons.py $(OTHER_PYTHONS)

test-all: .venv/ready-test test-other-pythons test-secured
	$(BIN)/python -m pytest --hypothesis-profile search

simulate: .venv/ready-test
	$(BIN)/python -m simulator --scenario clusters --seeds $(SEEDS) --jobs 2 --twice 1
	$(BIN)/python -m simulator --scenario consumers --seeds $(GROUP_SEEDS) --jobs 2 --twice 1
	$(BIN)/python -m simulator --scenario transactional --seeds $(TRANSACTION_SEEDS) --jobs 2 --twice 1
	$(BIN)/python -m simulator --scenario users --seeds $(USER_SEEDS) --jobs 2 --twice 1
	$(BIN)/python -m simulator --scenario limited --seeds $(QUOTA_SEEDS) --jobs 2 --twice 1
	$(BIN)/python -m simulator --scenario guardian --seeds $(GUARDIAN_SEEDS) --jobs 2 --twice 1
	$(BIN)/python -m simulator --scenario governed --seeds $(GOVERNED_SEEDS) --jobs 2 --twice 1

lint: .venv/ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/ready-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: .venv/ready-test
	$(BIN)/python bench/codec.py
	$(BIN)/python bench/records.py
	$(BIN)/python bench/vs_kafka.py

clean:
	rm -rf .venv .venv-3.* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache dist build site

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name it: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/ready-demo: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[spark,uvloop$(JAVA_EXTRA)]'
	@touch $@

.venv/ready-test: .venv/bin/python pyproject.toml constraints.txt packaging/pytest-penstock/pyproject.toml
	$(PIP) --editable '.[all]' --editable packaging/pytest-penstock
	PYTHONPATH=tests $(BIN)/python tools/compile_kernels.py
	@touch $@ .venv/ready-demo
