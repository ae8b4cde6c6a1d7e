"""A bare page with the page's editor, for benchmarks: no hunks, and a server of files."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from newel.web import __file__ as web
from tests.nodejs import NODE, PAGE, packages

SCRIPT: Final = Path(__file__).with_name("bare_editor.js")
HTML: Final = """<!doctype html><meta charset="utf-8"><title>bare</title><link rel="icon" href="data:,"><link rel="stylesheet" href="app.css">
<style>body { margin: 0 } .file-editor { height: 100vh }</style>
<section class="file-editor"></section><script type="module" src="bare_editor.js"></script>"""


class _Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@contextmanager
def bare_page(folder: Path, files: dict[str, str]) -> Generator[str]:
    """The URL of a page with ``openBare(name)``, which opens one of ``files`` in an editor; it is written to
    ``folder``.
    """
    for name, text in {"index.html": HTML, **files}.items():
        (folder / name).write_text(text)
    (folder / "app.css").write_bytes((Path(web).parent / "static" / "app.css").read_bytes())
    build = [
        NODE,
        packages(PAGE) / "esbuild" / "bin" / "esbuild",
        SCRIPT,
        f"--outfile={folder / SCRIPT.name}",
    ]
    subprocess.run([*build, "--bundle", "--minify", "--format=esm", "--log-level=warning"], check=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
