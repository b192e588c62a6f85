"""What `proctor autotune` found, for the terminal and for programs."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from proctor.report.console import count, duration
from proctor.tuning.advice import Advice, Choice, Forecast
from proctor.tuning.measure import Measurements, RenderProfile

_MOST_OTHERS = 4


def print_advice(console: Console, advice: Advice, command: str) -> None:
    """Print what was measured, what limits the run, the forecast and the command."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in [*_machine(advice.measured), *_work(advice.measured)]:
        table.add_row(name, Text(text))
    console.print(table)
    console.print()
    choices = Table(header_style="bold")
    for heading in ("workers", "batch", "policy", "drawing", "steps/s", "whole run"):
        choices.add_column(heading, justify="left" if heading in ("policy", "drawing") else "right", no_wrap=True)
    choices.add_row(*_cells(advice.best, advice.measured), style="bold green", end_section=True)
    for forecast in _instructive(advice):
        choices.add_row(*_cells(forecast, advice.measured))
    console.print(choices)
    for line in _verdict(advice):
        console.print(Text(line))
    console.print()
    console.print(Text(command, style="bold"), soft_wrap=True)


def _machine(m: Measurements) -> list[tuple[str, str]]:
    lines = [("machine", f"{count(m.machine.cores, 'core')}, {_gib(m.machine.memory)} free")]
    for gpu in m.machine.gpus:
        lines.append(("GPU", f"{gpu.name}, {_gib(gpu.memory - gpu.used)} of {_gib(gpu.memory)} free"))
    return lines


def _work(m: Measurements) -> list[tuple[str, str]]:
    policy, alone = m.policy, m.alone
    lines = [
        (
            "simulating",
            f"{_ms(m.renders[0].alone.step)} a step, {_ms(m.renders[0].together.step)} with all at work",
        ),
        *[("drawing", _drawing(render)) for render in m.renders if render.alone.draws],
        ("policy", f"asked every {alone.chunk:.3g} steps, answers after {_ms(alone.wait)}")
        if policy.is_given
        else ("policy", "none was given; what follows is for one that looks at every step and takes no time"),
    ]
    if policy.load:
        memory = f", {_gib(policy.gpu_memory)} of the GPU" if policy.gpu_memory else ""
        lines.append(("", f"loaded in {policy.load:.0f} s{memory}; {count(policy.spec.lanes, 'lane')}"))
    for one in policy.passes:
        lines.append(
            ("", f"a pass of {count(one.rows, 'row')}: {_ms(one.alone)} alone, one every {_ms(one.busy)} at best")
        )
    loaded = next((one for one in policy.passes if one.rows == policy.spec.batch), None)
    if loaded is not None:
        crossing = alone.wait - loaded.alone
        words = f"{_ms(crossing)} there and back" if crossing > 0 else "too little to measure beside a pass"
        lines.append(("transport", words))
    lines.append(("worker", f"{m.worker_start:.1f} s to its first step, {_gib(m.worker_memory)}"))
    return lines


def _drawing(render: RenderProfile) -> str:
    renderer = render.renderer
    name = f"{renderer.backend} ({renderer.name})" if renderer is not None else "the benchmark's own"
    text = f"{name}: {1 / render.alone.draw:.3g} frames/s alone"
    if render.together.workers > render.alone.workers:
        # What the drawing itself reaches; between frames, workers also simulate.
        rate = render.together.workers / render.together.draw
        text += f", {rate:.3g} by {count(render.together.workers, 'worker')}"
    return text


def _cells(forecast: Forecast, m: Measurements) -> list[str]:
    choice = forecast.choice
    renderer = m.renders[choice.renderer].renderer
    return [
        str(choice.workers),
        str(choice.rows),
        {"central": "own process", "worker": "in the workers"}[choice.placement] if m.policy.is_given else "–",
        renderer.backend if renderer is not None else "–",
        _rate(forecast.steps_per_second),
        duration(forecast.seconds),
    ]


def _instructive(advice: Advice) -> list[Forecast]:
    """Return the choices that differ from the best in one thing, the quickest first."""
    best = advice.best.choice

    def distance(choice: Choice) -> int:
        return sum(a != b for a, b in zip(choice, best, strict=True))

    near = [forecast for forecast in advice.others if distance(forecast.choice) == 1]
    return sorted(near, key=lambda forecast: forecast.seconds)[:_MOST_OTHERS]


def _verdict(advice: Advice) -> list[str]:
    best = advice.best
    parts = ", ".join(
        f"{use} {100 * share:.0f} %"
        for resource, use, share in best.shares
        if resource == best.limit and (use != "policy" or advice.measured.policy.is_given)
    )
    rate = advice.trial.asks_per_second * advice.trial.chunk
    lines = [
        f"limit: the {best.limit} ({parts})",
        f"tried: {count(advice.trial.workers, 'worker')} reached {_rate(rate)} steps/s, "
        f"{advice.correction:.2f} of what the model says; the figures above are corrected by that.",
        f"prediction: {_rate(best.steps_per_second)} steps/s; {count(advice.episodes, 'episode')} in "
        f"{duration(best.seconds)} if each lasts to its step limit.",
        "shards: one process uses all of this machine."
        if advice.shards == 1
        else f"shards: {advice.shards}, so that every GPU draws and answers for itself; workers are per shard.",
    ]
    if "policy.batch_size" in advice.flags:
        lines.append("The batch is part of the result: keep it for every run that you compare.")
    return lines


def advice_as_json(advice: Advice, command: str) -> str:
    """Return everything as one JSON document."""
    m = advice.measured
    document: dict[str, Any] = {
        "machine": dataclasses.asdict(m.machine) | {"gpus": [gpu._asdict() for gpu in m.machine.gpus]},
        "policy": {
            "batch": m.policy.spec.batch,
            "lanes": m.policy.spec.lanes,
            "load_s": m.policy.load,
            "gpu_memory": m.policy.gpu_memory,
            "passes": [one._asdict() for one in m.policy.passes],
        }
        if m.policy.is_given
        else None,
        "worker": {"start_s": m.worker_start, "memory": m.worker_memory},
        "one_worker": dataclasses.asdict(m.alone),
        "drawing": [
            {
                "backend": render.renderer and render.renderer.backend,
                "renderer": render.renderer and render.renderer.name,
                "alone": dataclasses.asdict(render.alone),
                "together": dataclasses.asdict(render.together),
            }
            for render in m.renders
        ],
        "trial": dataclasses.asdict(advice.trial) | {"over_model": advice.correction},
        "choices": [_plain(forecast, m) for forecast in (advice.best, *advice.others)],
        "shards": advice.shards,
        "flags": advice.flags,
        "environment": advice.environment,
        "command": command,
    }
    return json.dumps(document, indent=2)


def _plain(forecast: Forecast, m: Measurements) -> dict[str, Any]:
    renderer = m.renders[forecast.choice.renderer].renderer
    return forecast.choice._asdict() | {
        "renderer": renderer and renderer.backend,
        "steps_per_second": forecast.steps_per_second,
        "seconds": forecast.seconds,
        "limit": forecast.limit,
    }


def _rate(value: float) -> str:
    """Return a number as people read it.

    >>> _rate(2163.4), _rate(9.432)
    ('2,163', '9.43')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
