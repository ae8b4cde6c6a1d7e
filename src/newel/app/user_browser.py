"""Opens the page in the user's own browser.

The address has the token, and other users can read the arguments of a process, so the browser gets the address of a private file
that leads to the page. The file is removed once the browser has had time to start, and at the end. A killed process leaves it; it is
as private as the file of the token, and the next start replaces it.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Final

import anyio

from newel.storage.files import make_private, replace_file
from newel.text.sanitize import sanitize
from newel.workspace.process.own_programs import own_environ

_LIFETIME_S: Final = 60.0
"""Of the file: a browser may start slowly."""
_PROGRAM: Final = "import os, webbrowser; webbrowser.open(os.environ.pop('NEWEL_PAGE'))"
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>newel</title><meta http-equiv="refresh" content="0; url={url}"></head>
<body><p><a href="{url}">Open the workbench</a></p></body>
</html>
"""


async def open_in_browser(url: str, file: Path, *, lifetime: float = _LIFETIME_S) -> None:
    """Open an address by way of ``file``, which exists for ``lifetime`` seconds, or until this is cancelled."""
    try:
        with _private_file(file, _PAGE.format(url=escape(url))):
            _start(file)
            await anyio.sleep(lifetime)
    except OSError as error:
        words = f"The browser cannot be opened: {error.strerror}: {file}. Open the printed address in it."
        print(f"newel: {sanitize(words)}", file=sys.stderr)  # noqa: T201 — for the user


@contextmanager
def _private_file(file: Path, text: str) -> Generator[None]:
    """Raises ``OSError``."""
    make_private(file.parent)
    replace_file(file, text.encode())
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _start(file: Path) -> None:
    """Have a file shown. In a thread: some browsers, above all those of a terminal, block their caller until they end. In a process, as
    ``webbrowser`` looks for them on the ``PATH`` of its own.
    """
    import subprocess
    from threading import Thread

    command = [sys.executable, "-I", "-c", _PROGRAM]
    options = {"env": own_environ() | {"NEWEL_PAGE": file.absolute().as_uri()}, "check": False}
    Thread(target=subprocess.run, args=(command,), kwargs=options, daemon=True).start()
