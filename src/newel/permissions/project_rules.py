"""The rules of a project: ``.newel/permissions.toml``. They only tighten, so they hold without the user's trust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from newel.agent.errors import ConfigError, WorkspaceError, as_sentence
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
            f"{path}: The project's permission rules cannot be used: {as_sentence(str(error))} Correct the file, or delete it."
        ) from error


def _parse(data: bytes) -> RuleSet:
    if len(data) > MAX_BYTES:
        raise ConfigError(f"It has more than {MAX_BYTES:,} bytes.")
    import tomllib

    source = data.decode()
    written = tomllib.loads(source)
    try:
        texts = msgspec.convert(written, RuleTexts)
    except msgspec.ValidationError as error:
        raise ConfigError(_problem(source, written, str(error))) from error
    if texts.allow:
        raise ConfigError("A project can `ask` and `deny`; only your own config.toml can `allow`.")
    return texts.parse(lambda: source)


def _problem(source: str, written: Mapping[str, object], error: str) -> str:
    from newel.text.toml import line_of_key
    from newel.text.type_errors import describe_type_error

    known = RuleTexts.__struct_fields__
    if unknown := next((name for name in written if name not in known), None):
        what = f"there is no `{unknown[:60]}` here; write `ask = […]` or `deny = […]`"
        return f"line {line_of_key(source, (unknown,))}: {what}."
    problem, _, place = error.removesuffix("`").partition(" - at `$.")
    name = place.partition("[")[0]
    what = describe_type_error(problem, table="a table")
    return f"line {line_of_key(source, (name,))}: {place}: {what[:1].lower()}{what[1:]}."
