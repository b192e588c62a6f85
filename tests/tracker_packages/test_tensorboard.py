"""TensorBoard's own reader finds what was reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tracked import evaluate_and_extend


def test_tensorboard_reads_scalars_and_tables_of_a_run_and_its_continuation(tmp_path: Path) -> None:
    info = evaluate_and_extend(tmp_path / "run", "tensorboard", {})
    folder = tmp_path / "run" / "tensorboard"
    assert len(list(folder.iterdir())) == 2
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
    events.Reload()
    final = events.Scalars("eval/pc_success")
    assert [event.step for event in final] == [9, 12]
    assert final[-1].value == pytest.approx(info["overall"]["pc_success"])
    assert events.Scalars("eval/n_errors")[-1].value == 1
    assert [event.step for event in events.Scalars("live/pc_success")][-1] == 12
    texts = {tag: events.Tensors(tag)[-1].tensor_proto.string_val[0].decode() for tag in events.Tags()["tensors"]}
    assert "| env.task | a,b,c |" in texts["settings"]
    assert f"| run directory | {tmp_path / 'run'} |" in texts["settings"]
    assert len(texts["episodes"].splitlines()) == 2 + 12
    assert "the simulator fell over" in texts["episodes"]
    assert len(texts["videos"].splitlines()) == 2 + 3
    assert texts["status"] == "complete"
