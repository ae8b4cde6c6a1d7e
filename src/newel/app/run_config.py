"""The configuration of an agent's runs: the model, its prompts and tools, and the limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newel.agent.messages import AppMessage, ToolCall
    from newel.agent.ports import Policy, RunConfig, Shorten, Tool, ToolResult
    from newel.app.agent_context import SharedParts
    from newel.context.compaction import Compactor
    from newel.context.system_prompt import PromptContext


def prompt_context(shared: SharedParts, manner: str | None) -> PromptContext:
    """What the system prompts tell. ``manner`` replaces Newel's own instructions on style."""
    import shutil
    import time

    from newel.context.system_prompt import PromptContext

    host, workspaces, known = shared.context.host, shared.workspaces, shared.known
    approve = shared.settings.approve
    return PromptContext(
        cwd=workspaces.works_in.root,
        copy_of=workspaces.workspace.root if workspaces.isolated else None,
        instructions=known.instructions,
        os_name=host.system,
        shell=host.shell,
        date=time.strftime("%Y-%m-%d"),
        manner=manner,
        plans=approve == "plan",
        skills=known.skills.listing() if known.skills else "",
        has_docs=host.connection is None and shutil.which("newel") is not None,
    )


def run_config(
    shared: SharedParts,
    *,
    tools: Sequence[Tool],
    prompts: PromptContext,
    policy: Policy,
    compactor: Compactor,
    messages: Callable[[], Sequence[AppMessage]],
) -> RunConfig:
    """What the loop works with; ``messages`` returns the conversation."""
    from newel.agent.ports import RunConfig
    from newel.agent.transform import Transformer
    from newel.context.system_prompt import short_prompt, system_prompt

    settings, in_use = shared.settings, shared.in_use
    return RunConfig(
        model=in_use.model,
        transform=Transformer(),
        system_prompt=system_prompt(prompts, [tool.spec for tool in tools]),
        short_prompt=short_prompt(prompts),
        tools=tools,
        thinking=settings.thinking,
        agent_mode=in_use.agent_mode,
        policy=policy,
        limits=settings.limits,
        compact=compactor,
        check_cost=in_use.check_cost,
        shorten=shorten_for(shared, messages),
    )


def shorten_for(shared: SharedParts, messages: Callable[[], Sequence[AppMessage]]) -> Shorten:
    """What becomes of the tool results of a conversation."""

    @cache  # not before the first result
    def open_shortener() -> Shorten:
        from newel.context.nested_instructions import NestedInstructions
        from newel.context.shortening import Shortener

        shortener = Shortener(shared.context.host.save_output, shared.settings.max_result)
        return NestedInstructions(
            shortener, shared.workspaces.works_in, messages, shared.secret_paths.holds_secrets
        )

    async def shorten(call: ToolCall, result: ToolResult, /) -> ToolResult:
        return await open_shortener()(call, result)

    return shorten
