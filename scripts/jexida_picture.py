"""Draw docs/jexida.svg: a session of ``jexida`` on a real host, in a terminal of 92 columns.

    python -m scripts.jexida_picture

The host is an OpenSSH server on this machine, the terminal is tmux; only the model is scripted. Needs both.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from scripts.picture import COLUMNS, draw

from newel.terminal.jexida.protocol import AnswerReply, ShellReply, render
from tests.sshd import served
from tests.standins.ollama_server import OllamaServer
from tests.support import BIN
from tests.tmux import Tmux

ROWS = 40
LOOK = render(ShellReply("df -h / | tail -n 1", "Only the computer can tell how full its disk is."))
SEEN = render(
    AnswerReply(
        "There is **room left** on the disk, so there is no hurry.\n\n"
        "`du -xh / | sort -h | tail` would show what takes the most."
    )
)
SCRIPT = [
    {"trigger": "Is the disk", "answer": LOOK, "constrained": LOOK},
    {"trigger": "Output:", "answer": SEEN, "constrained": SEEN},
]
SETTINGS = """\
[connection]
host = "shop"
user = "{user}"
directory = "/srv"
[model]
port = {port}
"""


def main() -> int:
    server = OllamaServer(script=SCRIPT)
    with tempfile.TemporaryDirectory(prefix="newel-") as name, served() as host:
        home = Path(name)
        config = home / "ssh_config"
        config.write_text(host.client_config().replace("Host host", "Host shop host"))
        settings = home / "settings.toml"
        settings.write_text(SETTINGS.format(user=host.user, port=server.port))
        environ = {"PATH": os.environ["PATH"], "HOME": name, "COLORTERM": "truecolor"}
        command = [str(BIN / "jexida"), "--config", str(settings), "--ssh-config", str(config)]
        with Tmux(command, home, environ, columns=COLUMNS, rows=ROWS) as screen:
            screen.wait_for("· up")
            screen.type("Is the disk getting full?", "Enter")
            screen.wait_for("Run it? y yes")
            screen.answer("y", "Enter")
            screen.wait_for("last   exit code 0")
            lines = screen.painted
    server.close()
    draw("jexida", "jexida", "jexida", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
