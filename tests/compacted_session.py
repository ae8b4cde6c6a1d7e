"""A session that was compacted twice, with results in scripts for which Python stores a text with one, two and four bytes a character."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    CustomMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from newel.session.manager import SessionManager

TURNS = 9
"""A compaction stands before the fourth and before the seventh; each keeps the last answer before it."""

SCRIPTS = ("plain", "\N{CJK UNIFIED IDEOGRAPH-6587}\N{CJK UNIFIED IDEOGRAPH-5B57}", "\N{PARTY POPPER}")


def conversation() -> list[AppMessage]:
    messages: list[AppMessage] = []
    for turn in range(1, TURNS + 1):
        if turn in {4, 7}:
            data: dict[str, Any] = {
                "summary": f"summary before turn {turn}",
                "account": f"account before turn {turn}",
                "firstKept": messages[-1].id,
                "usage": {"input": 7, "output": 3},
                "cost": 0.5,
            }
            messages.append(CustomMessage("compaction", data, f"compaction-{turn}"))
        said = SCRIPTS[turn % 3]
        call = ToolCall(f"call-{turn}", "bash", {"command": f"cat {turn}.txt"})
        usage = Usage(input=1_000 * turn, output=10)
        messages += [
            UserMessage(f"prompt {turn} {said}", id=f"prompt-{turn}"),
            AssistantMessage(
                [TextContent(f"looking {turn}"), call],
                model="m",
                usage=usage,
                cost=0.25,
                stop_reason="toolUse",
                id=f"asked-{turn}",
            ),
            ToolResultMessage(call.id, "bash", f"result {turn} {said * 200}", turn == 2, id=f"result-{turn}"),
            AssistantMessage(
                [TextContent(f"answer {turn} {said}")], model="m", usage=usage, id=f"answer-{turn}"
            ),
        ]
    return messages


def write(sessions: Path, project: Path) -> SessionManager:
    """Write the session, and return it, closed."""
    with SessionManager(directory=sessions, cwd=str(project)) as session:
        session.start_session({"model": "m"})
        session.extend(conversation())
        return session
