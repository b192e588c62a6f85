"""Meta-World's environments near MuJoCo's own speed: the same tasks over a quicker base, equal in every bit.

The fifty tasks are not rewritten. The module of a task is run a second time, under imports of its own: where it
asks for NumPy, SciPy's rotations, the reward functions and the base class, it gets those of `exact.py` and of this
file. Meta-World's own modules stay as they are, for everybody else in the process.
"""

from __future__ import annotations

import builtins
import importlib.util
import weakref
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from proctor.benchmarks.metaworld.exact import NUMPY, REWARD_UTILS, ROTATION, clip_elements, norm, tolerance
from proctor.benchmarks.metaworld.models import compiled_model


def run_again(module: str, imports: Mapping[str, Any]) -> dict[str, Any]:
    """Run a module's code a second time, with other values for some of what it imports; return its names."""

    def import_(name: str, scope: Any = None, inner: Any = None, names: Any = (), level: int = 0) -> Any:
        return imports[name] if name in imports else __import__(name, scope, inner, names, level)

    spec = importlib.util.find_spec(module)
    assert spec is not None
    code = spec.loader.get_code(module)  # type: ignore[union-attr]
    names = {"__name__": module, "__builtins__": {**vars(builtins), "__import__": import_}}
    exec(code, names)
    return names


_IMPORTS = {
    "numpy": NUMPY,
    "scipy.spatial.transform": SimpleNamespace(Rotation=ROTATION),
    "metaworld.utils": SimpleNamespace(reward_utils=REWARD_UTILS),
    "metaworld.utils.reward_utils": REWARD_UTILS,
}
_BASE = "metaworld.sawyer_xyz_env"
_base = run_again(_BASE, _IMPORTS)
_SawyerXYZEnv: Any = _base["SawyerXYZEnv"]

_POINTING_DOWN = (1.0, 0.0, 1.0, 0.0)
"""The quaternion of the hand, always."""

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
"""All that the next step of MuJoCo depends on."""


class Views(dict[str, Any]):
    """MuJoCo's views of bodies, say, by name: to look one up costs more than to read through it."""

    def __init__(self, find: Callable[[str], Any]) -> None:
        self._find = find

    def __missing__(self, name: str) -> Any:
        view = self[name] = self._find(name)
        return view


class NamedData(mujoco.MjData):  # type: ignore[misc]
    """MuJoCo's data that looks up its bodies, geoms, joints and sites in views which somebody else keeps.

    A view keeps its data alive, and no garbage collector can see that. If the data kept its views, neither would
    ever be freed.
    """

    def use(self, body: Views, geom: Views, joint: Views, site: Views) -> None:
        """Look names up in these, as long as they are kept."""
        self.body, self.geom, self.joint, self.site = map(_weakly, (body, geom, joint, site))


def _weakly(views: Views) -> Callable[[str], Any]:
    kept = weakref.ref(views)
    return lambda name: kept()[name]  # type: ignore[index]


