"""If these fail, an export, a log or a trace shows a secret to everyone who gets it."""

from __future__ import annotations

import pytest

from newel.session.masking import Masker
from newel.text.json import to_json

KEY = "sk-proj-0123456789abcdefghijklmnop"


@pytest.mark.parametrize("before", ["\n", "\t", "\x1b", '"', " "])
def test_a_key_is_masked_where_text_is_json(before: str) -> None:
    """As the arguments of a call are shown: there, a line break ends in a letter."""
    masker = Masker()
    assert KEY not in masker.text(to_json({"text": f"key{before}{KEY}"}).decode())
    assert masker.found == {KEY}


@pytest.mark.parametrize("secret", ['say "open sesame"', "two\nlines", "back\\slash"])
def test_a_secret_is_masked_where_text_is_json(secret: str) -> None:
    shown = Masker([secret]).text(to_json({"text": f"it is {secret}!"}).decode())
    assert shown == '{"text":"it is [masked]!"}'
