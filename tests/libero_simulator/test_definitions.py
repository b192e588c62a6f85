"""Our table of tasks against hf-libero's own, its task definitions, and its initial states."""

from __future__ import annotations

import pickle
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proctor.benchmarks.libero.assets import package_root
from proctor.benchmarks.libero.benchmark import INITIAL_STATES, MAX_STEPS, prompt, suites
from proctor.benchmarks.libero.installation import import_libero, read_initial_states

EVERY_TASK = [(suite, task) for suite, tasks in suites().items() for task in tasks]


@pytest.fixture
def hf_libero(assets: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """hf-libero's own tables. Its module imports torch, for nothing but a function that is not called here."""
    import_libero(assets)
    if "torch" not in sys.modules:
        monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    import libero.libero.benchmark

    return libero.libero.benchmark


def test_the_table_is_hf_liberos_own(hf_libero: Any) -> None:
    assert set(suites()) == set(MAX_STEPS)
    for suite, names in suites().items():
        theirs = hf_libero.get_benchmark_dict()[suite]()
        assert [task.name for task in theirs.tasks] == list(names)
        assert [task.language for task in theirs.tasks] == [prompt(name) for name in names]
        assert [task.bddl_file for task in theirs.tasks] == [f"{name}.bddl" for name in names]
        assert [task.init_states_file for task in theirs.tasks] == [f"{name}.pruned_init" for name in names]
        assert {task.problem_folder for task in theirs.tasks} == {suite}


def test_every_task_definition_is_parsed_by_hf_liberos_parser(assets: Path) -> None:
    envs = import_libero(assets)
    from libero.libero.envs.bddl_utils import get_problem_info, robosuite_parse_problem

    assert len(EVERY_TASK) == 130
    for suite, task in EVERY_TASK:
        path = str(package_root() / "bddl_files" / suite / f"{task}.bddl")
        problem = robosuite_parse_problem(path)
        assert problem["goal_state"], path
        assert problem["objects"], path
        assert get_problem_info(path)["problem_name"] in envs.TASK_MAPPING, path


def test_every_initial_state_file_gives_the_numbers_that_numpy_gives() -> None:
    for suite, task in EVERY_TASK:
        path = package_root() / "init_files" / suite / f"{task}.pruned_init"
        states = read_initial_states(path)
        with zipfile.ZipFile(path) as archive:
            member = next(name for name in archive.namelist() if name.endswith("data.pkl"))
            theirs = pickle.loads(archive.read(member))
        assert states.dtype == theirs.dtype
        assert states.tobytes() == theirs.tobytes()
        assert len(np.unique(states, axis=0)) == len(states) == INITIAL_STATES, path
