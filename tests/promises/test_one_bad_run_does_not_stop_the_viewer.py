"""Promise: one bad run holds up neither the viewer nor any other command that reads it, and Ctrl-C works."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import flags, run_cli, start_cli, tiny_tree
from hostile_runs import HARMLESS_TO_READ, UNREADABLE, make_hostile
from made_runs import make_run
from viewers import Viewer, viewer


def looks_and_ends(found: Viewer, name: str, *, readable: bool) -> None:
    """Look at the list, the bad run and the good one, then end the viewer by Ctrl-C."""
    status, _, body = found.get("/")
    assert status == 200
    assert "good" in body.decode()
    assert "unreadable" in body.decode() or readable
    assert found.get("/run/good/")[0] == 200
    assert (found.get(f"/run/{name}/")[0] == 200) == readable or b"unreadable" in body
    assert found.get("/live/good/")[0] == 200
    found.process.send_signal(signal.SIGINT)
    out, err = found.process.communicate(timeout=120)
    assert found.process.returncode == 130
    assert (out, err) == ("", "")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("what", [*UNREADABLE, *HARMLESS_TO_READ])
def test_a_bad_run_is_one_line_in_the_list_and_the_others_are_shown(tmp_path: Path, what: str) -> None:
    make_run(tmp_path / "good", {"a": [True]})
    make_hostile(tmp_path / "bad", {**UNREADABLE, **HARMLESS_TO_READ}[what])
    with viewer(str(tmp_path), patience=120) as found:
        looks_and_ends(found, "bad", readable=what in HARMLESS_TO_READ)


@pytest.mark.slow
def test_many_bad_runs_at_once_are_no_worse(tmp_path: Path) -> None:
    make_run(tmp_path / "good", {"a": [True]})
    for number, make in enumerate([*UNREADABLE.values(), *HARMLESS_TO_READ.values()]):
        make_hostile(tmp_path / f"bad-{number}", make)
    with viewer(str(tmp_path), patience=120) as found:
        looks_and_ends(found, "bad-0", readable=False)


def refused(*arguments: str) -> None:
    """Run a command that must end by itself, soon, with one short message."""
    process = start_cli(*arguments)
    try:
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode in (1, 2), (arguments, err[:500])
    assert "Traceback" not in err, err[-2000:]
    assert 0 < len(err) < 2000
    assert err.startswith("proctor: ")


# Each command works on the endless one for as long as it works on any, so that comes last.
COMMON = [name for name in UNREADABLE if not any(word in name for word in ("deep", "huge JSON", "endless"))]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", [*COMMON, "table that is an endless view"])
def test_no_command_waits_for_or_chokes_on_a_bad_run(tmp_path: Path, what: str) -> None:
    good = make_run(tmp_path / "good", {"a": [True, False]})
    bad = make_hostile(tmp_path / "bad", UNREADABLE[what])
    refused("report", str(bad), f"--output={tmp_path / 'report.html'}")
    assert not (tmp_path / "report.html").exists()
    refused("compare", str(good), str(bad))
    refused("merge", str(bad), f"--output_dir={tmp_path / 'merged'}")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that a command has made, and can go on with."""
    run = tmp_path_factory.mktemp("real") / "run"
    done = run_cli("eval", *flags(tiny_tree(run, task="a", n_episodes=1)))
    assert done.returncode == 0, done.stderr
    return run


# A list of tasks that cannot be read is not asked for: it is written anew.
@pytest.mark.parametrize(
    "what", [*COMMON, "lock is a pipe", pytest.param("table that is an endless view", marks=pytest.mark.slow)]
)
def test_a_bad_run_is_not_gone_on_with(tmp_path: Path, real: Path, what: str) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(real, bad)
    {**UNREADABLE, **HARMLESS_TO_READ}[what](bad)
    refused("eval", f"--resume={bad}", "--eval.n_episodes=2")
    assert not list(bad.glob("videos/**/*.mp4"))


RIVAL_IS_READ: dict[str, Callable[[Path], None]] = {
    name: make for name, make in UNREADABLE.items() if name.startswith("run.sqlite") or "types" in name
}


@pytest.mark.parametrize("what", RIVAL_IS_READ)
def test_a_bad_rival_is_refused_before_anything_starts(tmp_path: Path, what: str) -> None:
    bad = make_hostile(tmp_path / "bad", RIVAL_IS_READ[what])
    tree = tiny_tree(tmp_path / "run", task="a", eval={"until_better_than": str(bad)})
    refused("eval", *flags(tree))
    assert not (tmp_path / "run" / "run.sqlite").exists()


def test_a_plan_that_no_machine_can_hold_is_refused_at_once(tmp_path: Path) -> None:
    refused("eval", *flags(tiny_tree(tmp_path / "run", n_episodes=10**12)))
