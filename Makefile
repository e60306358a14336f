.DEFAULT_GOAL := help
PY := .venv/bin/python
STAMP := .venv/.ready

.PHONY: help setup demo check test test-gpu bench docs clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	@test -d .venv || python3 -m venv .venv
	@echo "installing into .venv (the first time takes a few minutes) ..."
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[all,examples,dev]'
	@touch $(STAMP)

setup: $(STAMP) ## make .venv with everything in it

demo: $(STAMP) ## start a yard, train on handwritten digits with a gang of 2, stop it again
	@$(PY) -m gpuyard demo

check: $(STAMP) ## style, types, architecture
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports

test: $(STAMP) ## the whole test suite
	@$(PY) -m pytest

test-gpu: $(STAMP) ## on a machine with a real GPU: check what the monitor sees, and print it
	@$(PY) -m pytest tests/gpu -m gpu -rs -s

bench: $(STAMP) ## measure, print JSON, write docs/benchmarks.md
	@$(PY) -m tests.bench

docs: $(STAMP) ## regenerate docs/reference
	@$(PY) docs/generate.py

clean: ## remove what the other targets made
	rm -rf .venv .demo .gpuyard
