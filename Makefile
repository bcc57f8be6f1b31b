# `make run` and `make test` are all a newcomer needs: python3 (3.11 or newer) and make; the rest is set up here.
# Another Python: `PYTHON=python3.12 make run`; it is kept until another is named.

PYTHON ?= $(shell kept=$$(sed -n 's/^executable = //p' .venv/pyvenv.cfg 2>/dev/null); command -v "$$kept" || echo python3)
READY := .venv/.ready
BETIMES := .venv/bin/betimes
PYTEST := .venv/bin/python -m pytest -n $(or $(WORKERS),auto) --maxprocesses 8 --dist worksteal

define NEW_ENOUGH
@command -v "$(PYTHON)" >/dev/null || { \
  echo "Betimes needs Python 3.11 or newer, and there is no \`$(PYTHON)\` here." >&2; \
  echo "Install one, or name one: PYTHON=/path/to/python3 make ..." >&2; exit 1; }
@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "Betimes needs Python 3.11 or newer; \`$(PYTHON)\` is $$("$(PYTHON)" --version 2>&1)." >&2; \
  echo "Install a newer one, or name one: PYTHON=python3.12 make ..." >&2; exit 1; }
endef

# `make run` takes TRACE=FILE [UNITS=64] [POLICY=srsf] [SPEED=3600] to replay a trace, and DEMO=once to end after the
# summary. `make compare` takes TRACE=FILE [UNITS=64] [POLICIES=a,b]; without TRACE the workload is a generated one.
export TRACE
REPLAY = --trace "$$TRACE" $(if $(UNITS),--units $(UNITS)) $(if $(SPEED),--speed $(SPEED))
ifdef TRACE
POLICIES ?= fifo,srsf,max-min,wfq
else
POLICIES ?= fifo,srsf,las,themis,afs,max-min,wfq
endif

.DEFAULT_GOAL := help
.PHONY: help run compare test test-slow lint types imports check bench docs format lock setup clean again

help: ## show this list
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)$$/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-12s %s\n", $$1, $$2 }'

run: $(READY) ## start the service, see it run three jobs, and go on with it; or replay a trace: make run TRACE=FILE
	@$(BETIMES) demo $(if $(filter once,$(DEMO)),--once) $(if $(POLICY),--policy "$(POLICY)") $(if $(TRACE),$(REPLAY))

compare: $(READY) ## compare policies on a generated workload, or on yours: make compare TRACE=FILE [POLICIES=a,b]
	@$(BETIMES) warm
	@$(BETIMES) compare "$${TRACE:-demo}" --policies "$(POLICIES)" --predict \
	  $(if $(UNITS),--units $(UNITS),$(if $(TRACE),,--units 64))

test: $(READY) ## run the tests, but for the slow ones
	@$(BETIMES) warm
	@$(PYTEST) -m "not slow"

test-slow: $(READY) ## run the slow tests
	@$(BETIMES) warm
	@$(PYTEST) -m slow

lint: $(READY) ## check the style (make format repairs most of it)
	@.venv/bin/python -m ruff check .
	@.venv/bin/python -m ruff format --check .

types: $(READY) ## check the types
	@.venv/bin/python -m pyright --pythonpath .venv/bin/python

imports: $(READY) ## check that dependencies point one way
	@.venv/bin/lint-imports

check: lint types imports test ## everything that a change must pass, but for the slow tests

bench: $(READY) ## measure the claims about speed
	@$(BETIMES) warm
	@for file in benchmarks/bench_*.py; do echo "==> $$file"; .venv/bin/python "$$file" || exit 1; done

docs: $(READY) ## regenerate the reference pages from the code
	@.venv/bin/python -m tools.reference

format: $(READY) ## put the style in order
	@.venv/bin/python -m ruff check --fix-only --quiet .
	@.venv/bin/python -m ruff format .

lock: ## bring requirements.lock to the newest versions that pyproject.toml allows
	$(NEW_ENOUGH)
	@"$(PYTHON)" tools/lock.py

setup: $(READY) ## make .venv, and nothing else

clean: ## remove .venv and what the tools left behind
	rm -rf .venv .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist build
	find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +

# A Python named by the caller may differ from the one in .venv: then look again, which costs nothing if it is not.
ifneq ($(origin PYTHON),file)
$(READY): again
endif

$(READY): requirements.lock pyproject.toml tools/set_up.py
	$(NEW_ENOUGH)
	@"$(PYTHON)" tools/set_up.py
