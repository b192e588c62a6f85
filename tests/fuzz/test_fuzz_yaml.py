"""Settings files: of a run, damaged, foreign, and wild."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from fuzz.commands import Runner, run_here, short_lives
from fuzz.documents import documents
from fuzz.inputs import MARKS, inputs
from fuzz.sandbox import Sandbox
from fuzz.surface import Surface, Trial
from fuzz.values import BENCH, OF_A_RUN, make_places

pytestmark = MARKS

_BOUNDS = ["--eval.n_episodes=1", "--env.task=a", "--eval.use_async_envs=false", "--display=plain"]
_COMMANDS = ("eval", "eval", "eval", "eval --resume", "parallel", "serve", "check-benchmark")


def _arguments(command: str, file: str, folder: str) -> list[str]:
    if command == "eval --resume":
        return ["eval", f"--resume={folder}", *_BOUNDS]
    more = {
        "eval": _BOUNDS,
        "parallel": [f"--env.type={BENCH}:Reached"],
        "check-benchmark": [f"--env.type={BENCH}:Reached"],
    }
    return [command, f"--config_path={file}", *more.get(command, [])]


def test_no_settings_file_ends_in_a_traceback(sandbox: Sandbox, surface: Callable[..., Surface]) -> None:
    places = make_places(sandbox)
    files, run = surface("YAML"), Runner()
    with short_lives():
        run_here(Trial(), ["eval", f"--policy.path={BENCH}:Still", f"--env.type={BENCH}:OneStep", *_BOUNDS])

        @inputs(2500)
        @given(st.sampled_from(_COMMANDS), documents(places, OF_A_RUN))
        def each(command: str, data: bytes) -> None:
            file = sandbox.made / "config.yaml"
            file.write_bytes(data)
            arguments = _arguments(command, str(file), str(sandbox.made))
            with files.trial((command, data)) as trial:
                run(trial, arguments, apart=command != "serve")

        files.drive(each)
