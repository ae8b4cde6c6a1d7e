"""Names of models as users write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from newel.agent.errors import NewelError

if TYPE_CHECKING:
    from newel.session.coding_agent import CodingAgent


async def expand_model_name(agent: CodingAgent, name: str) -> str:
    """The model that a built-in short name means on the agent's server; any other name is unchanged, also one that the user's
    settings explain.
    """
    from newel.providers.catalog.aliases import ALIASES, expand_alias

    if name not in ALIASES or agent.models.describe(name).id != name:
        return name
    return expand_alias(name, await listed_models(agent))


async def listed_models(agent: CodingAgent) -> list[str]:
    """The server's models; none if it fails to list them, which the next prompt will show."""
    try:
        return await agent.models.list_models()
    except NewelError:
        return []
