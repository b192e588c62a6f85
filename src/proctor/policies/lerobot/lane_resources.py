"""What one lane needs for itself, from a simulator's arrays to a network's tensors and back.

Policies and processors keep state (a scheduler its step, a tokenizer its padding, a relative action the state it
is relative to), so every lane has its own, which share nothing but parameters. On a GPU a lane also has a stream,
page-locked memory and a recorded pass: its copies run while another lane's forward pass does, and images are
converted and normalised on the device.
"""

from __future__ import annotations

import copy
import queue
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from proctor.policies.lerobot.checkpoint import LoadedCheckpoint
from proctor.policies.lerobot.cuda_graph import Ask, Batch, RecordedPass
from proctor.policies.lerobot.randomness import EpisodeRandomness
from proctor.policies.lerobot.state import copy_of
from proctor.types import Observation

ACTION = "action"


class LaneResources:
    """A lane's own policy, processors, stream and staging memory.

    Args:
        loaded: what is copied, and never asked itself.
        environment: LeRobot's processors between environment and policy.
        written: parameters that the policy writes to, by name; these are not shared.
    """

    def __init__(
        self, loaded: LoadedCheckpoint, environment: tuple[Any, Any], written: Collection[str] = ()
    ) -> None:
        self.policy = copy_of(loaded.policy, written)
        # Together: a step of one may refer to a step of the other.
        self._pre, self._post, (self._env_pre, self._env_post) = copy.deepcopy(
            (loaded.preprocessor, loaded.postprocessor, environment)
        )
        self._device = loaded.device
        self._use_amp = bool(getattr(loaded.policy.config, "use_amp", False))
        self._stream = torch.cuda.Stream(loaded.device) if loaded.device.type == "cuda" else None
        self._staged: dict[str, torch.Tensor] = {}
        self._recording: RecordedPass | None = None

    @property
    def processors(self) -> tuple[Any, ...]:
        """The steps before and after the policy."""
        return self._pre, self._post, self._env_pre, self._env_post

    @contextmanager
    def inference(self) -> Iterator[None]:
        """Enter what a thread that infers must enter itself."""
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            if self._stream is not None:
                stack.enter_context(torch.cuda.stream(self._stream))
            if self._use_amp:
                stack.enter_context(torch.autocast(device_type=self._device.type))
            yield

    def batch(self, observations: Sequence[Observation], rows: int) -> dict[str, Any]:
        """Return a preprocessed batch of exactly `rows` rows; the first fills the places that are left."""
        raw: dict[str, Any] = {
            key: self._tensor(key, [observation[key] for observation in observations], rows)
            for key in observations[0]
            if key != "task"
        }
        prompts = [observation["task"] for observation in observations]
        raw["task"] = [*prompts, *prompts[:1] * (rows - len(prompts))]
        if self._env_pre.steps:
            raw = self._env_pre(raw)
        batch: dict[str, Any] = self._pre(raw)
        return batch

    def replay(self, ask: Ask, window: Sequence[Batch], rows: Sequence[EpisodeRandomness], by_script: bool) -> Any:
        """Run a forward pass by its recording, which the first call makes."""
        if self._recording is None:
            self._recording = RecordedPass(ask, window, rows, by_script, self._device)
        return self._recording(window, rows)

    def forget_recording(self) -> None:
        """Free it: the batch's shape changes."""
        self._recording = None

    def actions(self, action: Any) -> NDArray[Any]:
        """Return the robot's actions for the network's: of one step (rows, size) or of several."""
        action = self._post(action)
        if self._env_post.steps:
            action = self._env_post({ACTION: action})[ACTION]
        array: NDArray[Any] = action.to("cpu").numpy()
        return array

    def _tensor(self, key: str, arrays: list[NDArray[Any]], rows: int) -> Any:
        tensor = self._on_device(key, arrays, rows)
        if tensor.dtype == torch.uint8 and tensor.ndim == 4:
            # As LeRobot does it, so that the bits are the same: channels first, float, in [0, 1].
            return tensor.permute(0, 3, 1, 2).contiguous().type(torch.float32).div_(255)
        return tensor.float()

    def _on_device(self, key: str, arrays: list[NDArray[Any]], rows: int) -> Any:
        if self._stream is None:
            return torch.from_numpy(np.stack([*arrays, *arrays[:1] * (rows - len(arrays))]))
        staged = self._staged.get(key)
        shape = (rows, *arrays[0].shape)
        if staged is None or tuple(staged.shape) != shape:
            kind = torch.from_numpy(arrays[0][:0].copy()).dtype
            staged = self._staged[key] = torch.empty(shape, dtype=kind, pin_memory=True)
        else:
            self._stream.synchronize()  # an older window's copy may still read it
        place = staged.numpy()
        for row, array in enumerate(arrays):
            place[row] = array
        # Only what is there crosses the bus; the rest is filled on the device.
        tensor = torch.empty(shape, dtype=staged.dtype, device=self._device)
        tensor[: len(arrays)].copy_(staged[: len(arrays)], non_blocking=True)
        tensor[len(arrays) :] = tensor[0]
        return tensor


class LanePool:
    """The resources that no lane is using right now; more are made when all are in use."""

    def __init__(self, make: Callable[[], LaneResources]) -> None:
        self._make = make
        self._free: queue.SimpleQueue[LaneResources] = queue.SimpleQueue()

    def new(self) -> LaneResources:
        """Return resources that nobody has used or will use."""
        return self._make()

    def more(self) -> LanePool:
        """Return a pool of the same make, of which nothing has been used yet."""
        return LanePool(self._make)

    @contextmanager
    def several(self, count: int) -> Iterator[list[LaneResources]]:
        """Take the resources of that many lanes at once."""
        with ExitStack() as stack:
            yield [stack.enter_context(self.one()) for _ in range(count)]

    @contextmanager
    def one(self) -> Iterator[LaneResources]:
        """Take one lane's resources for a while."""
        try:
            lane = self._free.get_nowait()
        except queue.Empty:
            lane = self._make()
        try:
            yield lane
        finally:
            self._free.put(lane)


def environment_processors(benchmark: str, config: Any) -> tuple[Any, Any]:
    """Return LeRobot's processors between this environment and this policy, without what a simulator did already.

    A benchmark's observations are in LeRobot's form for policies, so the step that makes LIBERO's raw ones so is
    left out; what a policy adds (X-VLA: its own image statistics, domain and rotations) stays.
    """
    from lerobot.envs import EnvConfig
    from lerobot.envs.factory import make_env_config, make_env_pre_post_processors
    from lerobot.processor import PolicyProcessorPipeline

    known = benchmark in EnvConfig.get_known_choices()
    settings = make_env_config(benchmark) if known else None
    try:
        pre, post = make_env_pre_post_processors(settings, config)
    except AttributeError:  # neither the policy nor LeRobot's own list has anything for this environment
        return PolicyProcessorPipeline(steps=[]), PolicyProcessorPipeline(steps=[])
    pre.steps = [step for step in pre.steps if type(step).__name__ != "LiberoProcessorStep"]
    return pre, post
