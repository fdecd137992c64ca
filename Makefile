# The one door. Every target makes .venv and installs what it needs there, from the pins in constraints.txt, when that is
# missing or out of date.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-rest test-all test-ray snapshots lint bench fuzz chaos mutate docs clean
.NOTPARALLEL:

demo: .venv/ready-pacman ## study a policy of the small PAC-Man level: find its weaknesses, fix them with rules, write the report
	$(BIN)/legible run legible/PacmanSmall-v0 zoo:PacmanSmall/ppo/4 --out studies/demo --set search.budget=400000 --set evaluation.race_seeds=400 --set evaluation.confirmation_seeds=2000 --set improvement.episodes=800 --set improvement.beginnings=1

LONG := slow or statistical or subprocess
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

test: .venv/ready-dev .venv/ready-chromium ## the tests, without the long ones
	$(PYTEST) -m 'not ($(LONG))'

test-rest: .venv/ready-dev .venv/ready-chromium ## the long ones: whole studies, statistics over many runs, processes that are killed
	$(PYTEST) -m '$(LONG)'

test-all: test test-rest ## all tests

snapshots: .venv/ready-dev ## accept the texts as they are now; read the difference before you commit it
	$(PYTEST) --snapshot-update

test-ray: .venv/ready-dev .venv/ready-ray ## the tests that need Ray
	$(BIN)/python -m pytest tests/engines tests/study tests/lab/harness -k ray

lint: .venv/ready-dev ## style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: .venv/ready-dev .venv/ready-peers ## speed beside the peers, in one run
	$(BIN)/python -m lab bench

fuzz: .venv/ready-dev ## damaged files of every kind, 20,000 of them: each is refused in words or does no harm
	$(BIN)/python -m lab fuzz

chaos: .venv/ready-dev ## a study killed at 50 moments of all its stages: in the end it is the same to the bit
	$(BIN)/python -m lab chaos

mutate: .venv/ready-dev ## small errors in the modules of the paper's steps: at least nine in ten are noticed by the tests
	$(BIN)/python -m lab mutate

docs: .venv/ready-docs ## the documents as a web site in site/
	$(BIN)/mkdocs build --strict

clean:
	rm -rf .venv site

.venv/bin/python:
	$(PYTHON) -m venv .venv

# The report is tested in a real browser. Where none can be installed, those tests are skipped.
.venv/ready-chromium: .venv/bin/python
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	  { apt-get update && apt-get install --yes --no-install-recommends chromium; } >/dev/null 2>&1 || \
	  echo "Chromium could not be installed, so the browser tests will be skipped. To run them: apt-get install chromium"
	@touch $@

# What an extra of pyproject.toml installs.
.venv/ready-%: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[$*]'
	touch $@
