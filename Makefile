# Trimtab's commands. Needs Python 3.11+, make, bash and a C compiler; everything else is
# installed into .venv by the first command that needs it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
PIP := $(PY) -m pip --disable-pip-version-check
# Of 17,000 modules few are ever imported; those are compiled when they are.
PINNED := -c constraints.txt --no-compile
ARGS ?=

CODE := signals policies engine reward_model controller migrations
EXTRAS := test,bench,dev
# The longest first: two run at once.
CHECKS := check-types check-code check-floors

# Idle OpenMP threads that spin starve the other stages on two cores.
export OMP_WAIT_POLICY := PASSIVE
export PYTHONUNBUFFERED := 1
unexport PYTHONPATH
unexport PYTHONHOME

.PHONY: help setup models run test check $(CHECKS) format docs bench-engine bench-ingest \
	bench-loop bench-stop bench-audit bench-simulator bench-simulator-truth bench-deciding bench-tuning \
	bench-drift bench-judge bench-control bench-control-live campaign counter-checks \
	constraints clean distclean

help: ## Show the commands
	@awk 'BEGIN {FS = ":.*## "; print "make …"} \
		/^[a-z-]+:.*## / {printf "  %-22s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# ------------------------------------------------------------------------------------- set-up
setup: $(READY) ## Create .venv and install the pinned packages (again when they change)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "make: Trimtab needs Python 3.11 or newer; '$(PYTHON)' is" \
			"$$($(PYTHON) --version 2>&1 || echo missing)." \
			"Name another one: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@command -v "$${CC:-cc}" >/dev/null || { \
		echo "make: no C compiler ('$${CC:-cc}'); the engine's kernels are compiled at its start" >&2; \
		exit 1; }
	@test -x $(PY) || { echo "── creating $(VENV) with $$($(PYTHON) --version)"; \
		$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
			echo "make: '$(PYTHON) -m venv' failed; on Debian and Ubuntu install python3-venv" >&2; \
			exit 1; }; }
	@echo "── installing the pinned packages (PyTorch is the large one)"
	@$(PIP) install $(PINNED) setuptools wheel
	@$(PIP) install $(PINNED) torch
	@$(PIP) install $(PINNED) --no-build-isolation --editable '.[$(EXTRAS)]'
	@touch $@
	@echo "── ready"

models: $(READY) ## Fetch the model's weights (checksummed and cached; once)
	@$(VENV)/bin/trimtab models fetch

constraints: $(READY) ## Pin what .venv has now into constraints.txt
	@{ sed -n '/^#/p' constraints.txt; \
		$(PY) -m pip freeze --disable-pip-version-check --all --exclude-editable \
			| grep -v -e '^pip==' -e '^trimtab' -e ' @ ' | sed 's/+cpu$$//' | LC_ALL=C sort -f; \
	} > constraints.new
	@mv constraints.new constraints.txt
	@touch $(READY)

# ---------------------------------------------------------------------------------------- run
run: models ## The whole journey on sample traffic (ARGS="--exit" leaves when the story is told)
	@$(PY) -m examples.journey $(ARGS)

counter-checks: models ## The journey where nothing should happen, and where it should differ
	@for args in "--plant none" "--no-traffic" "--tpot-ms 25" "--tpot-ms 100" "--seed 2"; do \
		began=$$SECONDS; \
		echo "── counter-check: $$args"; \
		$(PY) -m examples.journey --exit --short $$args; \
		echo "── counter-check: $$args: passed in $$((SECONDS - began)) s"; \
	done

# --------------------------------------------------------------------------------------- test
test: $(READY) ## Everything: make check, then all tests with real processes
	@$(MAKE) --no-print-directory -j 2 $(CHECKS) models
	@$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(READY) ## Formatting, lint, types and the floors
	@$(MAKE) --no-print-directory -j 2 $(CHECKS)

check-types: $(READY) ## Part of check: mypy
	@$(PY) -m mypy

check-code: $(READY) ## Part of check: ruff
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .

check-floors: $(READY) ## Part of check: import-linter
	@$(VENV)/bin/lint-imports

format: $(READY) ## Rewrite the code in the house's format
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

docs: $(READY) ## Write the generated pages of docs/ again
	@$(PY) -m docs.build

# -------------------------------------------------------------------------------------- bench
bench-engine: models ## Tokens per second, beside Hugging Face generate in the same run
	@$(PY) -m benchmarks.engine $(ARGS)

bench-loop: models ## Signal to feature, and guard to applied, in milliseconds
	@$(PY) -m benchmarks.loop $(ARGS)

bench-stop: models ## Hold and kill to read-back, in milliseconds, with parts of it broken
	@$(PY) -m benchmarks.stopping $(ARGS)

bench-judge: $(READY) ## How often the judge is wrong, and how soon it is right (TRIMTAB_DATA: Azure)
	@$(PY) -m benchmarks.judging $(ARGS)

bench-audit: $(READY) ## Policy transitions, verification, questions about a long past
	@$(PY) -m benchmarks.audit $(ARGS)

bench-simulator: $(READY) ## Simulated over real time, on several loads
	@$(PY) -m benchmarks.simulator $(ARGS)

bench-simulator-truth: models ## Predicted against real vLLM latencies (TRIMTAB_DATA=folder)
	@$(PY) -m benchmarks.simulator_truth $(ARGS)

bench-ingest: $(READY) ## Events per second of ingest and features, beside the bare log and client
	@$(PY) -m benchmarks.ingest $(ARGS)

bench-deciding: $(READY) ## How long a learner's decision takes, and whether it replays
	@$(PY) -m benchmarks.deciding $(ARGS)

bench-tuning: $(READY) ## Tuning regret on measured engines (TRIMTAB_DATA=FOLDER has them)
	@$(PY) -m benchmarks.tuning_regret $(ARGS)

bench-control: $(READY) ## What the loop is worth on ten simulated loads, beside its rivals (TRIMTAB_DATA)
	@$(PY) -m benchmarks.control $(ARGS)

bench-control-live: models ## Static caps, the emergency rule and a law on the real engine
	@$(PY) -m benchmarks.control_live $(ARGS)

bench-drift: $(READY) ## Drift detectors on residuals and on raw latency: false alarms, delay
	@$(PY) -m benchmarks.drift $(ARGS)

campaign: $(READY) ## Hundreds of kill -9, then thousands of trials (ARGS="--only kills|races|judge")
	@$(PY) -m benchmarks.campaigns $(ARGS)

# -------------------------------------------------------------------------------------- clean
clean: ## Remove what running and testing left behind
	@rm -rf build dist *.egg-info .trimtab .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache
	@find $(CODE) benchmarks docs examples tests -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## clean, and the environment too
	@rm -rf $(VENV)
