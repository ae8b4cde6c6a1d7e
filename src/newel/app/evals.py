"""Composes a run of the evaluation suite from the settings."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from newel.agent.errors import UsageError
from newel.evals.run import REPLAY
from newel.evals.trial import PROJECT, AgentSetup
from newel.text.sanitize import redact_url

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.evals.agents import GivenModel, PriceOf
    from newel.evals.checks import OpenFolder
    from newel.evals.golden import GoldenTrace
    from newel.evals.record import TraceRecorder
    from newel.evals.run import RunPlan
    from newel.evals.task import Task
    from newel.evals.trial import OpenAgent
    from newel.workspace.port import Workspace
    from newel.workspace.sandbox.policy import SandboxMode


def check_folder_opener(settings: Settings) -> OpenFolder:
    """Opens the folder of a trial for its checks, which run what an agent wrote: in the sandbox of the settings. Raises ``ConfigError`` if
    it does not hold here.
    """
    from newel.app.sandbox_choice import choose_sandbox

    chosen = choose_sandbox(settings, attended=False)

    @asynccontextmanager
    async def open_folder(folder: Path) -> AsyncGenerator[Workspace]:
        from newel.app.agent_place import open_agent_place
        from newel.workspace.process.output import OutputLimits

        there = msgspec.structs.replace(chosen, cwd=folder)
        async with open_agent_place(there, attended=False) as place:
            yield place.host.workspace(str(folder), OutputLimits())

    return open_folder


def allow_agents() -> None:
    """Let the agents that this process starts run without questions. Raises ``UsageError`` if an agent with fewer rights has started this
    process.
    """
    from newel.permissions.nested import enter

    enter("auto", attended=False)


def agent_opener(settings: Settings, plan: RunPlan) -> OpenAgent:
    """Opens the agent of a plan. Raises ``UsageError`` for another agent that is not installed, or that cannot use
    the model.
    """
    if plan.preset:
        preset_setup = _preset_setup(settings, plan)
        return lambda _, __: nullcontext(preset_setup)
    if plan.mode == REPLAY:
        from newel.evals.golden import load_trace

        return replay_opener(settings, plan.flags, load_trace)
    setup = AgentSetup(
        flags=plan.flags,
        command=plan.command,
        environ=_keys(settings),
        config=plan.config,
        model=plan.model,
    )
    if plan.command:
        return lambda _, __: nullcontext(setup)
    return _opener_of(settings, setup)


def newel_opener(settings: Settings) -> OpenAgent:
    """Opens Newel with the model of the settings. Raises ``UsageError``, see ``trial_config``."""
    flags, config = newel_flags(settings, is_replay=False), trial_config(settings)
    return _opener_of(
        settings,
        AgentSetup(flags=flags, environ=_keys(settings), config=config, model=settings.model or ""),
    )


def _opener_of(settings: Settings, setup: AgentSetup) -> OpenAgent:
    return partial(_open_at_project, settings, lambda _, __: nullcontext(setup))


def replay_opener(settings: Settings, flags: Sequence[str], load: Callable[[Task], GoldenTrace]) -> OpenAgent:
    """Opens Newel with the answers of traces in place of a model's."""
    from newel.evals.replay import replaying

    return partial(_open_at_project, settings, partial(replaying, flags=flags, load=load))


@asynccontextmanager
async def _open_at_project(
    settings: Settings, open_newel: OpenAgent, task: Task, place: Path
) -> AsyncGenerator[AgentSetup]:
    """Newel, started in the project, or elsewhere and with ``--host``. Raises ``TaskError`` for a host that cannot be
    made, and what ``place_on`` raises for one that Newel could not work on: it would count as a failure of the agent.
    """
    async with open_newel(task, place) as newel:
        agent = msgspec.structs.replace(newel, closed=_closed_places(settings, place))
        if task.host is None:
            yield agent
            return
        from newel.app.agent_place import place_on
        from newel.app.hosts import SSH_CONFIG
        from newel.evals.host import LOCAL, make_host
        from newel.workspace.ssh.connection import connected
        from newel.workspace.ssh.target import Target

        host = await make_host(task.host, place, place / PROJECT)
        async with connected(Target.parse(host.address), config=str(host.config)) as connection:
            if settings.sandbox.mode != "off":
                unasked = msgspec.structs.replace(settings, approve="auto")
                await place_on(connection, unasked, attended=False)
        yield msgspec.structs.replace(
            agent,
            flags=[*agent.flags, "--host", host.address, "--through", "api"],
            environ={**agent.environ, SSH_CONFIG: str(host.config)},
            folder=LOCAL,
        )