class QuickSawyerEnv(_SawyerXYZEnv):  # type: ignore[misc]
    """The base of all tasks; every method does what the one that it replaces does."""

    class _Decorators:
        @staticmethod
        def assert_task_is_set(function: Callable[..., Any]) -> Callable[..., Any]:
            """`step` asks once, for all that it calls."""
            return function

    def _initialize_simulation(self) -> tuple[Any, Any]:
        model = compiled_model(Path(self.fullpath))
        shown = model.vis.global_
        shown.offwidth, shown.offheight = max(shown.offwidth, self.width), max(shown.offheight, self.height)
        data = NamedData(model)
        self._views = [Views(find) for find in (data.body, data.geom, data.joint, data.site)]
        data.use(*self._views)
        self._hand_layout = b""
        self._hand_rests = self._data_is_reset = False
        return model, data

    def step(self, action: Any) -> tuple[NDArray[np.float64], Any, bool, bool, dict[str, Any]]:
        """Move physics by one action.

        The markers of the goal are not put in their place between the two calls of MuJoCo, as the original does:
        the second call computes the places of all sites from the model anyway.
        """
        if (
            not self._set_task_called
            or self.curr_path_length >= self.max_path_length
            or self._did_see_sim_exception
            or len(action) != 4
        ):
            return super().step(action)  # type: ignore[no-any-return]
        self.set_xyz_action(action[:3])
        self.do_simulation((action[3], -action[3]), self.frame_skip)
        self.curr_path_length += 1
        mujoco.mj_forward(self.model, self.data)
        space = self.sawyer_observation_space
        self._last_stable_obs = obs = clip_elements(self._get_obs(), space.low, space.high)
        reward, info = self.evaluate_state(obs, action)
        return obs.copy(), reward, False, self.curr_path_length == self.max_path_length, info

    def set_xyz_action(self, action: NDArray[Any]) -> None:
        """Move the point that the hand is welded to."""
        data = self.data
        moved = data.mocap_pos[0] + clip_elements(action, -1, 1) * self.action_scale
        data.mocap_pos[0] = clip_elements(moved, self.mocap_low, self.mocap_high)
        data.mocap_quat[0] = _POINTING_DOWN

    def do_simulation(self, ctrl: Any, n_frames: int) -> None:
        """Let MuJoCo step. Forces inside bodies are left out: nobody reads them, and no motion comes of them."""
        self.data.ctrl[:] = ctrl
        mujoco.mj_step(self.model, self.data, nstep=n_frames)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Start an episode, from the generator that `seed()` sets.

        The original lays the task out twice, and forgets between the two where everything is. What stays of the
        first time are the numbers that it drew, and the places of bodies in the model, which come from these
        numbers: the hand need not move for them.
        """
        self.curr_path_length = 0
        self._hand_rests = True
        self.reset_model()
        self._hand_rests = False
        mujoco.mj_resetData(self.model, self.data)
        self._data_is_reset = True
        obs = self.reset_model()
        self._prev_obs = obs[:18].copy()
        obs[18:36] = self._prev_obs
        return obs, {}

    def _reset_hand(self, steps: int = 50) -> None:
        if self._hand_rests:
            self.init_tcp = self.tcp_center
        elif self._data_is_reset:
            self._data_is_reset = False
            self._move_hand(steps * self.frame_skip)
            self.init_tcp = self.tcp_center
        else:
            super()._reset_hand(steps)

    def _move_hand(self, frames: int) -> None:
        """Let the hand reach its place, from the state after `mj_resetData`.

        That depends on nothing but the places of bodies, and some tasks never move one: then the state one frame
        before the end is known. The last frame is always simulated, for all that MuJoCo derives from a state.
        """
        model, data = self.model, self.data
        layout = model.body_pos.tobytes()
        if layout != self._hand_layout:
            data.mocap_pos[0] = self.hand_init_pos
            data.mocap_quat[0] = _POINTING_DOWN
            self.do_simulation((-1, 1), frames - 1)
            self._hand_layout = layout
            self._hand_state = np.empty(mujoco.mj_stateSize(model, _STATE))
            mujoco.mj_getState(model, data, self._hand_state, _STATE)
        mujoco.mj_setState(model, data, self._hand_state, _STATE)
        mujoco.mj_step(model, data)

    def _get_obs(self) -> NDArray[np.float64]:
        goal = self._get_pos_goal()
        if self._partially_observable:
            goal = np.zeros_like(goal)
        current = self._get_curr_obs_combined_no_goal()
        obs = np.concatenate((current, self._prev_obs, goal))
        self._prev_obs = current
        return obs

    def _get_curr_obs_combined_no_goal(self) -> NDArray[np.float64]:
        data = self.data
        apart = norm(data.body("rightclaw").xpos - data.body("leftclaw").xpos)
        obs = np.zeros(4 + self._obs_obj_max_len)
        obs[:3] = data.body("hand").xpos
        obs[3] = min(float(apart) / 0.1, 1.0)  # a length is never below zero
        places, turns = self._get_pos_objects(), self._get_quat_objects()
        obs[4:7], obs[7:11] = places[:3], turns[:4]
        if len(places) > 3:
            obs[11:14], obs[14:18] = places[3:], turns[4:]
        return obs

    def touching_object(self, object_geom_id: int) -> bool:
        """Whether both pads press on an object."""
        data = self.data
        pads = data.geom("leftpad_geom").id, data.geom("rightpad_geom").id
        forces = [0.0, 0.0]
        contacts = data.contact
        for number, pair in enumerate(contacts.geom.tolist()):
            if object_geom_id in pair:
                for side in (0, 1):
                    if pads[side] in pair:
                        forces[side] += data.efc_force[contacts.efc_address[number]]
        return forces[0] > 0 and forces[1] > 0

    def _gripper_caging_reward(
        self,
        action: NDArray[Any],
        obj_pos: NDArray[np.float64],
        obj_radius: float,
        pad_success_thresh: float,
        object_reach_radius: float,
        xz_thresh: float,
        desired_gripper_effort: float = 1.0,
        high_density: bool = False,
        medium_density: bool = False,
    ) -> Any:
        """Reward a grasp: what the original does in arrays of two numbers, here number by number."""
        product = REWARD_UTILS.hamacher_product
        x, y, z = obj_pos.tolist()
        init_x, init_y, init_z = self.obj_init_pos.tolist()
        left, right = self.get_body_com("leftpad").item(1), self.get_body_com("rightpad").item(1)
        bounds = obj_radius, pad_success_thresh
        caging_y = product(
            tolerance(abs(left - y), bounds, abs(abs(left - init_y) - pad_success_thresh), "long_tail"),
            tolerance(abs(right - y), bounds, abs(abs(right - init_y) - pad_success_thresh), "long_tail"),
        )
        tcp = self.tcp_center
        tcp_x, _, tcp_z = tcp.tolist()
        init_tcp_x, _, init_tcp_z = self.init_tcp.tolist()
        caging_xz = tolerance(
            norm(np.array((tcp_x - x, tcp_z - z))),
            (0, xz_thresh),
            norm(np.array((init_x - init_tcp_x, init_z - init_tcp_z))) - xz_thresh,
            "long_tail",
        )
        gripper_closed = min(max(0, action[-1]), desired_gripper_effort) / desired_gripper_effort
        caging = product(caging_y, caging_xz)
        reward = product(caging, gripper_closed if caging > 0.97 else 0.0)
        if high_density:
            return (reward + caging) / 2
        if medium_density:
            margin = abs(norm(self.obj_init_pos - self.init_tcp) - object_reach_radius)
            reach = tolerance(norm(obj_pos - tcp), (0, object_reach_radius), margin, "long_tail")
            return (reward + reach) / 2
        return reward


@cache
def quick_class(stock: type) -> type:
    """Return the class of a task over the quick base."""
    base = SimpleNamespace(**{**_base, "SawyerXYZEnv": QuickSawyerEnv})
    built = run_again(stock.__module__, {**_IMPORTS, _BASE: base})[stock.__name__]
    assert isinstance(built, type)
    return built
