"""A LeRobot policy as its training loop holds it: evaluated as what would be saved of it, and left as it is."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import proctor
from lerobot_checkpoints import SIDE, Training, act_config
from proctor.config.load import settings_from_flags
from proctor.engine.evaluation import evaluate_settings
from proctor.policies.lerobot.checkpoint import load, open_checkpoint

ENV = {"observation_height": SIDE, "observation_width": SIDE, "episode_length": 30}


def evaluator(**changes: Any) -> proctor.Evaluator:
    arguments: dict[str, Any] = {"task": "reach-v3", "n_episodes": 2, "workers": 2, "display": "none", "env": ENV}
    return proctor.Evaluator(**{**arguments, **changes})


def live(one: proctor.Evaluator, training: Training, output_dir: Path) -> proctor.EvalResult:
    return one.evaluate(
        training.policy,
        preprocessor=training.preprocessor,
        postprocessor=training.postprocessor,
        output_dir=output_dir,
    )


def digests(result: proctor.EvalResult) -> list[tuple[str | None, str | None]]:
    return [record.digests for record in result]


def weights(training: Training) -> list[torch.Tensor]:
    return [value.clone() for value in training.policy.state_dict().values()]


def test_a_live_policy_gives_the_digests_of_the_checkpoint_that_is_saved_of_it(tmp_path: Path) -> None:
    training, found = Training(act_config()), {}
    with evaluator() as one:
        for step in (5, 10, 15):
            training.run(5)
            found[step] = live(one, training, tmp_path / f"live-{step}")
            training.save(tmp_path / f"checkpoint-{step}")
            assert training.policy.training
    for step, result in found.items():
        from_disk = proctor.evaluate(
            tmp_path / f"checkpoint-{step}", task="reach-v3", n_episodes=2, display="none", env=ENV
        )
        assert result.complete
        assert digests(result) == digests(from_disk)
    assert digests(found[5]) != digests(found[15])
    undisturbed = Training(act_config())
    undisturbed.run(15)
    assert all(map(torch.equal, weights(training), weights(undisturbed)))


def test_a_live_run_is_continued_by_the_saved_checkpoint(tmp_path: Path) -> None:
    training = Training(act_config())
    with evaluator(n_episodes=1) as one:
        live(one, training, tmp_path / "run")
    with pytest.raises(proctor.UsageError, match=r"go on with what was saved of it, --policy\.path="):
        evaluate_settings(settings_from_flags([f"--resume={tmp_path / 'run'}", "--eval.n_episodes=2"]))
    training.save(tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "train_config.json").write_text("{}")
    result = proctor.evaluate(
        tmp_path / "checkpoint",
        task="reach-v3",
        n_episodes=2,
        display="none",
        env=ENV,
        output_dir=tmp_path / "run",
    )
    assert [record.episode_index for record in result] == [0, 1]


def test_processes_stay_and_are_replaced_when_they_die(tmp_path: Path) -> None:
    training = Training(act_config())
    with evaluator() as one:
        assert one._warm is not None
        first = live(one, training, tmp_path / "1")
        (host,), workers = one._warm._hosts, list(one._warm._workers)
        again = live(one, training, tmp_path / "2")
        assert one._warm._hosts == [host]
        assert one._warm._workers == workers
        os.kill(host.child.process.pid, signal.SIGKILL)
        os.kill(workers[0].child.process.pid, signal.SIGKILL)
        after = live(one, training, tmp_path / "3")
    assert digests(first) == digests(again) == digests(after)


def test_what_does_not_fit_is_refused_before_anything_starts(tmp_path: Path) -> None:
    training = Training(act_config())
    pre, post = training.preprocessor, training.postprocessor
    with evaluator() as one:
        with pytest.raises(proctor.UsageError, match=r"give preprocessor=\.\.\."):
            one.evaluate(training.policy)
        with pytest.raises(proctor.UsageError, match="Was the other of the two given"):
            one.evaluate(training.policy, preprocessor=post, postprocessor=pre)
        with pytest.raises(proctor.UsageError, match="belong to a LeRobot policy"):
            one.evaluate(lambda observation: [0, 0, 0, 0], preprocessor=pre)
        with pytest.raises(proctor.UsageError, match="a checkpoint has its own"):
            one.evaluate(str(tmp_path), preprocessor=pre)
    assert not (tmp_path / "outputs").exists()


def test_a_policy_that_acts_by_code_of_its_own_is_refused(tmp_path: Path) -> None:
    training = Training(act_config())
    original = type(training.policy)

    class Mine(original):  # type: ignore[misc,valid-type]
        def predict_action_chunk(self, batch: Any) -> Any:
            return super().predict_action_chunk(batch) * 0

    with evaluator() as one:
        training.policy.select_action = lambda batch: torch.zeros(1, 4)
        with pytest.raises(proctor.UsageError, match="ACTPolicy has a select_action of its own"):
            live(one, training, tmp_path / "run")
        del training.policy.select_action
        training.policy.__class__ = Mine
        with pytest.raises(proctor.UsageError, match="Mine is not what a checkpoint of type act is loaded as"):
            live(one, training, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own, in torch.compile
def test_a_wrapped_policy_is_the_policy_in_it_and_an_adapter_counts(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    training = Training(act_config())
    policy, base = training.policy, str(training.save(tmp_path / "base"))

    def wrapped(other: Any, name: str) -> proctor.EvalResult:
        training.policy = other
        return live(one, training, tmp_path / name)

    class Distributed(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = policy

    with evaluator(n_episodes=1) as one:
        plain = live(one, training, tmp_path / "plain")
        assert digests(wrapped(torch.compile(policy), "compiled")) == digests(plain)
        assert digests(wrapped(Distributed(), "distributed")) == digests(plain)
        policy.config.use_peft = True
        config = peft.LoraConfig(r=2, target_modules=["linear1"])
        adapted = peft.get_peft_model(policy, config)
        adapted.peft_config["default"].base_model_name_or_path = base
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                torch.nn.init.ones_(weight)
        assert digests(wrapped(adapted, "adapted")) != digests(plain)


@pytest.mark.parametrize("hidden", [False, True], ids=["a part", "in a list"])
def test_a_weight_that_is_never_loaded_is_drawn_as_the_policy_draws_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: bool
) -> None:
    class Unsaved(torch.nn.Module):  # type: ignore[misc]
        """Neither saved nor missed: made anew whenever the policy is."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(3)
            self.weight = torch.nn.Parameter(torch.nn.init.normal_(torch.nn.Parameter(torch.zeros(5))))

        def _save_to_state_dict(self, *given: Any) -> None:
            pass

        def _load_from_state_dict(self, *given: Any) -> None:
            pass

    training = Training(act_config())
    made = type(training.policy).__init__

    def with_it(self: Any, *given: Any, **named: Any) -> None:
        made(self, *given, **named)
        self.unsaved = [Unsaved()] if hidden else Unsaved()

    monkeypatch.setattr(type(training.policy), "__init__", with_it)
    directory = training.save(tmp_path / "checkpoint")
    checkpoint = open_checkpoint(str(directory), {}, "cpu", trusted=False)
    with checkpoint.guard.watch():
        loaded = load(checkpoint, keep_renames=True, fixed_prompts=False)
    unsaved = loaded.policy.unsaved[0] if hidden else loaded.policy.unsaved
    assert torch.equal(unsaved.weight, Unsaved().weight)


