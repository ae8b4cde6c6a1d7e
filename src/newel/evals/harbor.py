"""Newel as an agent of Harbor, which runs Terminal-Bench, SWE-bench and other suites.

Harbor alone loads this module, by ``--agent newel.evals.harbor:NewelAgent``: it is no dependency of Newel, and nothing in
Newel imports it. ``docs/evals.md`` shows more.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from newel.evals.harbor_run import (
    API_OF_FORMAT,
    EVENTS,
    INSTALLED,
    install_command,
    model_environ,
    own_wheel,
    read_totals,
    run_command,
)

if TYPE_CHECKING:  # what is used of Harbor, which is not installed where types are checked
    from collections.abc import Callable, Mapping
    from pathlib import PurePosixPath
    from typing import Protocol, TypeVar

    _Run = TypeVar("_Run", bound=Callable[..., object])

    class HarborEnvironment(Protocol):
        async def upload_file(self, source_path: Path, target_path: str) -> None: ...

    class HarborContext(Protocol):
        n_input_tokens: int | None
        n_cache_tokens: int | None
        n_output_tokens: int | None
        cost_usd: float | None

    class HarborConnection(Protocol):
        env: Mapping[str, str]
        model_id: str | None
        model_api_format: str | None

    class BaseInstalledAgent:
        logs_dir: Path
        environment_logs_dir: PurePosixPath
        model_name: str | None
        model_connection: HarborConnection

        def __init__(self, logs_dir: Path, **options: Any) -> None: ...
        def _get_env(self, key: str, /) -> str | None: ...
        async def exec_as_agent(
            self, environment: HarborEnvironment, command: str, env: dict[str, str] | None = None
        ) -> object: ...

    class AgentCapabilities:
        def __init__(self, **abilities: bool) -> None: ...

    class ProviderAccess:
        def __init__(self, **names: list[str]) -> None: ...

    class ModelConnectionSpec:
        def __init__(self, **fields: object) -> None: ...

    class ModelApiFormat(str):
        __slots__ = ()

    def with_prompt_template(run: _Run, /) -> _Run: ...
else:
    from harbor.agents.agent_auth_resolution import ModelConnectionSpec, ProviderAccess
    from harbor.agents.capabilities import AgentCapabilities
    from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
    from harbor.models.model_api_format import ModelApiFormat


class NewelAgent(BaseInstalledAgent):
    """Installs Newel in the environment of a task, and runs it there. ``wheel`` is the path of one on this machine;
    by default, it is the one in ``NEWEL_WHEEL``, or that from which this class is loaded, or else the release
    ``version`` of PyPI. ``flags`` are further options of ``newel``.
    """

    capabilities = AgentCapabilities(base_url=True, reasoning_effort=True)
    MODEL_CONNECTION = ModelConnectionSpec(
        inject_default_base_url=True,
        agent_provider_access=ProviderAccess(
            api_key_candidate_names=["LLM_AUTH_TOKEN"], base_url_candidate_names=["LLM_BASE_URL"]
        ),
        api_key_destination_names={"default": "LLM_AUTH_TOKEN"},
        base_url_destination_names={"default": "LLM_BASE_URL"},
        supported_api_formats=[ModelApiFormat(name) for name in API_OF_FORMAT],
        default_api_format_by_provider={
            "anthropic": ModelApiFormat("anthropic_messages"),
            "gemini": ModelApiFormat("google_generate_content"),
        },
    )

    def __init__(
        self,
        logs_dir: Path,
        wheel: str | None = None,
        flags: str = "",
        reasoning_effort: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(logs_dir, **options)
        named = wheel or self._get_env("NEWEL_WHEEL")
        self._wheel = Path(named).expanduser() if named else own_wheel()
        self._flags = f"--thinking {reasoning_effort} {flags}" if reasoning_effort else flags

    @staticmethod
    def name() -> str:
        return "newel"

    def get_version_command(self) -> str:
        return 'PATH="$HOME/.local/bin:$PATH" newel --version'

    def parse_version(self, stdout: str) -> str:
        return stdout.strip().removeprefix("newel ")

    async def install(self, environment: HarborEnvironment) -> None:
        if self._wheel is None:  # no index has Newel, and a stranger may take its name there
            raise ValueError(
                "Name the wheel of Newel to install: --ak wheel=PATH (uv build --wheel makes one)."
            )
        package = f"{INSTALLED}/{self._wheel.name}"
        await environment.upload_file(self._wheel, package)
        await self.exec_as_agent(environment, install_command(package))

    @with_prompt_template
    async def run(
        self,
        instruction: str,
        environment: HarborEnvironment,
        context: HarborContext,  # noqa: ARG002 — Harbor passes it; it is filled at the end, also after a timeout
    ) -> None:
        connection = self.model_connection
        model = connection.model_id or self.model_name or ""
        environ = model_environ(model, connection.env, connection.model_api_format)
        command = run_command(instruction, str(self.environment_logs_dir), self._flags)
        await self.exec_as_agent(environment, command, env=environ)

    def populate_context_post_run(self, context: HarborContext) -> None:
        """Report tokens and cost, also of a run that has reached Harbor's timeout."""
        try:
            totals = read_totals((self.logs_dir / EVENTS).read_text(encoding="utf-8", errors="replace"))
        except OSError:  # it was never started
            return
        if totals is not None:
            context.n_input_tokens = totals.input_tokens
            context.n_cache_tokens = totals.cached_tokens
            context.n_output_tokens = totals.output_tokens
            context.cost_usd = totals.cost
