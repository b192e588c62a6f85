"""LeRobot's own trainer, with Proctor for the evaluations: the same flags as `lerobot-train`.

    python examples/training/lerobot_trainer.py --policy.type=act --policy.push_to_hub=false \
        --dataset.repo_id=lerobot/metaworld_mt50 --env.type=metaworld --env.task=reach-v3 --env_eval_freq=1000

The trainer calls two functions at an evaluation: one makes environments, the other plays episodes in them. Both
are replaced here. The policy is evaluated with the weights it has at that step, in processes of its own: training
is not disturbed, and the same checkpoint gives the same episodes through `proctor eval`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from lerobot.scripts import lerobot_train

import proctor


class Evaluations:
    """What the trainer calls instead of LeRobot's own evaluation."""

    def __init__(self) -> None:
        self._evaluator: proctor.Evaluator | None = None

    @contextmanager
    def make_eval_envs(self, cfg: Any) -> Iterator[Any]:
        """Make what keeps the simulators, at the first evaluation."""
        if self._evaluator is None:
            # What was left at LeRobot's default is left at Proctor's, which is what LeRobot's simulators do.
            default = asdict(type(cfg.env)())
            env = {name: value for name, value in asdict(cfg.env).items() if value != default[name]}
            env.pop("task", None)
            self._evaluator = proctor.Evaluator(
                benchmark=cfg.env.type,
                task=cfg.env.task,
                n_episodes=cfg.eval.n_episodes,
                seed=cfg.seed if cfg.seed is not None else 1000,
                env=env,
                settings={"eval": {"video": 1}},
            )
        yield self._evaluator

    def eval_policy_all(self, **given: Any) -> dict[str, Any]:
        """Evaluate, and return what the trainer logs."""
        result = given["envs"].evaluate(
            given["policy"],
            preprocessor=given["preprocessor"],
            postprocessor=given["postprocessor"],
            # Beside where LeRobot would put its videos.
            output_dir=given["videos_dir"].with_name(given["videos_dir"].name.replace("videos_", "")),
        )
        print(f"success {result.success_rate}, report: {result.path / 'report.html'}")
        return {"overall": dict(result.info["overall"]), "per_group": result.info["per_group"]}

    def close(self) -> None:
        """End the simulators."""
        if self._evaluator is not None:
            self._evaluator.close()


def main() -> None:
    """Train."""
    evaluations = Evaluations()
    lerobot_train._make_eval_envs = evaluations.make_eval_envs
    lerobot_train.eval_policy_all = evaluations.eval_policy_all
    try:
        lerobot_train.main()
    finally:
        evaluations.close()


if __name__ == "__main__":
    main()
