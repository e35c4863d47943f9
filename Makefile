# The study on one machine. Needs Python 3.11 or newer and a network for the first installation.
#   make study [PROFILE=laptop] [CHAPTERS=core]   everything computed, every notebook executed
#   make test                                     style, unit tests, notebooks at smoke size
#   make figures                                  every figure of record redrawn from committed results
#   make lab                                      JupyterLab on the start notebook, with the results of record
#   make clean                                    delete the cache and all runs (asks first)

PROFILE ?= laptop
CHAPTERS ?= core
TORCH ?= torch==2.13.0
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PY := .venv/bin/python
NOTEBOOKS = $(wildcard notebooks/[0-9]*.ipynb)

.PHONY: study test figures lab clean

study: .venv/installed
	$(PY) -m redlib run --profile $(PROFILE) --chapters $(CHAPTERS)

test: .venv/installed
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive REDLIB_PROFILE=smoke $(PY) -m pytest -n auto --maxprocesses 4 --dist loadfile --nbval-lax --nbval-current-env tests $(NOTEBOOKS)

figures: .venv/installed
	$(PY) -m redlib run --profile record --chapters all

lab: .venv/installed
	REDLIB_PROFILE=record $(PY) -m jupyter lab notebooks/00_start_here.ipynb

clean: .venv/installed
	$(PY) -m redlib clean --all

# torch first and by its version: any newer one would be a second download of its size
.venv/installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "no python3.11 or python3 found; install Python 3.11, or name one: make PYTHON=/path/to/python"; exit 2; }
	@$(PYTHON) -c 'import sys; (3, 11) <= sys.version_info < (3, 14) or sys.exit("Python 3.11, 3.12 or 3.13 is needed and $(PYTHON) is " + sys.version.split()[0] + "; name another: make PYTHON=/path/to/python3.11")'
	@echo "setting up .venv (about two minutes)"
	$(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check $(TORCH)
	$(PY) -m pip install --quiet --disable-pip-version-check -e ".[test]"
	@touch $@
