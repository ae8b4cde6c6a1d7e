"""If these fail, the files of a trial show its user the secrets of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.app.fleet_trials import secrets_mask
from newel.config.settings import Flags, load_settings
from newel.text.json import to_json


@pytest.mark.parametrize("secret", ['say "open sesame"', "open sesame \udcff"])
def test_no_secret_of_a_worker_is_in_what_it_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    """Its files are JSON, for the most part; a variable need not be UTF-8."""
    monkeypatch.setenv("SHOP_TOKEN", secret)
    mask = secrets_mask(load_settings(Flags(), cwd=tmp_path, environ={"NEWEL_HOME": str(tmp_path)}))
    assert b"sesame" not in mask(to_json({"output": secret}))
    assert b"sesame" not in mask(secret.encode(errors="surrogateescape"))
