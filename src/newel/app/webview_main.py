"""The process of a pywebview window: ``python -m newel.app.webview_main``.

Standard input has one line of JSON, ``[url, title, storage folder, width, height]``; the window closes at its end. The exit code is
``NO_TOOLKIT`` if pywebview cannot draw on this machine.
"""

from __future__ import annotations

import os
import sys
from threading import Thread
from typing import Any

import msgspec

from newel.app.desktop_window import NO_TOOLKIT


def main() -> int:
    import webview  # pyright: ignore[reportMissingImports] — the extra `desktop`

    gui: Any = webview
    url, title, storage, width, height = msgspec.json.decode(
        sys.stdin.buffer.readline(), type=tuple[str, str, str, int, int]
    )
    gui.settings["OPEN_EXTERNAL_LINKS_IN_BROWSER"] = True
    gui.settings["ALLOW_DOWNLOADS"] = True
    window = gui.create_window(title, url, width=width, height=height, text_select=True)

    def close_with_stdin() -> None:
        while os.read(0, 4096):
            pass
        window.destroy()

    Thread(target=close_with_stdin, daemon=True).start()
    try:
        gui.start(private_mode=False, storage_path=storage)
    except gui.WebViewException as error:
        print(error, file=sys.stderr)  # noqa: T201 — for the parent's message
        return NO_TOOLKIT
    return 0


if __name__ == "__main__":
    sys.exit(main())
