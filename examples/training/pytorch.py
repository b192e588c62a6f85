"""Evaluate inside a plain PyTorch training loop: `python examples/training/pytorch.py`.

A small network learns to reach from made-up positions of hand and goal. Every 100 steps it is evaluated on
Meta-World; worker processes and simulators stay from one evaluation to the next.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

import proctor

STATE = "observation.environment_state"


def hand_and_goal(observation: dict[str, Any]) -> torch.Tensor:
    """Return what the network takes: of Meta-World's 39 numbers, where the hand is and where the goal."""
    state = torch.from_numpy(observation[STATE]).float()
    return torch.cat([state[0:3], state[36:39]])


def made_up_batch(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return positions as Meta-World's reach has them, and the action that moves the hand to the goal."""
    hands = torch.rand(rows, 3) * torch.tensor([0.6, 0.6, 0.4]) + torch.tensor([-0.3, 0.4, 0.05])
    goals = torch.rand(rows, 3) * torch.tensor([0.4, 0.2, 0.3]) + torch.tensor([-0.2, 0.75, 0.05])
    moves = torch.clip(10 * (goals - hands), -1, 1)
    return torch.cat([hands, goals], dim=1), torch.cat([moves, torch.zeros(rows, 1)], dim=1)


def main(steps: int = 300) -> None:
    """Train, and evaluate every 100 steps."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(6, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128), torch.nn.ReLU(),
        torch.nn.Linear(128, 4),
    )  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    policy = proctor.TorchPolicy(net, observation_keys=[STATE], inputs=hand_and_goal)
    with proctor.Evaluator(
        benchmark="metaworld", task="reach-v3", n_episodes=10, env={"obs_type": "state"}, display="none"
    ) as evaluator:
        for step in range(1, steps + 1):
            states, actions = made_up_batch(512)
            loss = torch.nn.functional.mse_loss(net(states), actions)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                result = evaluator.evaluate(policy)
                print(f"step {step}: loss {loss.item():.4f}, success {result.success_rate}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
