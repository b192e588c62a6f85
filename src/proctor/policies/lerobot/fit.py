"""Whether a checkpoint's inputs fit what a benchmark gives, and the rename that would make them fit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from proctor.errors import UsageError
from proctor.types import BenchmarkSpec, Feature

_TOLERATES_MISSING = "empty_cameras"
"""Configs with this field belong to policies that do without a camera they were trained with."""

_RESIZES = (
    "resize_imgs_with_padding",
    "resize_shape",
    "resize_images_to",
    "image_resize_shape",
    "image_resolution",
)
"""Config fields of policies that bring every image to a size of their own."""


def match_inputs(
    config: Any, benchmark: BenchmarkSpec, sources: Mapping[str, str]
) -> tuple[tuple[str, ...], list[str]]:
    """Return the benchmark's keys that the policy looks at, and what the user should know.

    Args:
        config: the checkpoint's config, with `input_features`.
        benchmark: what the benchmark gives, under the names that `--rename_map` chose.
        sources: the benchmark's name for inputs that the checkpoint's own first step renames.
    """
    wanted = dict(config.input_features or {})
    given = benchmark.every
    missing = [key for key in wanted if sources.get(key, key) not in given]
    notes = []
    if missing:
        spare = _may_be_absent(config, wanted, missing)
        if not spare:
            raise UsageError(_no_such(wanted, missing, benchmark, sources))
        notes.append(f"the policy does without {', '.join(missing)}, which {benchmark.name} does not give")
    wrong = [
        key
        for key, feature in wanted.items()
        if key not in missing and not _same_shape(feature, given[sources.get(key, key)], config)
    ]
    if wrong:
        raise UsageError(_wrong_shape(wanted, wrong, benchmark, sources))
    return tuple(sources.get(key, key) for key in wanted if key not in missing), notes


def _is_image(feature: Any) -> bool:
    return bool(getattr(feature.type, "value", feature.type) == "VISUAL")


def _may_be_absent(config: Any, wanted: Mapping[str, Any], missing: Sequence[str]) -> bool:
    images = [key for key, feature in wanted.items() if _is_image(feature)]
    return (
        hasattr(config, _TOLERATES_MISSING)
        and all(_is_image(wanted[key]) for key in missing)
        and len(images) > len(missing)
    )


def _same_shape(wanted: Any, given: Feature, config: Any) -> bool:
    if _is_image(wanted) != given.drawn:
        return False
    if not _is_image(wanted):
        return tuple(wanted.shape) == given.shape
    channels, height, width = wanted.shape
    if any(getattr(config, name, None) is not None for name in _RESIZES):
        return bool(given.shape[2] == channels)
    return (height, width, channels) == given.shape


def _no_such(
    wanted: Mapping[str, Any], missing: Sequence[str], benchmark: BenchmarkSpec, sources: Mapping[str, str]
) -> str:
    used = {sources.get(key, key) for key in wanted if key not in missing}
    free = {key: feature for key, feature in benchmark.features.items() if key not in used}
    fitting = _pair_up({key: wanted[key] for key in missing}, free)
    hint = f" A rename that fits: --rename_map='{json.dumps(fitting)}'." if len(fitting) == len(missing) else ""
    return (
        f"the checkpoint looks at {_list(wanted)}; {benchmark.name} gives {_list(benchmark.features)}. "
        f"Missing: {', '.join(missing)}.{hint}"
    )


def _pair_up(missing: Mapping[str, Any], free: dict[str, Feature]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for key, feature in missing.items():
        for name, given in free.items():
            alike = given.drawn if _is_image(feature) else given.shape == tuple(feature.shape)
            if name not in pairs and alike:
                pairs[name] = key
                break
    return pairs


def _wrong_shape(
    wanted: Mapping[str, Any], wrong: Sequence[str], benchmark: BenchmarkSpec, sources: Mapping[str, str]
) -> str:
    key = wrong[0]
    shape, given = tuple(wanted[key].shape), benchmark.every[sources.get(key, key)].shape
    hint = ""
    if _is_image(wanted[key]) and len(shape) == 3:
        hint = f" Try --env.observation_height={shape[1]} --env.observation_width={shape[2]}."
    return (
        f"the checkpoint was trained on {key} of shape {shape}, {benchmark.name} gives {given} "
        f"(the checkpoint looks at {_list(wanted)}; {benchmark.name} gives {_list(benchmark.features)}).{hint}"
    )


def _list(features: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {tuple(feature.shape)}" for key, feature in features.items()) or "nothing"