def test_a_policy_is_made_once_though_a_part_of_its_backbone_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training(act_config())  # whose ResNet has a head that ACT drops
    directory = training.save(tmp_path / "checkpoint")
    made, policies = type(training.policy).__init__, []

    def counted(self: Any, *given: Any, **named: Any) -> None:
        policies.append(self)
        made(self, *given, **named)

    monkeypatch.setattr(type(training.policy), "__init__", counted)
    checkpoint = open_checkpoint(str(directory), {}, "cpu", trusted=False)
    with checkpoint.guard.watch():
        loaded = load(checkpoint, keep_renames=True, fixed_prompts=False)
    assert policies == [loaded.policy]
    saved = training.policy.state_dict()
    assert all(torch.equal(weight, saved[name]) for name, weight in loaded.policy.state_dict().items())


def test_what_a_policy_draws_beside_its_weights_is_what_lerobot_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = Training(act_config())
    made = type(training.policy).__init__

    def with_features(self: Any, *given: Any, **named: Any) -> None:
        made(self, *given, **named)
        self.register_buffer("features", torch.randn(5), persistent=False)  # saved nowhere

    monkeypatch.setattr(type(training.policy), "__init__", with_features)
    directory = training.save(tmp_path / "checkpoint")
    torch.manual_seed(3)
    expected = type(training.policy).from_pretrained(str(directory)).features
    checkpoint = open_checkpoint(str(directory), {}, "cpu", trusted=False)
    torch.manual_seed(3)
    with checkpoint.guard.watch():
        loaded = load(checkpoint, keep_renames=True, fixed_prompts=False)
    assert torch.equal(loaded.policy.features, expected)
