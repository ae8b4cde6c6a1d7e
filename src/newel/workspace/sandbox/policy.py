"""What the processes in a sandbox may do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from newel.workspace.sandbox.repository import SandboxRepository

SandboxMode = Literal["workspace", "read-only", "partial", "off"]

INSIDE = "inside"
"""The value of ``NEWEL_SANDBOX`` for commands in a sandbox."""


PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy")
"""Variables that name a way to the network."""


class SandboxPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Paths are absolute and real. Everything may be read but the user's home folder ``home``, where only ``readable`` and
    ``writable`` exist, and what is ``hidden``; only ``writable`` may be changed, without what is ``protected`` in it. What is
    protected need not exist.

    ``links`` are symbolic links, by their paths, with what they lead to: where a folder is empty inside, those in it are gone, too.
    ``proxy`` is the socket of the network proxy, None for no network. git may change ``repository`` for the commands (``git_broker``).
    ``limits`` are those of each process, by the names of the module ``resource``.

    A sandbox that ``is_partial`` protects nothing in what is writable. There, ``watched`` is what only tools cannot change: a change by a
    command is named (``settings_watch``). With anything else to protect or to hide in it, such a sandbox does not hold.
    """

    home: str
    writable: Sequence[str]
    readable: Sequence[str] = ()
    protected: Sequence[str] = ()
    hidden: Sequence[str] = ()
    proxy: str | None = None
    repository: SandboxRepository | None = None
    limits: Mapping[str, int] = {}
    links: Mapping[str, str] = {}
    is_partial: bool = False
    watched: Sequence[str] = ()

    def allows_writing(self, path: str) -> bool:
        """Whether tools may change a path."""
        return is_below(path, self.writable) and not self.protects(path)

    def protects(self, path: str) -> bool:
        """Whether a path stays as it is because programs outside of the sandbox may obey or run it, or because a rule says so."""
        return is_below(path, [*self.protected, *self.watched])


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of these folders, or in one."""
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


SETTINGS_OF_TOOLS = (
    ".git",
    ".newel",
    ".vscode",
    ".idea",
    ".envrc",
    ".mcp.json",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".pi",
    ".vibe",
    ".qwen",
    ".kiro",
    ".roo",
    ".windsurf",
    ".continue",
    ".amazonq",
    ".junie",
    ".factory",
    ".aider.conf.yml",
    ".crush.json",
    "crush.json",
    ".zed",
    ".helix",
    ".devcontainer",
    ".devcontainer.json",
    ".exrc",
    ".nvim.lua",
    ".nvimrc",
    ".vimrc",
    ".mise.toml",
    ".mise.local.toml",
    ".mise",
    ".config/mise",
    ".config/mise.toml",
    "mise.toml",
    "mise.local.toml",
    ".github/workflows",
    ".husky",
    ".pre-commit-config.yaml",
    ".lefthook.yml",
    ".lefthook.yaml",
    "lefthook.yml",
    "lefthook.yaml",
    "lefthook-local.yml",
)
"""Files of a project that make programs outside the sandbox run something."""
