# Every target works on a fresh clone: it makes the virtual environment and installs what it needs.
VENV ?= .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest

.PHONY: demo test test-all check venv format clean

demo: $(VENV)/.installed-demo  ## Meta-World's experts on the 28 easy tasks, with a video each
	@scripts/ensure-gl $(PY)
	$(VENV)/bin/proctor eval --policy.type=expert --env.type=metaworld --env.task=easy \
	  --eval.n_episodes=5 --eval.max_episodes_rendered=1 --eval.video_fps=10 --job_name=demo

test: $(VENV)/.installed-dev  ## the tests, without the slow proofs
	@scripts/ensure-gl $(PY)
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.installed-dev  ## every test
	@scripts/ensure-gl $(PY)
	$(PYTEST) -m ""

check: $(VENV)/.installed-dev  ## ruff and mypy --strict
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

format: $(VENV)/.installed-dev
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

venv: $(VENV)/.installed-dev  ## the environment for development

$(PY):
	@python=$$(scripts/find-python) && echo "creating $(VENV) with $$python" && "$$python" -m venv $(VENV)

$(VENV)/.installed-%: pyproject.toml constraints.txt | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
