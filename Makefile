# `make run` and `make test` are all a newcomer needs: python3 (3.11 or newer) and make; the rest is set up here.
# Another Python: `PYTHON=python3.12 make run`; it is kept until another is named.

# Another environment beside it: `make test VENV=.venv-3.12 PYTHON=python3.12`.

VENV := .venv
PYTHON ?= $(shell kept=$$(sed -n 's/^executable = //p' $(VENV)/pyvenv.cfg 2>/dev/null); command -v "$$kept" || echo python3)
READY := $(VENV)/.ready
DEVELOPMENT := $(VENV)/.ready-development
WITH_RAY := $(VENV)/.ready-ray
SITE := .venv-site
WITH_SITE := $(SITE)/.ready-site
BETIMES := $(VENV)/bin/betimes
PYTEST := $(VENV)/bin/python -m pytest -n $(or $(WORKERS),auto) --maxprocesses 8 --dist worksteal

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
# All on a pool: of a trace of rigid jobs, fifo alone would be that of nodes.
POLICIES ?= pool:fifo,srsf,max-min,wfq
else
POLICIES ?= fifo,srsf,las,themis,afs,max-min,wfq
endif

.DEFAULT_GOAL := help
.PHONY: help run compare test test-slow test-failed lint types imports check bench docs site format lock \
  client setup setup-development setup-ray clean again

help: ## show this list
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)$$/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

run: $(READY) ## start the service, see it run three jobs, and go on with it; or replay a trace: make run TRACE=FILE
	@$(BETIMES) demo $(if $(filter once,$(DEMO)),--once) $(if $(POLICY),--policy "$(POLICY)") $(if $(TRACE),$(REPLAY))

compare: $(READY) ## compare policies on a generated workload, or on yours: make compare TRACE=FILE [POLICIES=a,b]
	@$(BETIMES) warm
	@$(BETIMES) compare "$${TRACE:-demo}" --policies "$(POLICIES)" --predict \
	  $(if $(UNITS),--units $(UNITS),$(if $(TRACE),,--units 64))

# Where byte code is not kept, as the images of many containers have it, each of the programs that the tests start
# compiles all of its imports again: three times the work.
test test-slow test-failed: export PYTHONDONTWRITEBYTECODE :=

test: $(DEVELOPMENT) ## run the tests, but for the slow ones
	@$(BETIMES) warm
	@$(PYTEST) -m "not slow"

test-slow: $(DEVELOPMENT) ## run the slow tests
	@$(BETIMES) warm
	@$(PYTEST) -m slow

test-failed: $(DEVELOPMENT) ## run once more, one after the other, the tests that failed last
	@$(VENV)/bin/python -m pytest --last-failed --last-failed-no-failures none

lint: $(DEVELOPMENT) ## check the style (make format repairs most of it)
	@$(VENV)/bin/python -m ruff check .
	@$(VENV)/bin/python -m ruff format --check .

types: $(DEVELOPMENT) ## check the types
	@$(VENV)/bin/python -m pyright --pythonpath $(VENV)/bin/python

imports: $(DEVELOPMENT) ## check that dependencies point one way
	@$(VENV)/bin/lint-imports

check: lint types imports test ## everything that a change must pass, but for the slow tests

bench: $(DEVELOPMENT) ## measure the claims about speed
	@$(BETIMES) warm
	@for file in benchmarks/bench_*.py; do echo "==> $$file"; $(VENV)/bin/python "$$file" || exit 1; done

docs: $(DEVELOPMENT) ## regenerate the reference pages from the code
	@$(VENV)/bin/python -m tools.reference

site: $(WITH_SITE) ## build the site of the documents into build/site; a link that leads nowhere is an error
	@$(SITE)/bin/python -m tools.site

client: $(DEVELOPMENT) ## make the synchronous Python client from the asynchronous one
	@$(VENV)/bin/python -m tools.synchronous_client

format: $(DEVELOPMENT) ## put the style in order
	@$(VENV)/bin/python -m ruff check --fix-only --quiet .
	@$(VENV)/bin/python -m ruff format .
	@$(VENV)/bin/python -m tools.wrap_markdown $$(git ls-files '*.md')

lock: ## bring requirements.lock to the newest versions that pyproject.toml allows
	$(NEW_ENOUGH)
	@"$(PYTHON)" -m tools.lock

setup: $(READY) ## make .venv with what Betimes runs with, and nothing else

setup-development: $(DEVELOPMENT) ## make .venv, or add to it, with the packages of development

setup-ray: $(WITH_RAY) ## make .venv, or add to it, with these and Ray, without which some slow tests are left out

clean: ## remove .venv and what the tools left behind
	rm -rf $(VENV) $(SITE) .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist build
	find src papers tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +

# A Python named by the caller may differ from the one in .venv: then look again, which costs nothing if it is not.
ifneq ($(origin PYTHON),file)
$(READY) $(DEVELOPMENT) $(WITH_RAY) $(WITH_SITE): again
endif

$(READY) $(DEVELOPMENT) $(WITH_RAY) $(WITH_SITE): requirements.lock pyproject.toml papers/pyproject.toml tools/set_up.py tools/pip_settings.py
	$(NEW_ENOUGH)
	@"$(PYTHON)" -m tools.set_up --venv "$(@D)" $(patsubst .ready-%,--%,$(filter-out .ready,$(@F)))
