"""Commands that other programs start, as clients or servers of theirs, and that are forked like those of ``forked.py``."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.forked import start

RELAY: Final = Path(__file__).with_name("relay.py")


@contextmanager
def relay_command(folder: Path, command: Sequence[str]) -> Generator[list[str]]:
    """A command that any program can start, often and at once; each is forked and runs in ``folder``, with these
    further arguments.
    """
    path = folder / "relay"
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen(64)
        threading.Thread(target=_admit, args=(door, folder, command), daemon=True).start()
        yield [sys.executable, "-I", "-S", str(RELAY), str(path)]
        door.shutdown(socket.SHUT_RDWR)
    path.unlink()


def _admit(door: socket.socket, folder: Path, command: Sequence[str]) -> None:
    while True:
        try:
            visitor, _ = door.accept()
        except OSError:  # it is closed
            return
        threading.Thread(target=_run, args=(visitor, folder, command), daemon=True).start()


def _run(visitor: socket.socket, folder: Path, command: Sequence[str]) -> None:
    with visitor, visitor.makefile("rb") as reader:
        size, streams, _, _ = socket.recv_fds(visitor, 4, 3)
        if not size:
            return  # it was killed before it sent its order
        order = json.loads(reader.read(int.from_bytes(size, "big")))
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"} | order["environ"]
        stdin, stdout, stderr = streams
        process = start(
            [*command, *order["words"]], cwd=folder, env=environ, stdin=stdin, stdout=stdout, stderr=stderr
        )
        for each in streams:
            os.close(each)
        ended = process.wait()
        with contextlib.suppress(BrokenPipeError):  # it was killed, and its input ended with that
            visitor.sendall(b"%d" % ended)
