# Two commands are enough: `make run` shows the exporter against a simulated vLLM, `make test` passes the tests.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help run test lint format e2e e2e-vllm bench docs dashboards dashboards-pictures clean

help: ## say what each target does
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-20s %s\n", $$1, $$2}'

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dns]' --group test --group grafana --group lint
	@touch $@

run: $(READY) ## run the exporter against an embedded simulated vLLM
	$(BIN)/spec-decode-exporter run --simulate drop

test: $(READY) ## run the tests
	$(BIN)/pytest -n auto --cov --cov-report=term

lint: $(READY) ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## format the code and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

e2e: $(READY) ## the installed program, the simulator and a real Prometheus together
	$(BIN)/pytest tests/e2e -m e2e --ignore=tests/e2e/vllm

e2e-vllm: $(READY) ## against a real vLLM on the CPU: installs about 2 GB, takes some minutes
	tests/e2e/vllm/run

bench: $(READY) ## run every benchmark that the README quotes
	$(BIN)/pip install --quiet --disable-pip-version-check --group bench
	$(BIN)/python -m benchmarks

docs: $(READY) ## generate what is generated: docs, the schema, rules and alerts
	$(BIN)/python -m exporter.export.document docs/metrics.md
	$(BIN)/python -m exporter.config.document docs/configuration.md docs/configuration.schema.json
	$(BIN)/python -m config.prometheus.generate

dashboards: $(READY) ## generate grafana/dashboards
	$(BIN)/python -m grafana

dashboards-pictures: $(READY) ## draw the dashboards from a real Prometheus: needs Node, Chromium and half an hour
	$(BIN)/python -m grafana.render

clean: ## remove what was built here
	rm -rf $(VENV) .e2e .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
