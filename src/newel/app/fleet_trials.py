"""Composes the trials of evaluations on a worker: an agent with the model and the sandbox of this machine for each."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec

from newel.agent.errors import ConfigError, ConnectionFailed, ProviderError

if TYPE_CHECKING:
    from newel.config.settings import Settings
    from newel.evals.task import Task
    from newel.evals.trial import AgentSetup, OpenAgent, TrialResult
    from newel.fleet.engine import FleetEngine
    from newel.fleet.eval_job import EvalTrialJob
    from newel.fleet.eval_runner import EvalTrialRunner


def trial_runner(settings: Settings, engine: FleetEngine) -> EvalTrialRunner:
    """What makes trials on a worker with these settings."""
    from newel.fleet.eval_runner import EvalTrialRunner

    return EvalTrialRunner(
        engine, settings.home / "fleet" / "trials", TrialMaker(settings).make, secrets_mask(settings)
    )


class TrialMaker:
    """Makes trials with the model server, the key and the sandbox of the settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._served: set[str] = set()

    async def make(self, job: EvalTrialJob, task: Task, place: Path) -> TrialResult:
        """See ``newel.fleet.eval_runner.MakeTrial``."""
        from newel.app.evals import allow_agents, check_folder_opener, newel_opener, with_server
        from newel.evals.trial import invalid, run_trial

        settings = msgspec.structs.replace(
            self._settings,
            model=job.model,
            thinking=job.thinking,
            tool_calls=job.tool_calls,
            agent_mode="remote",
        )
        try:
            allow_agents()
            open_folder = await anyio.to_thread.run_sync(check_folder_opener, settings)
            settings = await with_server(settings)
            await self._check_model(settings, job.model)
        except ConfigError as error:
            return invalid(task, job.repeat, str(error))
        open_agent = partial(_without_task, newel_opener(settings))
        return await run_trial(task, job.repeat, place, open_agent=open_agent, open_folder=open_folder)

    async def _check_model(self, settings: Settings, name: str) -> None:
        """Raises ``ConfigError`` if the server has no such model, which would count as a failure of the agent, and ``ModelUnavailable``."""
        from newel.app.model_resolver import OpenServers, expanded_name, find_endpoint
        from newel.app.model_trial import try_model
        from newel.fleet.eval_runner import ModelUnavailable
        from newel.text.sanitize import redact_url

        if name in self._served:
            return
        endpoint = await find_endpoint(settings)
        async with AsyncExitStack() as stack:
            server = OpenServers(settings, stack).at(endpoint)
            try:
                names = await server.models()
            except ProviderError as error:
                if error.retryable or isinstance(error, ConnectionFailed):
                    raise ModelUnavailable(str(error)) from error
                names = []  # some have no list
            name_there = expanded_name(settings.models, name, names)
            if name_there not in names:
                tried = await try_model(endpoint, server, name_there)
                if tried.works is False:
                    raise ConfigError(
                        f"The model server of this worker, {redact_url(endpoint.base_url)}, does not serve {name}: {tried.message}"
                    )
        self._served.add(name)


@asynccontextmanager
async def _without_task(open_agent: OpenAgent, task: Task, place: Path) -> AsyncGenerator[AgentSetup]:
    """The agent, in whose time there is nothing on disk of how its result is checked."""
    from newel.storage.folder_removal import remove_folder

    async with open_agent(task, place) as agent:
        await anyio.to_thread.run_sync(remove_folder, task.folder)
        yield agent


def secrets_mask(settings: Settings) -> Callable[[bytes], bytes]:
    """Replaces the secrets of this machine's settings and environment by as many stars: files keep their form."""
    from newel.app.secrets import configured_secrets
    from newel.config.fleet import ENGINE, STORE
    from newel.session.masking import spellings

    secrets = configured_secrets(settings.home, settings.cwd, os.environ)
    secrets += [os.environ.get(ENGINE), settings.engine.url, os.environ.get(STORE), settings.fleet.store]
    values = [os.fsencode(spelling) for spelling in spellings([secret for secret in secrets if secret])]

    def mask(data: bytes) -> bytes:
        for value in values:
            data = data.replace(value, b"*" * len(value))
        return data

    return mask
