# The one door. Every target makes its own .venv, from the pins in constraints.txt, when it is missing or out of date.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-ray lint bench docs clean

demo: .venv/ready ## find out where a trained policy is weak in the small PAC-Man level, mend it, and write the report
	$(BIN)/legible run legible/PacmanSmall-v0 zoo:PacmanSmall/ppo/4 --out studies/demo

test: .venv/ready ## all tests
	$(BIN)/python -m pytest --numprocesses 2

test-ray: .venv/ready-ray ## the tests that need Ray
	$(BIN)/python -m pytest tests/test_engines_ray.py tests/test_study.py -k ray

lint: .venv/ready ## style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: .venv/ready-peers ## speed beside the peers, in one run
	$(BIN)/python -m benchmarks

docs: .venv/ready-docs ## the documents as a web site in site/
	$(BIN)/mkdocs build --strict

clean:
	rm -rf .venv site

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/ready: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	touch $@

.venv/ready-%: .venv/ready
	$(PIP) --editable '.[$*]'
	touch $@
