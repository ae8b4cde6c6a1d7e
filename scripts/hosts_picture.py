"""Draw docs/hosts.svg: work on a host, and its undo, in a terminal of 92 columns.

    python -m scripts.hosts_picture

The host is an OpenSSH server on this machine, the terminal is tmux; only the model is scripted. Needs both.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from scripts.picture import COLUMNS, draw

from mock_llm_server import running
from newel.app.hosts import SSH_CONFIG
from tests.sshd import served
from tests.support import Newel, bash, scenario
from tests.tmux import Tmux

ROWS = 46
PROMPT = "the nightly import gives up too early"
MODEL = scenario(
    "nightly import",
    bash("tail -n 2 import.log"),
    {
        "tool_calls": [
            {
                "function": {
                    "name": "edit",
                    "arguments": {
                        "path": "nightly.py",
                        "old_text": "TIMEOUT = 3\n",
                        "new_text": "TIMEOUT = 30\n",
                    },
                }
            }
        ]
    },
    {"content": "It gave up after 3 seconds; it now waits for 30."},
)
FILES = {
    "nightly.py": "import sys\n\nTIMEOUT = 3\nRETRIES = 2\n",
    "import.log": "01:00 begins\n01:03 gives up: no answer after 3 s\n",
}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="newel-") as name, running(MODEL) as server, served() as host:
        newel = Newel(Path(name), server)
        shop = host.home / "shop"
        shop.mkdir()
        for file, text in FILES.items():
            (shop / file).write_text(text)
            host.give(shop / file)
        host.give(shop)
        config = Path(name) / "ssh_config"
        config.write_text(host.client_config().replace("Host host", "Host shop host"))
        environ = {
            **newel.environ,
            "COLORTERM": "truecolor",
            "PS1": "$ ",
            "PAGER": "cat",
            SSH_CONFIG: str(config),
        }
        shell = ["bash", "--norc", "--noprofile"]
        with Tmux(shell, newel.project, environ, columns=COLUMNS, rows=ROWS) as screen:
            screen.wait_for("$")
            screen.type(f'newel --host shop:shop -p "{PROMPT}"', "Enter")
            screen.wait_for("tail -n 2 import.log")
            screen.wait_for("Make this change?")
            screen.answer("y", "Enter")
            screen.wait_for("it now waits for 30.")
            screen.wait_for("\n$")
            screen.type("newel undo --host shop:shop", "Enter")
            screen.wait_for("Undo these changes?")
            screen.answer("y", "Enter")
            screen.wait_for("`newel redo")
            lines = screen.painted
    last = max(index for index, line in enumerate(lines) if "newel redo" in line)
    shown = [
        re.sub(re.escape(str(host.home)), "/home/deploy", re.sub(r"\s+$", "", line))
        for line in lines[: last + 2]
    ]
    first, *rest = [line.replace(f"{host.user}@127.0.0.1", "deploy@shop") for line in shown]
    draw("hosts", "newel --host", first.removeprefix("$ "), rest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
