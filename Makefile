# Every target works on a fresh clone: it makes the virtual environment and installs what it needs.
VENV ?= .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest

.PHONY: demo test test-all test-lerobot test-trackers benchmark-lerobot check venv format clean

# LeRobot needs Python 3.12 and versions of its own; simulators for it run in a second environment without torch.
CORE := msgpack numpy pydantic pyyaml rich
SIMULATOR := $(CORE) metaworld mujoco gymnasium packaging
TESTING := pytest pytest-timeout hypothesis psutil websockets
LEROBOT_ENV = scripts/cached-env lerobot 3.12 constraints-lerobot.txt \
  'lerobot[metaworld,diffusion,smolvla]' peft $(SIMULATOR) $(TESTING)
TRACKERS_ENV = scripts/cached-env trackers 3.11 constraints-trackers.txt $(CORE) av wandb tensorboard trackio $(TESTING)
SIMULATOR_ENV = scripts/cached-env simulator 3.11 constraints-simulator.txt $(SIMULATOR)

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

test-lerobot:  ## the tests of LeRobot's policies, in environments that are made once and kept
	@lerobot=$$($(LEROBOT_ENV)) && simulator=$$($(SIMULATOR_ENV)) && \
	export PYTHONPATH=$(CURDIR)/src PROCTOR_SIM_PYTHON=$$simulator OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 && \
	scripts/ensure-gl $$lerobot && $$lerobot -m pytest tests/lerobot_policies

test-trackers:  ## the tests of wandb, trackio and tensorboard, in an environment that is made once and kept
	@python=$$($(TRACKERS_ENV)) && PYTHONPATH=$(CURDIR)/src $$python -m pytest tests/tracker_packages

benchmark-lerobot:  ## the same work through lerobot-eval and through Proctor, one after the other
	@lerobot=$$($(LEROBOT_ENV)) && export PYTHONPATH=$(CURDIR)/src && \
	scripts/ensure-gl $$lerobot && $$lerobot benchmarks/against_lerobot.py

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
