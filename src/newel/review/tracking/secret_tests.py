"""Which files of a project are copied into the ledger only once an agent has changed them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from newel.agent.errors import ConfigError, WorkspaceError
from newel.permissions.key_texts import is_data_with_keys, is_text_with_keys
from newel.permissions.project_rules import load_project_rules
from newel.permissions.rules import RuleSet
from newel.permissions.secret_paths import denied_below, looks_secret
from newel.workspace.snapshots.secret_files import SecretTests
from newel.workspace.tracked import TrackedWorkspace


async def secret_tests(workspace: TrackedWorkspace, rules: RuleSet) -> SecretTests:
    """By the user's ``rules``, those of the project, and what the files look like."""
    with contextlib.suppress(ConfigError, WorkspaceError):  # an agent does not start with such rules
        rules |= await load_project_rules(workspace)
    home = str(Path.home()) if workspace.name == workspace.root else ""
    is_denied = denied_below(rules, workspace.root, home)

    def by_name(path: str, data: bytes) -> bool:
        return looks_secret(path, data) or is_denied(path)

    return SecretTests(by_name, is_data_with_keys, is_text_with_keys)
