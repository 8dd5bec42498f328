# `make demo` and `make test` set everything up by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

LOWEST := .venv-lowest

.PHONY: demo test test-lowest lint clean

demo: $(VENV)/.ready
	$(BIN)/trigpoint demo

test: $(VENV)/.ready-dev lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The tests with the lowest versions that pyproject.toml allows of what the package needs; outside CI, for it
# takes as long as `make test` and a second set-up.
test-lowest: $(LOWEST)/.ready
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -n auto

$(LOWEST)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch uv
	$(LOWEST)/bin/uv pip compile --quiet --no-deps --resolution lowest-direct --no-annotate -c constraints.txt \
		--extra human36m --extra embedding --extra dlc --extra sleap --extra studio \
		-o $(LOWEST)/floors.txt pyproject.toml
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST) -c $(LOWEST)/floors.txt -e '.[dev]'
	touch $@

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST)
