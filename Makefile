# Every target works on a fresh clone: it makes the virtual environment and installs what it needs.
VENV ?= .venv
PY := $(VENV)/bin/python
# Three at a time, a file each: most tests wait for processes of their own, and leave a third of two cores idle.
PYTEST := $(PY) -m pytest -n 3 --dist loadfile

# Tests and measurements start thousands of processes. None compiles Proctor anew, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all fuzz test-lerobot test-libero test-pusht test-aloha test-browser test-trackers \
  docs pictures benchmark-lerobot benchmark-evaluator benchmark-libero benchmark-training bench bench-full bench-docs check venv format clean

# LeRobot needs Python 3.12 and versions of its own; simulators for it run in a second environment without torch.
CORE := msgpack numpy pydantic pyyaml rich
SIMULATOR := $(CORE) metaworld mujoco gymnasium packaging
TESTING := pytest pytest-timeout hypothesis psutil websockets
LEROBOT_ENV = scripts/cached-env lerobot 3.12 constraints-lerobot.txt \
  'lerobot[metaworld,diffusion,smolvla]' peft $(SIMULATOR) $(TESTING)
# hf-libero declares torch, transformers, wandb and more for training; what simulates is what is named here.
LIBERO_ENV = scripts/cached-env libero 3.11 constraints-libero.txt $(CORE) $(TESTING) av huggingface_hub mujoco \
  robosuite bddl easydict termcolor cloudpickle gymnasium matplotlib future alone:hf-libero
BROWSER_ENV = scripts/cached-env browser 3.11 constraints.txt $(CORE) jinja2 scipy av playwright \
  starlette uvicorn $(TESTING)
TRACKERS_ENV = scripts/cached-env trackers 3.11 constraints-trackers.txt $(CORE) av wandb tensorboard trackio $(TESTING)
DOCS_ENV = scripts/cached-env docs 3.11 constraints-docs.txt mkdocs-material
VLA_EVAL_ENV = scripts/cached-env vla-eval 3.11 constraints-vla-eval.txt $(CORE) vla-eval
SIMULATOR_ENV = scripts/cached-env simulator 3.11 constraints-simulator.txt $(SIMULATOR)
# Each of these simulators has an environment of its own; a checkpoint for it runs in LeRobot's.
PUSHT_ENV = scripts/cached-env pusht 3.11 constraints-gym.txt $(CORE) gymnasium gym-pusht pymunk av $(TESTING)
ALOHA_ENV = scripts/cached-env aloha 3.11 constraints-gym.txt $(CORE) gymnasium gym-aloha mujoco av $(TESTING)

# Quick environments are proved with LeRobot's Meta-World and MuJoCo too; `make test-lerobot PROOFS=`: wholly.
METAWORLD_PROOFS := $(foreach name,environments exact quick_env models drawing shadow_map,tests/benchmarks/test_metaworld_$(name).py)
PROOFS ?= not slow

CHECKPOINTS := src/proctor/policies/compact/checkpoints
demo: DEMO := outputs/demo/$(shell date +%Y-%m-%d_%H-%M-%S)
demo: FILMED := door-open-v3:0 pick-place-v3:0 hammer-v3:0 basketball-v3:0 soccer-v3:0
demo: $(VENV)/.installed-demo  ## the policy that comes with Proctor on Meta-World's 50 tasks, and five videos
	@scripts/ensure-gl $(PY)
	$(VENV)/bin/proctor eval --job_name=demo --output_dir=$(DEMO)
	$(VENV)/bin/proctor film $(DEMO) $(FILMED) --fps=10
	$(VENV)/bin/proctor report $(DEMO)
	@$(PY) scripts/model_card.py --check $(CHECKPOINTS)/metaworld-mt50 $(DEMO)

test: $(VENV)/.installed-dev  ## the tests, without the slow proofs
	@scripts/ensure-gl $(PY)
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.installed-dev  ## every test
	@scripts/ensure-gl $(PY)
	$(PYTEST) -m ""

fuzz: $(VENV)/.installed-dev  ## over 10,000 wild inputs of six kinds; PROCTOR_FUZZ_SEED=N: others
	PROCTOR_FUZZ=$${PROCTOR_FUZZ:-1} $(PYTEST) -q tests/fuzz

test-lerobot:  ## the tests of LeRobot's policies, and Meta-World at its versions, in environments that are made once and kept
	@lerobot=$$($(LEROBOT_ENV)) && simulator=$$($(SIMULATOR_ENV)) && \
	export PYTHONPATH=$(CURDIR)/src PROCTOR_SIM_PYTHON=$$simulator OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 && \
	scripts/ensure-gl $$lerobot && $$lerobot -m pytest tests/lerobot_policies && $$lerobot -m pytest -m "$(PROOFS)" $(METAWORLD_PROOFS)

