"""What `proctor card` writes is what huggingface_hub reads, and what it reads is all that was meant."""

from __future__ import annotations

from pathlib import Path

import yaml

from made_runs import make_run
from proctor.report.card import Listing, write_card
from proctor.results import ScoredRun

CARD = """---
license: apache-2.0
model-index:
- name: act
  results:
  - task:
      type: automatic-speech-recognition
    dataset:
      type: d
      name: D
    metrics:
    - type: wer
      value: 1.5
---

# ACT
"""


def test_huggingface_hub_reads_a_card_and_its_results(tmp_path: Path) -> None:
    from huggingface_hub import ModelCard, parse_eval_result_entries

    run = ScoredRun.open(make_run(tmp_path / "run", {"a": [True, False, True, None]}))
    (tmp_path / "README.md").write_text(CARD)
    _, results = write_card(run, tmp_path, listing=Listing("org/benchmark", "reach"))
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.license == "apache-2.0"
    assert card.data.model_name == "act"
    other, own = card.data.eval_results
    assert (other.metric_type, other.metric_value) == ("wer", 1.5)
    assert (own.task_type, own.metric_type, own.metric_value) == ("robotics", "success_rate", 50.0)
    assert "2 of 4 episodes" in own.metric_name
    assert own.metric_args["successes"] == 2
    assert card.text.strip() == "# ACT"
    (entry,) = parse_eval_result_entries(yaml.safe_load(results.read_text()))
    assert (entry.dataset_id, entry.task_id, entry.value) == ("org/benchmark", "reach", 50.0)
    assert "1 error counted as a failure" in str(entry.notes)