def _closed_places(settings: Settings, place: Path) -> list[str]:
    """What Newel must not read in a trial, whose home is another one than the user's: the user's keys, and in Newel's own folder all but
    the trial.
    """
    from newel.permissions.secret_paths import existing_secret_places

    real, home = place.resolve(), Path.home().resolve()
    newel = settings.home.resolve()
    closed = [
        text
        for text in existing_secret_places(str(home), str(newel))
        if Path(text).is_relative_to(home) and not real.is_relative_to(text)
    ]
    for level in (newel, newel / "fleet"):
        if real.is_relative_to(level):
            closed += [str(each) for each in level.iterdir() if not real.is_relative_to(each)]
    return [path for path in closed if not re.search(r"[()\n]", path)]  # which rules cannot name


def _preset_setup(settings: Settings, plan: RunPlan) -> AgentSetup:
    from newel.app.model_resolver import real_name
    from newel.evals.agents import choose_agent, given_model

    preset, endpoint = choose_agent(plan.preset), settings.endpoint
    if settings.agent_mode != "remote":
        raise UsageError("--agent-mode is for Newel itself, not for --agent.")
    if preset is None or endpoint is None or not plan.model:
        raise UsageError(
            f"{plan.preset} needs a model and its server: `--model NAME --base-url URL`, or in config.toml."
        )
    if endpoint.base_url != plan.base_url:
        raise UsageError(
            f"The run asks {redact_url(plan.base_url)}, and the settings name {redact_url(endpoint.base_url)}. Add `--base-url {redact_url(plan.base_url)}`."
        )
    model = real_name(settings.models, plan.model)
    given = given_model(endpoint.base_url, endpoint.api, model, endpoint.api_key)
    return preset.setup(given, _price_of(settings, given))


def _price_of(settings: Settings, given: GivenModel) -> PriceOf:
    """The price of a response, as for Newel itself."""
    from newel.agent.messages import AssistantMessage
    from newel.providers.pricing import price_list_for

    facts = settings.models.get(given.model)
    if facts and (rates := facts.rates):
        return rates.cost
    prices = price_list_for(given.base_url)
    if prices is None:
        return lambda _: None
    return lambda usage: prices(AssistantMessage(content=[], model=given.model, usage=usage))


def recording(settings: Settings) -> TraceRecorder:
    """Makes golden traces without the user's secrets and folders."""
    from newel.app.secrets import configured_secrets
    from newel.evals.record import TraceRecorder

    secrets = configured_secrets(settings.home, settings.cwd, os.environ)
    return TraceRecorder(secrets, [settings.home, Path.home()])


def sandbox_of(plan: RunPlan) -> SandboxMode | None:
    """The sandbox that was chosen for a run."""
    from newel.workspace.sandbox.policy import SandboxMode

    given = dict(pairwise(plan.flags)).get("--sandbox")
    return None if given is None else msgspec.convert(given, SandboxMode)


async def with_server(settings: Settings) -> Settings:
    """The settings with the server that Newel would use, also one that it finds. Raises ``NoModelConfigured`` if there is none: each trial
    would count as a failure of the agent.
    """
    if settings.agent_mode == "local":
        return settings
    from newel.app.model_resolver import find_endpoint

    return msgspec.structs.replace(settings, endpoint=await find_endpoint(settings))


def newel_flags(settings: Settings, *, is_replay: bool) -> list[str]:
    """The flags of Newel for the model and the sandbox of the settings. Without a model for a replay."""
    flags: list[str] = ["--sandbox", settings.sandbox.mode] if settings.sandbox.mode else []
    if is_replay:
        return flags
    endpoint = settings.endpoint
    options = {
        "--base-url": endpoint and endpoint.base_url,
        "--api": endpoint and endpoint.api,
        "--model": settings.model,
        "--agent-mode": settings.agent_mode,
        "--tool-calls": settings.tool_calls,
        "--thinking": settings.thinking,
    }
    for name, value in options.items():
        flags += [name, value] if value else []
    return flags


def trial_config(settings: Settings) -> dict[str, dict[str, Any]]:
    """What the user's settings tell of models: without prices there would be no costs, and without addresses no local model. Raises
    ``UsageError`` for a key that would be written to the folders of trials.
    """
    config: dict[str, dict[str, Any]] = {}
    if models := {name: _known(facts) for name, facts in settings.models.items()}:
        config["models"] = models
    if settings.agent_mode == "remote":
        return config
    if settings.local.api_key:
        raise UsageError(
            "The key of [local] in config.toml is not given to trials, as it would be written to their folders. Measure this model with `--base-url` and `--api-key`."
        )
    config["local"] = _known(settings.local)
    config["hybrid"] = {
        name: 0 if limit is None else limit  # as it is written in config.toml
        for name, limit in msgspec.structs.asdict(settings.routing).items()
    }
    return config


def _known(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(struct).items() if value is not None}


def _keys(settings: Settings) -> dict[str, str]:
    """The server's key goes by the environment, where other users cannot see it."""
    endpoint = settings.endpoint
    return {"LLM_AUTH_TOKEN": endpoint.api_key} if endpoint and endpoint.api_key else {}
