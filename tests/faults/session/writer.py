"""A process that writes a session and prints each acknowledgement on a line.

Arguments: the sessions' folder, the session's id or "" for a new one, the number of the first message.
"""

from __future__ import annotations

import sys
from pathlib import Path

from newel.agent.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage, UserMessage
from newel.session.manager import SessionManager


def main() -> None:
    folder, session_id, first = sys.argv[1:]
    session = SessionManager(directory=Path(folder), cwd="/src/shop", session=session_id or None)
    number = int(first)
    while True:
        text = f"message {number} " + "x" * (number % 7 * 1000)
        message = (
            UserMessage(text, id=f"m{number}")
            if number % 3
            else AssistantMessage([TextContent(text), ToolCall(f"c{number}", "bash", {})], id=f"m{number}")
        )
        session.append_message(message)
        if isinstance(message, AssistantMessage):
            result = ToolResultMessage(f"c{number}", "bash", text, is_error=False, id=f"r{number}")
            session.append_message(result)
        sys.stdout.write(f"{session.get_id()} m{number}\n")
        sys.stdout.flush()
        number += 1


main()
