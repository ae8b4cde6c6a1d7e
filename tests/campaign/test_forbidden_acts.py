"""If these fail, a command breaks out of the sandbox, as root or as an ordinary user. The acts are those of the sandbox's own
tests; here they count as one table, and run as both users.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.campaign.tally import CampaignTally
from tests.ordinary_user import MODULES, USER, usable_python
from tests.requirements import require_program
from tests.unit.workspace.sandbox.test_partial import NOT_HELD

ROOT = Path(__file__).resolve().parents[2]


def outcomes(folder: Path, python: str, user: int | None, kind: str) -> dict[str, list[str]]:
    """The acts that were tried by a user in a kind of sandbox, with all that went wrong."""
    environ = {"PATH": os.environ["PATH"] if user is None else os.defpath, "LANG": "C.UTF-8"}
    if user is not None:
        os.chown(folder, user, user)
    done = subprocess.run(
        [python, "-m", "tests.campaign.forbidden_child", str(folder), kind],
        cwd=ROOT,
        env=environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), MODULES]), "HOME": str(folder)},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["whole", "partial"])
@pytest.mark.parametrize("who", ["root", "an ordinary user"])
def test_forbidden_acts(tally: CampaignTally, who: str, kind: str) -> None:
    require_program("bwrap", "bubblewrap")
    is_root = os.geteuid() == 0
    if who == "root" and not is_root:
        pytest.skip("only root can try as root")
    python, user = sys.executable, None
    if who != "root" and is_root:
        python, user = usable_python(), USER
    not_held = NOT_HELD if kind == "partial" else {}
    note = f"not promised: {len(not_held)} acts that docs/sandbox.md lists" if not_held else ""
    row = tally.row(f"forbidden acts in the {'partial ' if not_held else ''}sandbox, as {who}", note)
    with tempfile.TemporaryDirectory(prefix="newel-campaign-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for act, problems in outcomes(folder, python, user, kind).items():
            if act in not_held:
                continue
            with tally.attempt(row, act) as found:
                found.extend(("lost", problem) for problem in problems)
    assert row.tried >= 50
