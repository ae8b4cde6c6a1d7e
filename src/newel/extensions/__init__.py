"""Extensions: Python of the user's that adds tools, hooks, commands and providers. ``register(newel: ExtensionAPI)`` is called once.

The guide is docs/extensions.md.
"""

from newel.extensions.api import (
    CommandFunction,
    ExtensionAPI,
    HookEvent,
    OpenProvider,
)
from newel.extensions.errors import RegistrationError
from newel.extensions.function_tool import ToolContext
from newel.hooks.function_hook import HookAnswer, HookFunction, HookInput
from newel.hooks.hook_output import HookReply

__all__ = [
    "CommandFunction",
    "ExtensionAPI",
    "HookAnswer",
    "HookEvent",
    "HookFunction",
    "HookInput",
    "HookReply",
    "OpenProvider",
    "RegistrationError",
    "ToolContext",
]
