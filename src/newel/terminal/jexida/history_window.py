"""How much of a conversation the model is shown."""

from __future__ import annotations

from collections.abc import Sequence

from newel.agent.messages import AppMessage, AssistantMessage, ToolResultMessage, UserMessage


def window(messages: Sequence[AppMessage], turns: int) -> list[AppMessage]:
    """The messages as they are while they are no more than ``turns`` turns; a turn begins with a user's message.

    Of a longer conversation the last ``turns // 2`` user messages (1 at least), as many of the last assistant's
    responses, and all tool results of the turns that those belong to; in their order.
    """
    numbers: list[int] = []
    turn = 0
    for message in messages:
        turn += isinstance(message, UserMessage)
        numbers.append(turn)
    if turn <= turns:
        return list(messages)
    half = max(turns // 2, 1)
    spoken = {
        place
        for kind in (UserMessage, AssistantMessage)
        for place in [at for at, message in enumerate(messages) if isinstance(message, kind)][-half:]
    }
    kept = {numbers[place] for place in spoken}
    return [
        message
        for at, message in enumerate(messages)
        if at in spoken or (isinstance(message, ToolResultMessage) and numbers[at] in kept)
    ]
