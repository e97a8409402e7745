# Everything a learner, a member of staff or a developer types. Each target sets up what it needs.
SHELL := bash
export PYTHON
unexport VIRTUAL_ENV # what works here is .venv, whichever is active where this is typed
BIN := .venv/bin
PACKAGES := minitorch ddp_lab autograder

.PHONY: help start test test-wide test-pythons check check-files fix bench bench-net demos slides docs solve test-gpu bench-gpu setup clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup:
	@scripts/setup.sh

start: ## JupyterLab on the labs and the course server, until Ctrl-C
	@scripts/setup.sh learner
	@exec $(BIN)/autograder start

test: setup ## every test, five processes side by side
	@$(BIN)/python -m compileall -q -j 0 $(PACKAGES) # once, not in each process of a test
	@$(BIN)/python -m pytest --numprocesses 5

test-wide: setup ## every test, and in full what a sample stands for otherwise
	@WIDE=1 MINITORCH_WIDE=1 $(BIN)/python -m pytest --numprocesses 3
	@MINITORCH_OPTIMIZE=0 $(BIN)/python -m pytest --numprocesses 2 tests/minitorch/graph
	@scripts/test_pythons.sh

test-pythons: ## a sample of the tests on Python 3.12 to 3.14, where they are installed, and with the oldest packages
	@scripts/test_pythons.sh

check: setup ## style, types, allowed imports, stale notebooks, the container files
	@$(BIN)/python -m pytest -q tests/test_architecture.py
	@$(MAKE) --no-print-directory check-files

check-files: ## of these what is no test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/autograder release --check labs
	@$(BIN)/hadolint deploy/Dockerfile
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec deploy/compose.yaml

fix: setup ## apply the style and make the notebooks anew
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/autograder release --in-place labs

bench: setup ## the tables of ratios
	@for script in bench/*.py; do echo; echo "== $$script"; $(BIN)/python $$script || exit 1; done

bench-net: setup ## two hosts and the link between them, beside gloo; as root, or with user namespaces
	@$(BIN)/python bench/net/table.py --write docs/results/two_hosts.md

demos: setup ## the index of lecture demos, in a browser
	@JUPYTER_PATH=labs/demos/share/jupyter exec $(BIN)/voila --template=offline --Voila.ip=127.0.0.1 labs/demos

slides: setup ## offline slides of labs and demos, in build/slides (needs npm); LAB=02 is one deck, TALK=file.md a talk
	@$(BIN)/python scripts/slides.py $(if $(LAB),$(or $(wildcard labs/$(LAB)*/),$(error slides: there is no lab $(LAB)))) $(if $(TALK),--talk $(TALK)) -o build/slides

docs: setup ## the site, with every lab run, in build/site
	@$(BIN)/python scripts/site.py -o build/site

solve: setup ## solve all labs from their starters, in order, and grade them
	@$(BIN)/python scripts/solve_labs.py

test-gpu: ## the tests that need a CUDA device; no set-up, no network
	@$(or $(PYTHON),python3) scripts/gpu.py test

bench-gpu: ## the tables of a CUDA device; no set-up, no network
	@$(or $(PYTHON),python3) scripts/gpu.py bench

clean: ## remove what setup and the builds made; labs in progress (work/) stay
	@rm -rf .venv build dist *.egg-info docs/_build .mypy_cache .ruff_cache .hypothesis
