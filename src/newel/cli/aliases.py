"""Other names of commands: those that git and other agents have taught, and the actions of a subject behind its name."""

from __future__ import annotations

from collections.abc import Sequence


def canonical(arguments: Sequence[str]) -> list[str]:
    """The command line with a command's own name in place of another one. A line that could be a prompt or a contract, as
    ``resume the work``, is left as it is.
    """
    match [*arguments]:
        case ["resume", *rest] if _has_no_words(rest):
            return ["--continue", *rest]
        case ["resume", name, *rest] if is_id(name) and _has_no_words(rest):
            return ["--session", name, *rest]
        case ["session", *rest] if _has_no_words(rest):
            return ["sessions", *rest]
        case ["session" | "sessions", "show", *rest]:
            return ["export", *rest]
        case ["session" | "sessions", "resume", name, *rest] if _has_no_words(rest):
            return ["--session", name, *rest]
        case ["review", "decide" | "keep" | "reject" | "undo" | "redo" | "rollback" as action, *rest]:
            return [action, *rest]
        case ["review", "list", *rest]:
            return ["checkpoints", *rest]
        case ["agent", "tail" | "log" as action, *rest] if not rest or is_id(rest[0]):
            return ["agents", action, *rest]
        case ["agent" | "agents", "resume", name, *rest] if is_id(name):
            return ["agent", "--resume", name, *rest]
        case ["agent", "list", *rest] if _has_no_words(rest):
            return ["agents", *rest]
        case ["agents" | "config" | "models" | "session" | "sessions" as command, "list", *rest]:
            return ["sessions" if command == "session" else command, *rest]
        case unchanged:
            return unchanged


def is_id(word: str) -> bool:
    """Whether a word looks like the ID of a session or a run, or the beginning of one."""
    return any(map(str.isdigit, word)) and set(word) <= set("0123456789abcdef-")


def _has_no_words(rest: Sequence[str]) -> bool:
    return not rest or rest[0].startswith("-")
