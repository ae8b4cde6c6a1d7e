"""The subagents of an agent. Their parts are its own, with another prompt, and questions that name the subagent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from newel.app.agent_tools import own_tools, policy_finder

if TYPE_CHECKING:
    from newel.agent.ports import Model, Tool
    from newel.app.agent_context import SharedParts
    from newel.app.model_resolver import ResolvedModel
    from newel.context.compaction import Compactor
    from newel.context.system_prompt import PromptContext
    from newel.permissions.approval import Approval, ApprovalRequest, AskApproval
    from newel.session.coding_agent import CodingAgent
    from newel.session.subagents import FindPolicy, Subagents


def open_subagents(
    parent: CodingAgent,
    shared: SharedParts,
    prompts: PromptContext,
    make_compactor: Callable[[ResolvedModel], Compactor],
) -> Subagents:
    """The same workspace, sandbox, rules and model as those of the agent itself."""
    from newel.agent.agent import ProviderTransport
    from newel.app.run_config import shorten_for
    from newel.context.system_prompt import short_prompt, system_prompt
    from newel.session.subagents import SubagentParts, Subagents

    replace, settings, context = msgspec.structs.replace, shared.settings, shared.context

    async def make_tools(can_write: bool) -> list[Tool]:
        chosen = replace(settings, approve=settings.approve if can_write else "read-only")
        tools = await own_tools(replace(shared, settings=chosen), of_subagent=True)
        return [tool for tool in tools if can_write or tool.read_only or tool.spec.name == "bash"]

    def policies(tools: Sequence[Tool], name: str) -> FindPolicy:
        asked = context.ask and _ask_for(context.ask, name)
        return policy_finder(replace(shared, context=replace(context, ask=asked)), tools)

    def write_prompts(tools: Sequence[Tool], can_write: bool) -> tuple[str, str]:
        of_subagent = replace(prompts, plans=False, subagent="writes" if can_write else "reads")
        return system_prompt(of_subagent, [tool.spec for tool in tools]), short_prompt(of_subagent)

    def compactor_of(model: Model) -> Compactor:
        compactor = make_compactor(shared.in_use)
        compactor.follow(model)
        return compactor

    transport = ProviderTransport(shared.in_use.provider)
    parts = SubagentParts(
        transport=shared.hooks.for_subagents(transport) if shared.hooks else transport,
        make_tools=make_tools,
        policies=policies,
        prompts=write_prompts,
        make_compactor=compactor_of,
        make_shorten=partial(shorten_for, shared),
        open_session=lambda: context.open_session(None),
    )
    return Subagents(parent, parts)


def _ask_for(ask: AskApproval, name: str) -> AskApproval:
    async def ask_for_subagent(request: ApprovalRequest) -> Approval:
        return await ask(msgspec.structs.replace(request, subagent=name))

    return ask_for_subagent
