"""`proctor serve`: offer a policy to others over openpi's protocol."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from proctor.blame import users_code
from proctor.cli.command import Given, RunCommand
from proctor.cli.unforeseen import say
from proctor.config.help import section_tables
from proctor.config.load import build_settings
from proctor.config.registry import benchmark_path, load_object, policy_path
from proctor.config.settings import MOST_PORT, AtLeast, AtMost, Settings
from proctor.errors import UsageError
from proctor.identity import policy_code, policy_identity
from proctor.machine.addresses import LOCAL
from proctor.machine.versions import cpu_kind, interpreter_versions, numeric_environment, own_hash_seed
from proctor.report.console import PatientConsole

if TYPE_CHECKING:
    from proctor.benchmarks.facts import BenchmarkFacts
    from proctor.benchmarks.protocol import Benchmark
    from proctor.policies.protocol import Policy, PolicySpec
    from proctor.types import BenchmarkSpec, Task

_WORDS = """Offer a policy to others over openpi's protocol.

usage: proctor serve --policy.path=POLICY --env.type=BENCHMARK [flags]

  proctor serve --policy.path=my_policy.py:MyPolicy --env.type=metaworld --port=8000
  proctor eval --policy.path=ws://127.0.0.1:8000 --env.type=metaworld --env.task=easy

The benchmark says which observations and actions there are; its simulator need not be installed here.
GET /healthz answers OK. Ctrl-C stops the server."""

_OF_A_RUN = ("policy", "env", "rename_map", "trust_remote_code", "config_path")


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """The flags of `proctor serve` besides the policy's and the benchmark's."""

    host: Annotated[str, "address to listen on; 0.0.0.0: reachable from everywhere, without any password"] = (
        "127.0.0.1"
    )
    port: Annotated[int, AtLeast(0), AtMost(MOST_PORT), "port to listen on; 0: a free one, which is printed"] = (
        8000
    )
    max_message_mb: Annotated[int, AtLeast(1), AtMost(16_384), "largest message that is taken, in MiB"] = 64
    allow_origin: Annotated[
        str, "web pages that may use it, a comma list of scheme://host:port; a robot's client needs none [no page]"
    ] = ""
    queue: Annotated[int, AtLeast(1), "questions that may wait; one more gets an error"] = 256


def _serve(given: Given[ServeSettings]) -> int:
    # The engine and the server: `--help` does without.
    from proctor.benchmarks.facts import asking, learn, make_benchmark
    from proctor.benchmarks.processors import spec_behind
    from proctor.engine.policy_session import check_fit
    from proctor.engine.process import be_steady
    from proctor.policies.remote.handshake import metadata_of
    from proctor.serve.batcher import Batcher
    from proctor.serve.server import Endpoint, WebsocketServer
    from proctor.serve.session import PolicyNeeds

    own, settings = given.own, build_settings(given.tree)
    if settings.passed_over_note is not None:
        say(settings.passed_over_note)
    if settings.policy.python is not None:
        python = settings.policy.python
        raise UsageError(f"--policy.python: run the server with it instead: {python} -m proctor serve ...")
    be_steady()
    path = benchmark_path(settings.env.type)
    benchmark = make_benchmark(path, settings.env)
    # A machine that serves a policy needs no simulator, unless only that knows its spaces.
    source = learn(path, settings.env) if benchmark.opens_to_tell else benchmark
    with asking(settings.env):
        spec = spec_behind(benchmark.get_env_processors(), source.spec).renamed(settings.rename_map)
        tasks = _tasks(source) if settings.env.task else ()
    code = policy_code(policy_path(settings.policy.type), settings.policy)
    policy = _load(settings, spec)
    check_fit(policy.spec, spec)
    if policy.spec.env_processors is not None:
        raise UsageError(
            "the policy names environment processors, which run beside a simulator: serve it without."
        )
    server = WebsocketServer(
        Batcher(policy, spec.action_size, own.queue),
        PolicyNeeds.of(policy.spec, spec, tasks),
        metadata_of(policy.spec, spec.name, _identity(code, policy.spec)),
        Endpoint(own.host, own.port, own.max_message_mb << 20, _origins(own.allow_origin)),
    )
    name = settings.policy.path or settings.policy.type

    def announce(address: str) -> None:
        console = PatientConsole()
        if own.host not in LOCAL:
            console.print(Text("whoever can reach this address can use the policy", style="yellow"))
        text = f"serving {name} for {spec.name} at {address} (Ctrl-C stops)"
        console.print(Text(text), soft_wrap=True)
        steps = len(policy.spec.observation_offsets)
        if steps > 1:
            words = f"the policy looks at {steps} steps: a client that does not say which it sends is refused"
            console.print(Text(words, style="yellow"), soft_wrap=True)

    return server.run(announce)


serve_command = RunCommand("serve", _serve, _WORDS, ("Server", ServeSettings), section_tables, _OF_A_RUN)


def _identity(code: dict[str, Any], spec: PolicySpec) -> dict[str, Any]:
    """Return all that the answers depend on here, for clients that come back."""
    here = {"versions": interpreter_versions(), "environment": numeric_environment(), "hash_seed": own_hash_seed()}
    return {**policy_identity(code, spec), **cpu_kind(), **here}


def _origins(text: str) -> tuple[str, ...]:
    origins = tuple(origin.strip().rstrip("/").lower() for origin in text.split(",") if origin.strip())
    for origin in origins:
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s]+", origin):
            raise UsageError(
                f"--allow-origin={origin}: expected scheme://host:port, such as http://localhost:3000."
            )
    return origins


def _tasks(source: BenchmarkFacts | Benchmark) -> Sequence[Task]:
    from proctor.benchmarks.facts import BenchmarkFacts

    return source.tasks if isinstance(source, BenchmarkFacts) else source.tasks()


def _load(settings: Settings, spec: BenchmarkSpec) -> Policy:
    policy_class: type[Policy] = load_object(policy_path(settings.policy.type))
    with users_code("the policy could not be loaded"):
        return policy_class.from_settings(settings.policy, spec)
