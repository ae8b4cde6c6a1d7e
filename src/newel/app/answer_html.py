"""An ``Answer`` as HTML for a notebook.

The page of a notebook runs scripts and has the user's rights, so nothing that a model wrote may act in it: its Markdown is
rendered without raw HTML and without images (a remote image would tell its server), links are those that Markdown allows, and names
and diffs are escaped. ``mathjax_ignore`` keeps TeX from being run.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from newel.diff.unified import changed_lines
from newel.text.sanitize import escape_diff, escape_line, plain_text

if TYPE_CHECKING:
    from newel.review.project import RunFile

MAX_DIFF = 20_000
"""Characters of a file's diff that are shown."""


def answer_html(text: str, problem: str, changes: Sequence[RunFile], facts: Sequence[str]) -> str:
    """The HTML of the fields of an ``Answer``, with ``facts`` in the last line."""
    parts = [_markdown(text)]
    if problem:
        parts.append(f"<p><strong>{html.escape(plain_text(problem))}</strong></p>")
    parts += [_file(file) for file in changes]
    parts.append(f"<p><small>{html.escape(escape_line(' · '.join(facts)))}</small></p>")
    inner = "\n".join(parts)
    return f'<div class="newel-answer mathjax_ignore tex2jax_ignore">\n{inner}\n</div>'


def _markdown(text: str) -> str:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    return parser.render(plain_text(text))


def _file(file: RunFile) -> str:
    patch = (
        file.patch if len(file.patch) <= MAX_DIFF else f"{file.patch[:MAX_DIFF]}\n… cut: see `newel review`"
    )
    about = " · ".join(
        fact for fact in (file.change, changed_lines(file.patch), file.about, file.state) if fact
    )
    summary = f"<code>{html.escape(escape_line(file.file_path))}</code> {html.escape(escape_line(about))}"
    return f"<details><summary>{summary}</summary>\n<pre>{html.escape(escape_diff(patch))}</pre></details>"
