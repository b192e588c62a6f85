"""`proctor eval`: evaluate a policy on a benchmark."""

from __future__ import annotations

from dataclasses import dataclass

from proctor.cli.command import Given, RunCommand
from proctor.config.help import flag_tables
from proctor.config.load import build_settings, or_embedded

_WORDS = """Evaluate a policy on a benchmark.

usage: proctor eval --policy.type=KIND --env.type=BENCHMARK --env.task=TASKS [flags]

  proctor eval  # the policy that comes with Proctor, on Meta-World's 50 tasks
  proctor eval --policy.type=expert --env.type=metaworld --env.task=easy --eval.n_episodes=5 \\
    --output_dir=outputs/expert
  proctor eval --resume=outputs/expert --eval.n_episodes=10  # five more of each task
  proctor eval --policy.path=proctor/metaworld-mt50 --env.type=metaworld --env.obs_type=state --env.task=easy \\
    --eval.n_episodes=5 --min_success=0.8 --output_dir=outputs/network
  proctor init policy my_policy.py  # a template to begin with
  proctor eval --policy.path=my_policy.py:MyPolicy --env.type=metaworld --env.task=reach-v3 --eval.n_episodes=2

--policy.path also takes a LeRobot checkpoint's folder or hub id, and the address of a policy server.

Flags may be written --a.b=c, --a.b c or a.b=c. --config_path=FILE reads them from YAML,
or from a config of LeRobot's, or of the checkpoint in a folder.
Running the same command again with the same --output_dir finishes what is missing."""


@dataclass(frozen=True)
class _NoneOfItsOwn:
    """`proctor eval` has the settings of a run, and no flag besides."""


def _eval(given: Given[_NoneOfItsOwn]) -> int:
    from proctor.cli.run import evaluate_here  # the engine: `--help` does without

    return evaluate_here(build_settings(or_embedded(given.tree)), "eval")


eval_command = RunCommand("eval", _eval, _WORDS, ("", _NoneOfItsOwn), flag_tables)
