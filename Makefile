# The words to remember. Everything needs `make setup`, which each word calls by itself.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Caches land below HOME; where that is missing or read-only they land in build/home.
ifneq ($(shell test -n "$$HOME" && test -w "$$HOME" && echo writable),writable)
export HOME := $(CURDIR)/build/home
$(shell mkdir -p build/home)
endif
# Compiled modules halve the start of Airflow and Great Expectations (3.9 to 1.5 s, 7.8 to 3.9 s).
export PYTHONDONTWRITEBYTECODE :=

BIN := .venv/bin
READY := .venv/.ready
COMPILE = build/setup/uv-*/bin/uv pip compile pyproject.toml --quiet --universal --fork-strategy fewest --python-version 3.11 \
	--generate-hashes --no-annotate --no-header --no-emit-index-url --extra airflow
# Further arguments for pytest: make test ARGS="-k codec"
ARGS ?=
# Side by side: on two cores two processes leave a third of the time idle. PROCESSES=0 runs all in one (for a debugger).
# Integration tests start brokers, browsers and clusters: on a crowded machine three at once lost leaders and scrapes.
PROCESSES ?= 3
INTEGRATION_PROCESSES ?= 2

.PHONY: help setup run test test-unit test-integration mutants faults chain scale equal scheduled fuzz worlds years ranges sbom check bench serve capture fidelity promises clients layout wheel lock draw pairs

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(READY) ## .venv with partition-health in it
	@echo "ready: .venv/bin/partition-health"

$(READY): pyproject.toml requirements-dev.lock requirements-setup.lock .ci/setup
	@.ci/setup
	@touch $@

run: $(READY) ## the whole pipeline on the committed capture, by Airflow (ARGS="--engine sail": without Java)
	@$(BIN)/python -m tests.lab.demo $(ARGS)

LAB_TESTS = $(filter-out tests/lab/real/%,$(wildcard tests/lab/test_*.py tests/lab/*/test_*.py tests/lab/*/*/test_*.py))
test-unit: $(READY) ## tests without Spark, Airflow and Kafka, for the inner loop
	@$(BIN)/python -m pytest -n $(PROCESSES) pipeline tests/unit tests/properties $(LAB_TESTS) tests/golden $(ARGS)

test: $(READY) ## all tests that need Python and Java only (13 to 40 minutes on two cores)
	@$(BIN)/python -m pytest -n $(PROCESSES) pipeline tests --ignore=tests/integration $(ARGS)

test-integration: $(READY) ## tests that need other toolchains (Go, Node, Prometheus, Chromium, Spark cluster)
	@$(BIN)/python -m pytest -n $(INTEGRATION_PROCESSES) tests/integration $(ARGS)

mutants: $(READY) ## how many of 50 planted mistakes the tests catch (hours; goes on where it was stopped)
	@$(BIN)/python -m tests.lab.mutants $(ARGS)

faults: $(READY) ## kills, full disks, power cuts and rivals in hundreds of runs; writes docs/evidence/reliability.md (an hour)
	@$(BIN)/python -m tests.lab.faults $(ARGS)

chain: $(READY) ## three collectors, buckets, a Spark cluster, and what dies in it; writes docs/evidence/scale.md (half an hour)
	@$(BIN)/python -m tests.lab.faults.chain $(ARGS)

scale: $(READY) ## the jobs on a Spark cluster of one and two executors, traffic 1x to 16x; writes docs/evidence/scale.md (15 minutes, quiet)
	@$(BIN)/python -m tests.lab.scale $(ARGS)

equal: $(READY) ## the capture from disks, collected and by live brokers, on four engines: which columns differ; writes docs/evidence/equal.md (20 minutes)
	@$(BIN)/python -m tests.lab.scale.equal $(ARGS)

scheduled: $(READY) ## ten one-minute windows by Airflow, its scheduler killed, its API server slow; writes docs/evidence/reliability.md (15 minutes)
	@$(BIN)/python -m tests.lab.faults.scheduled $(ARGS)

fuzz: $(READY) ## mutated input for every parser and kernel; writes docs/evidence/reliability.md (ARGS="--seconds N")
	@$(BIN)/python -m tests.lab.fuzz $(ARGS)

worlds: $(READY) ## whole runs with a hostile host and a hostile metrics server, drawn (ARGS="--count N --seed N --engine spark")
	@$(BIN)/python -m tests.lab.worlds $(ARGS)

years: $(READY) ## cost of a run after 10 and after 1,000 hourly windows; writes docs/evidence/reliability.md (half an hour)
	@$(BIN)/python -m tests.lab.years $(ARGS)

ranges: $(READY) ## unit tests with the lowest and the newest versions that pyproject.toml allows (ENDS=lowest: only those)
	@ENDS="$(ENDS)" .ci/ranges $(ARGS)

sbom: $(READY) ## what is installed with the product, and under which licences, as CycloneDX
	@$(BIN)/python .ci/sbom.py $(ARGS)

PROJECT = $(addprefix tests/unit/project/test_,columns.py docs.py import_circles.py locks.py size.py)
check: $(READY) ## format, lint, types, import contracts, unused code, columns, sizes, papers, shell scripts
	@failed=; \
	for tool in "ruff format --check --quiet" "ruff check --quiet" "mypy --no-error-summary" "lint-imports --no-logo" \
		"python .ci/unused.py" "python .ci/lines.py" "shellcheck .ci/setup .ci/run .ci/ranges" "pytest -q -n 0 $(PROJECT)"; do \
		printf '== %s\n' "$$tool"; \
		$(BIN)/$$tool || failed="$$failed $${tool%% *}"; \
	done; \
	test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

bench: $(READY) ## speed ratios against Kafka's own tools, false alarms (ARGS=false_alarm: only that)
	@$(BIN)/python -m tests.lab.bench $(ARGS)

serve: $(READY) ## Airflow with the DAGs scheduled on partition-health.yaml (ARGS="--host H --port N")
	@$(BIN)/python -m dags.serve $(ARGS)

capture: $(READY) ## record the committed capture anew (12 minutes of real Kafka)
	@$(BIN)/python -m tests.lab.capture

fidelity: $(READY) ## simulated and replayed against real producers (20 minutes of real Kafka; ARGS=--recorded: minutes)
	@$(BIN)/python -m tests.lab.fidelity $(ARGS)

draw: $(READY) ## pairs that no code has met, recorded and judged on first sight (ARGS="--minutes 25")
	@$(BIN)/python -m tests.lab.fidelity.pairs.draw $(ARGS)

pairs: $(READY) ## all committed pairs judged by the code as it is; fails where a figure that held no longer does
	@$(BIN)/python -m tests.lab.fidelity.pairs.lane $(ARGS)

promises: $(READY) ## advice carried out on real clusters, promised beside what came (ten minutes; ARGS=walk: three ways from a clone to a resolved incident, an hour, quiet)
	@$(BIN)/python -m tests.lab.promises $(ARGS)

clients: $(READY) ## keyless producers of thirteen clients, real and simulated (ten minutes of real Kafka; ARGS=--recorded: none)
	@$(BIN)/python -m tests.lab.keyless $(ARGS)

layout: $(READY) ## tables in other orders and with other features of Delta: what reading and writing them costs (minutes)
	@$(BIN)/python -m tests.lab.layout $(ARGS)

wheel: $(READY) ## a wheel in dist/ with everything under the package partition_health
	@$(BIN)/python .ci/package.py

lock: $(READY) ## resolve requirements anew
	@$(COMPILE) --extra dev --output-file requirements-dev.lock
	@$(COMPILE) --constraints requirements-dev.lock --output-file requirements.lock