test-trackers:  ## the tests of wandb, trackio and tensorboard, in an environment that is made once and kept
	@python=$$($(TRACKERS_ENV)) && PYTHONPATH=$(CURDIR)/src $$python -m pytest tests/tracker_packages

test-pusht:  ## PushT, in an environment that is made once and kept, with a LeRobot checkpoint in another
	@lerobot=$$($(LEROBOT_ENV)) && simulator=$$($(PUSHT_ENV)) && \
	export PYTHONPATH=$(CURDIR)/src PROCTOR_LEROBOT_PYTHON=$$lerobot HF_HUB_OFFLINE=1 && \
	$$simulator -m pytest tests/simulators/test_pusht.py

test-aloha:  ## ALOHA, in the same way
	@lerobot=$$($(LEROBOT_ENV)) && simulator=$$($(ALOHA_ENV)) && \
	export PYTHONPATH=$(CURDIR)/src PROCTOR_LEROBOT_PYTHON=$$lerobot HF_HUB_OFFLINE=1 && \
	scripts/ensure-gl $$simulator && $$simulator -m pytest tests/simulators/test_aloha.py

test-libero:  ## LIBERO on miniature assets, and short evaluations, in an environment that is made once and kept
	@libero=$$($(LIBERO_ENV)) && export PYTHONPATH=$(CURDIR)/src OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 && \
	scripts/ensure-gl $$libero && $$libero -m pytest tests/libero_simulator

benchmark-libero:  ## what drawing only on a look saves on LIBERO's miniature tasks
	@libero=$$($(LIBERO_ENV)) && export PYTHONPATH=$(CURDIR)/src HF_HUB_OFFLINE=1 && \
	scripts/ensure-gl $$libero && $$libero benchmarks/libero_drawing.py

test-browser:  ## pages in a real browser; PROCTOR_SCREENSHOTS=DIR keeps what was seen
	@browser=$$($(BROWSER_ENV)) && export PYTHONPATH=$(CURDIR)/src && \
	scripts/ensure-chromium && $$browser -m pytest tests/browser

docs:  ## README and docs/ as a site in site/; a broken link or anchor fails, and so does a request to the web
	@python=$$($(DOCS_ENV)) && NO_MKDOCS_2_WARNING=1 $$python -m mkdocs build
	@echo "open site/index.html; with a search: python3 -m http.server --directory site"

pictures: $(VENV)/.installed-dev  ## the pictures in docs/pictures, all anew, from real runs
	@scripts/ensure-gl $(PY) && scripts/ensure-chromium
	$(PY) scripts/docs_pictures.py --browser=$$($(BROWSER_ENV))

benchmark-lerobot:  ## the same work through lerobot-eval and through Proctor, one after the other
	@lerobot=$$($(LEROBOT_ENV)) && export PYTHONPATH=$(CURDIR)/src && \
	scripts/ensure-gl $$lerobot && $$lerobot benchmarks/against_lerobot.py

benchmark-evaluator:  ## the second evaluation of a live policy against the first, with processes kept warm
	@lerobot=$$($(LEROBOT_ENV)) && export PYTHONPATH=$(CURDIR)/src HF_HUB_OFFLINE=1 && \
	scripts/ensure-gl $$lerobot && $$lerobot benchmarks/evaluator.py

benchmark-training:  ## how long training waits for the evaluations beside it
	@lerobot=$$($(LEROBOT_ENV)) && PYTHONPATH=$(CURDIR)/src $$lerobot benchmarks/training_waits.py

# Each of the peers in its own environment; one that cannot be made here is left out, and the table says so.
BENCH = $(PY) benchmarks/suite.py --lerobot=$$($(LEROBOT_ENV)) --libero=$$($(LIBERO_ENV)) --vla-eval=$$($(VLA_EVAL_ENV))

bench: $(VENV)/.installed-dev  ## speed against peers and limits, in a quiet hour; ONLY=engine,placement: these alone
	@scripts/ensure-gl $(PY)
	$(BENCH) --only=$(ONLY)

bench-full: $(VENV)/.installed-dev  ## the whole matrix, four hours; on a GPU what needs one, too
	@scripts/ensure-gl $(PY)
	$(BENCH) --full --only=$(ONLY)

bench-docs: $(VENV)/.installed-dev  ## the tables in README.md and docs/ from what bench has stored
	$(PY) benchmarks/suite.py --write-docs

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
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
