"""A prompt as it was typed: ``/template arguments``, and ``@files`` to attach. It means the same in every front end."""

from __future__ import annotations

from newel.context.mentions import Expansion, expand_mentions
from newel.session.coding_agent import CodingAgent
from newel.text.slash_command import parse_command


async def expand_typed(agent: CodingAgent, typed: str) -> Expansion:
    """Attach the files that are mentioned, and expand a template if one is named.

    Only what was typed can mention files: a template may be a stranger's, and must not attach the user's. Raises
    ``WorkspaceError`` for a template that is not used.
    """
    command = parse_command(typed)
    template = agent.templates.get(command[0]) if command else None
    expansion = Expansion(command[1] if command and template else typed, [], [])
    if "@" in expansion.text or "." in expansion.text:  # nothing else can name a file
        expansion = await expand_mentions(expansion.text, agent.attachable)
    return expansion._replace(text=template.expand(expansion.text)) if template else expansion
