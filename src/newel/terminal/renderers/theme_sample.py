"""A few lines in the styles of a theme, to choose it by."""

from __future__ import annotations

from typing import Final

from newel.diff.unified import MINUS
from newel.terminal.renderers import diff_styles, styles
from newel.terminal.renderers.call_outcome import CallOutcome
from newel.terminal.renderers.styles import Styles

_DIFF: Final = """\
--- a/shop.py
+++ b/shop.py
@@ -7,2 +7,2 @@
 def total(items):  # in cents
-    return sum(item.price for item in items)
+    return sum(item.price * 100 for item in items)
"""
_PROSE: Final = "Prices are *cents* now: `total` returns an integer."


def paint_sample(painter: Styles, width: int) -> list[str]:
    """A prompt, calls that failed and succeeded, a diff, and an answer."""
    failed = CallOutcome("1", "bash", {"command": "pytest -q"}, True, "1 failed", [], 900, "")
    edited = CallOutcome("2", "edit", {"file_path": "shop.py"}, False, f"+1 {MINUS}1", [], 4, "")
    lines = [
        styles.user_text("Store prices in cents"),
        *styles.call_lines(failed, width),
        *styles.call_lines(edited, width),
        *diff_styles.diff_block(_DIFF, width),
    ]
    return [
        *(painter.paint(line, width, crop=True) for line in lines),
        *painter.markdown(_PROSE, width, crop=True),
    ]
