"""The configuration of an agent's runs: the model, its prompts and tools, and the limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from newel.agent.ports import Policy, RunConfig, Shorten, Tool
    from newel.app.agent_context import SharedParts
    from newel.context.compaction import Compactor
    from newel.context.instructions import Instructions
    from newel.context.system_prompt import PromptContext


def prompt_context(
    shared: SharedParts, instructions: Sequence[Instructions], manner: str | None
) -> PromptContext:
    """What the system prompts tell. ``manner`` replaces Newel's own instructions on style."""
    import time

    from newel.context.system_prompt import PromptContext

    host, workspaces = shared.context.host, shared.workspaces
    return PromptContext(
        cwd=workspaces.works_in.root,
        copy_of=workspaces.workspace.root if workspaces.isolated else None,
        instructions=instructions,
        os_name=host.system,
        shell=host.shell,
        date=time.strftime("%Y-%m-%d"),
        manner=manner,
        plans=shared.settings.approve == "plan",
        skills=shared.skills.listing() if shared.skills else "",
    )


def run_config(
    shared: SharedParts,
    *,
    tools: Sequence[Tool],
    prompts: PromptContext,
    policy: Policy,
    compactor: Compactor,
    shorten: Shorten,
) -> RunConfig:
    """What the loop works with."""
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
        shorten=shorten,
    )
