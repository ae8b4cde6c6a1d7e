"""The rules of a project: ``.newel/permissions.toml``. They only tighten, so they hold without the user's trust."""

from __future__ import annotations

from typing import Final

import msgspec

from newel.agent.errors import ConfigError, WorkspaceError
from newel.permissions.rules import RuleSet, RuleTexts
from newel.workspace.port import Workspace

FILE: Final = ".newel/permissions.toml"

MAX_BYTES: Final = 100_000


async def load_project_rules(workspace: Workspace) -> RuleSet:
    """The rules of the project in a workspace. Raises ``ConfigError`` if there are some that cannot be read: to go on without them would
    allow what they forbid.
    """
    path = f"{workspace.root}/{FILE}"
    if await workspace.stat(path) is None:
        return RuleSet()
    try:
        return _parse(await workspace.read_bytes(path, size=MAX_BYTES + 1, nofollow=True))
    except (WorkspaceError, ConfigError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: The project's permission rules cannot be used: {error} Correct the file, or delete it."
        ) from error


def _parse(data: bytes) -> RuleSet:
    if len(data) > MAX_BYTES:
        raise ConfigError(f"It has more than {MAX_BYTES:,} bytes.")
    import tomllib

    source = data.decode()
    texts = msgspec.convert(tomllib.loads(source), RuleTexts)
    if texts.allow:
        raise ConfigError("A project can `ask` and `deny`; only your own config.toml can `allow`.")
    return texts.parse(lambda: source)
