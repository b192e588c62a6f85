"""The fields of LeRobot's configs, as they were in the version named here: a test compares them with that version.

What is in none of these tables, and no setting of Proctor's, is unknown and refused.
"""

from __future__ import annotations

VERSION = "0.6.1"

PRETRAINED_MODEL, TRAIN_CONFIG = "pretrained_model", "train_config.json"
"""In a checkpoint: the folder of the policy, and the training's settings in it."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


EVALUATION = _names("env eval policy output_dir job_name seed rename_map trust_remote_code")
"""Of `lerobot-eval`, at the top."""

TRAINING = _names("""
    batch_size checkpoint_path cudnn_deterministic dataloader_multiprocessing_context dataset env_eval_freq
    eval_steps job log_freq max_eval_samples num_workers optimizer peft persistent_workers prefetch_factor resume
    reward_model sample_weighting save_checkpoint save_checkpoint_to_hub save_freq scheduler steps tolerance_s
    use_policy_training_preset wandb
""")
"""Of `lerobot-train` alone, at the top."""

TRAINING_ELSEWHERE = _names("""
    accelerator checkpoint_format ema eval_freq parallelism rabc_epsilon rabc_head_mode rabc_kappa
    rabc_progress_path use_rabc
""")
"""The same in other versions, from 0.3 to what came after."""

_EVERY_ENV = _names("""
    task fps features features_map max_parallel_tasks disable_env_checker episode_length obs_type render_mode
""")
_SIZE = _names("observation_height observation_width")

ENVS = {
    "aloha": _EVERY_ENV | _SIZE,
    "libero": _EVERY_ENV
    | _SIZE
    | _names("task_ids camera_name camera_name_mapping control_mode init_states hard_reset is_libero_plus"),
    "metaworld": _EVERY_ENV | {"multitask_eval"},
    "pusht": _EVERY_ENV | _SIZE | _names("visualization_height visualization_width"),
}
"""Of the environments that Proctor has too."""

_STATE, _IMAGE, _IMAGES = "observation.state", "observation.image", "observation.images"

FEATURES_MAPS = {
    "aloha": {"action": "action", "agent_pos": _STATE, "top": f"{_IMAGE}.top", "pixels/top": f"{_IMAGES}.top"},
    "libero": {
        "action": "action",
        "robot_state/eef/pos": f"{_STATE}.eef_pos",
        "robot_state/eef/quat": f"{_STATE}.eef_quat",
        "robot_state/eef/mat": f"{_STATE}.eef_mat",
        "robot_state/gripper/qpos": f"{_STATE}.gripper_qpos",
        "robot_state/gripper/qvel": f"{_STATE}.gripper_qvel",
        "robot_state/joints/pos": f"{_STATE}.joint_pos",
        "robot_state/joints/vel": f"{_STATE}.joint_vel",
        "pixels/agentview_image": f"{_IMAGES}.image",
        "pixels/robot0_eye_in_hand_image": f"{_IMAGES}.image2",
    },
    "metaworld": {"action": "action", "agent_pos": _STATE, "top": _IMAGE, "pixels/top": _IMAGE},
    "pusht": {
        "action": "action",
        "agent_pos": _STATE,
        "environment_state": "observation.environment_state",
        "pixels": _IMAGE,
    },
}
"""The names that LeRobot gives an environment's observations: those that the benchmarks here have too."""

IGNORED = {
    "aloha": ("observation_height", "observation_width"),
    "metaworld": ("episode_length",),
    "pusht": ("observation_height", "observation_width"),
}
"""What LeRobot writes into every config of an environment, and what its simulator does not follow."""

POLICIES = _names("""
    act diffusion eo1 evo1 fastwam gaussian_actor groot lingbot_va molmoact2 multi_task_dit pi0 pi05 pi0_fast
    smolvla tdmpc vla_jepa vqbet wall_x xvla
""")
"""Types of networks."""
