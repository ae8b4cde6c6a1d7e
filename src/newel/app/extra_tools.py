"""The tools that are offered besides the usual ones: where a user watches, to models that have room for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from newel.agent.ports import Model
    from newel.config.settings import ExtraTool, Settings
    from newel.tools.selection import ToolSelection

IN_CONVERSATION: Final[tuple[ExtraTool, ...]] = ("todo", "task", "web_fetch")
IN_TERMINAL: Final[tuple[ExtraTool, ...]] = (*IN_CONVERSATION, "bash_output")
"""The terminal lists commands in the background, and ends them."""
LEAST_WINDOW: Final = 32_000
"""Tokens. In a smaller window their descriptions would take the room of the work."""


def for_conversation(settings: Settings, tools: Sequence[ExtraTool] = IN_CONVERSATION) -> Settings:
    """The settings of a conversation that a user watches: in the terminal, an editor, or the workbench."""
    if settings.extra_tools is not None:
        return settings
    return msgspec.structs.replace(settings, extra_tools=tools)


def is_small(model: Model) -> bool:
    """Whether a model gets no tools but the usual ones: it calls fewer tools better."""
    return model.tool_calls == "schema" or (model.context_window or LEAST_WINDOW) < LEAST_WINDOW


def offered_extras(
    settings: Settings, selection: ToolSelection | None, model: Model | None = None
) -> Callable[[ExtraTool], bool]:
    """Tells whether an extra tool is offered, before it is loaded: if it is selected or, without a selection, if the settings name it, but
    not to a small ``model``.
    """
    if selection is not None:
        return selection.offers
    return (() if model is not None and is_small(model) else _wanted(settings)).__contains__


def _wanted(settings: Settings) -> Sequence[str]:
    """In a script, a user who has written rules that allow pages of the web wants them fetched."""
    if settings.extra_tools is not None:
        return settings.extra_tools
    from newel.permissions.rules import WEB, ToolRule, WebRule

    allowed = settings.rules.allow
    return [WEB] if any(isinstance(rule, WebRule) or rule == ToolRule(WEB) for rule in allowed) else []
