"""A self-contained HTML page: no script, no external resources, in light and dark."""

from __future__ import annotations

import base64
import hashlib
import html
from typing import Final

COLOURS: Final = """
:root { color-scheme: light dark; --ground: #fbfbf9; --raised: #ffffff; --sunken: #f2f2ee; --line: #e3e3dc; --strong: #b9b9b0;
  --text: #1d1f21; --dim: #5c6066; --accent: #0b6e6e; --added: #dcebfb; --removed: #fde7d3; --ok: #2e7d32; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #16181b; --raised: #1d2024; --sunken: #101214; --line: #2b2f35; --strong: #4a5058;
    --text: #e6e6e3; --dim: #9aa0a8; --accent: #4fc3c3; --added: #16304a; --removed: #46290f; --ok: #7cc47f; --bad: #ff8a80; }
}
* { box-sizing: border-box; }
"""
"""The house's colours, for the styles of a page."""


def html_page(heading: str, facts: list[str], body: str, *, style: str) -> str:
    """A page with a heading and facts below it, which are escaped, and a body of HTML."""
    styles = COLOURS + style
    title = html.escape(heading)
    digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{styles}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<div class="facts">{" · ".join(html.escape(fact) for fact in facts)}</div>
</header>
<main>
{body}
</main>
</body>
</html>
"""
