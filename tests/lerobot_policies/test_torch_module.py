"""A torch module as a policy, evaluated between the steps of its training."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import proctor
from harness import SUPPORT

TINY = f"{SUPPORT / 'tiny.py'}:Tiny"
STATE = "observation.state"


class Net(torch.nn.Module):  # type: ignore[misc]
    """Acts otherwise in training mode, and has a part that is never trained."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.5)).eval()
        self.head = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(8, 2), torch.nn.Tanh())

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.frozen(state))
        return result


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    made = Net()
    made.train()
    return made


def evaluate(policy: Any, directory: Path, **changes: Any) -> proctor.EvalResult:
    arguments = {"benchmark": TINY, "task": "a,b", "n_episodes": 2, "workers": 2, "display": "none", **changes}
    return proctor.evaluate(policy, output_dir=directory, **arguments)


def digests(result: proctor.EvalResult) -> list[Any]:
    return [record.digests for record in result]


def test_it_acts_in_evaluation_mode_and_stays_as_it_was(net: Net, tmp_path: Path) -> None:
    net.frozen.eval()
    modes = [part.training for part in net.modules()]
    numbers = torch.get_rng_state()
    policy = proctor.TorchPolicy(net, observation_keys=[STATE])
    first, second = evaluate(policy, tmp_path / "1"), evaluate(policy, tmp_path / "2")
    assert digests(first) == digests(second)
    assert [part.training for part in net.modules()] == modes
    assert True in modes
    assert False in modes
    assert torch.equal(torch.get_rng_state(), numbers)


def test_other_weights_are_another_policy(net: Net, tmp_path: Path) -> None:
    policy = proctor.TorchPolicy(net, observation_keys=[STATE])
    first = evaluate(policy, tmp_path / "run")
    assert digests(evaluate(policy, tmp_path / "run", n_episodes=3))[:4] == digests(first)
    with torch.no_grad():
        net.head[1].weight.data += 1  # not even torch's own version counters tell
    with pytest.raises(proctor.IdentityError, match=r"policy\.fingerprint"):
        evaluate(policy, tmp_path / "run", n_episodes=3)
    assert digests(evaluate(policy, tmp_path / "other")) != digests(first)


def test_it_draws_from_its_episodes_own_numbers(tmp_path: Path) -> None:
    class Noisy(torch.nn.Module):  # type: ignore[misc]
        def forward(self, state: torch.Tensor) -> torch.Tensor:
            return torch.normal(state[:, :2], 0.1)

    policy, numbers = proctor.TorchPolicy(Noisy(), observation_keys=[STATE]), torch.get_rng_state()
    first = evaluate(policy, tmp_path / "1", workers=1)
    torch.manual_seed(7)
    second = evaluate(policy, tmp_path / "2", workers=3)
    assert digests(first) == digests(second)
    assert len({record.digest for record in first}) == len(first)
    torch.manual_seed(7)
    assert not torch.equal(torch.get_rng_state(), numbers)
    before = torch.get_rng_state()
    evaluate(policy, tmp_path / "3")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("change", ["layer", "constant", "hook", "attribute"])
def test_another_network_with_the_same_weights_is_another_policy(change: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.LeakyReLU(0.1))
    policy = proctor.TorchPolicy(net, observation_keys=[STATE])
    evaluate(policy, tmp_path / "run")
    match change:
        case "layer":
            net[1] = torch.nn.Sigmoid()
        case "constant":
            net[2].negative_slope = 0.5
        case "hook":
            net[1].register_forward_hook(lambda part, given, made: made * 2)
        case "attribute":
            net.factor = 2
    with pytest.raises(proctor.IdentityError, match=r"policy\.fingerprint"):
        evaluate(policy, tmp_path / "run", n_episodes=3)


def test_inputs_are_made_by_a_function_and_chunks_are_cut(tmp_path: Path) -> None:
    class Chunks(torch.nn.Module):  # type: ignore[misc]
        def forward(self, first: torch.Tensor, rest: dict[str, torch.Tensor]) -> torch.Tensor:
            move = torch.cat([first, rest["second"]], dim=1)
            return move[:, None].repeat(1, 5, 1)

    def inputs(observation: dict[str, Any]) -> Any:
        state = torch.from_numpy(observation[STATE].copy()).float()
        return state[:1], {"second": state[1:2]}

    policy = proctor.TorchPolicy(Chunks(), observation_keys=[STATE], inputs=inputs, action_steps=3)
    result = evaluate(policy, tmp_path / "run")
    assert result.complete
    assert all(record.asks == -(-record.steps // 3) for record in result)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda net: net, r"Wrap it: proctor\.TorchPolicy"),
        (lambda net: proctor.TorchPolicy(net, observation_keys=STATE), "must be a list of names"),
        (lambda net: proctor.TorchPolicy(net, observation_keys=[]), r"needs inputs="),
        (lambda net: proctor.TorchPolicy(print, observation_keys=[STATE]), "takes a torch module"),
        (
            lambda net: proctor.TorchPolicy(torch.nn.LazyLinear(2), observation_keys=[STATE]),
            "weights that hold nothing yet",
        ),
        (lambda net: proctor.TorchPolicy(net, observation_keys=["x"]), "looks at x, which tiny does not give"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_starts(
    make: Any, words: str, net: Net, tmp_path: Path
) -> None:
    with pytest.raises(proctor.UsageError, match=words):
        evaluate(make(net), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_module_of_the_wrong_shape_is_a_policy_error(net: Net, tmp_path: Path) -> None:
    policy = proctor.TorchPolicy(torch.nn.Flatten(0), observation_keys=[STATE])
    with pytest.raises(proctor.PolicyError, match=r"must return actions of shape \(1, size\)"):
        evaluate(policy, tmp_path / "run")


def test_the_training_loop_of_the_docs_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    (example,) = (text for text in re.findall(r"```python\n([^`]*?)```", page) if "import torch" in text)
    exec(example, {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["10", "20"]
