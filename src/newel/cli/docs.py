"""``newel docs``: the documentation in the terminal."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from typing import Final

from newel.agent.errors import UsageError
from newel.app.documentation import (
    DocPage,
    DocSection,
    documentation_folder,
    find_sections,
    load_pages,
    similar_page,
    terminal_markdown,
)
from newel.cli.options import Parser
from newel.config.settings import newel_home
from newel.terminal.stdout import text_stdout
from newel.text.sanitize import escape_line

EPILOG: Final = """\
examples:
  newel docs                     list the pages
  newel docs sandbox             show one
  newel docs review keys         find a part of it by words
  newel docs undo                find sections of all pages by words
In a terminal a page is shown in $PAGER; otherwise it is printed as Markdown."""

MOST: Final = 30
"""Sections that a search lists."""

TOPICS: Final = {
    "Begin": "quick-start install faq compare",
    "Work with it": "terminal automation workbench editors desktop agents fleet fleet-deployment subagents",
    "Review and undo": "review workbench-review",
    "Permissions and sandbox": "permissions sandbox web-fetch security data",
    "Models": "model-servers local-models ollama providers observability evals",
    "Hosts over SSH": "hosts jexida",
    "Extend it": "skills hooks extensions themes-and-keys mcp library architecture",
    "Reference": "command-line settings json-mode stream-json rpc review-api protocol trace",
}
"""The pages of each topic, as the site's navigation has them."""


def command_docs(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel docs",
        description="Show the documentation of this version. It needs no network.",
        epilog=EPILOG,
    )
    parser.add_argument("words", nargs="*", metavar="PAGE|WORD", help="the name of a page, or words to find")
    words: list[str] = parser.parse_args(arguments).words
    pages = load_pages(documentation_folder())
    if not words:
        _list_pages(pages)
        return 0
    found = find_sections(pages, words)
    if not found:
        near = similar_page(pages, words[0])
        hint = f" Did you mean `newel docs {near}`?" if near else ""
        as_prompt = f" To send it as a prompt: newel -- docs {shlex.join(words)}" if len(words) > 1 else ""
        raise UsageError(
            f"No page of the documentation mentions {escape_line(' '.join(words))!r}.{hint} List the pages with `newel docs`.{escape_line(as_prompt)}"
        )
    if len(found) == 1:
        _show(found[0])
    else:
        _list_sections(found)
    return 0


def _list_pages(pages: Sequence[DocPage]) -> None:
    titles = {page.name: page.title for page in pages}
    width = max(map(len, titles))
    for topic, names in TOPICS.items():
        print(f"{topic}:")
        for name in names.split():
            print(f"  {name:<{width}}  {titles[name]}")
    print("\nBegin with `newel docs quick-start`. To find a word: `newel docs WORD`.")


def _list_sections(sections: Sequence[DocSection]) -> None:
    listed = sections[:MOST]
    width = max(len(section.name) for section in listed)
    for section in listed:
        print(f"{section.name:<{width}}  {section.title}")
    if len(sections) > MOST:
        print(f"… {len(sections) - MOST:,} more; add a word")
    print(f"\nShow one with `newel docs {listed[0].name}`.")


def _show(section: DocSection) -> None:
    out = text_stdout()
    if not out.isatty():
        out.write(section.text)
        return
    from newel.app.theme import theme_for_output, usable_terminal_settings
    from newel.terminal.pager import page, painted_markdown
    from newel.terminal.renderers.styles import Styles

    home = newel_home(os.environ)
    theme = theme_for_output(usable_terminal_settings(home).theme, home)
    text = terminal_markdown(section.text)
    if not page(out, text, theme=theme, paint=painted_markdown):
        styles = Styles(os.environ, theme)
        out.writelines(painted_markdown(text, styles, shutil.get_terminal_size().columns))
