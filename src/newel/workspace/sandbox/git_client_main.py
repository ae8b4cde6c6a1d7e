"""``git`` inside a sandbox, for a subcommand that may change the repository: asks Newel, outside, to run it.

``git_shim.sh`` starts it, as a file with no package beside it. Where the repository can be written (one that a command has made, or
cloned into the project), git itself runs here instead.

A request is 8 bytes of length with the descriptor of standard input, and JSON; the answer is a line of JSON and the two outputs:

    {"argv": ["-C", "sub", "commit"], "cwd": "…", "env": {…}}     ->  {"exit": 0, "stdout": 12, "stderr": 0}
                                                                  ->  {"refused": "why"}
"""

from __future__ import annotations

import json
import os
import socket
import sys

SOCKET = "/run/newel/git.sock"

PASSED = (
    *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE"),
    *("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE"),
    "GIT_MERGE_AUTOEDIT",
)
"""Variables that git outside gets from here. No language and no time zone: they may be paths of files that the C library reads."""

ELSEWHERE = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")
"""Variables that lead git to another place than the project's repository."""


def main(git: str, argv: list[str]) -> int:
    folder = start_folder(argv)
    link = find_git(folder)
    if link is None or os.access(link, os.W_OK) or any(name in os.environ for name in ELSEWHERE):
        os.execv(git, ["git", *argv])  # noqa: S606 — the command's own words
    request = {
        "argv": argv,
        "cwd": os.getcwd(),  # noqa: PTH109 — pathlib is slow to import
        "env": {name: os.environ[name] for name in PASSED if name in os.environ},
    }
    data = json.dumps(request).encode()
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(SOCKET)
            try:
                os.fstat(0)
                stdin = 0
            except OSError:  # it is closed
                stdin = os.open(os.devnull, os.O_RDONLY)
            socket.send_fds(server, [len(data).to_bytes(8, "big")], [stdin])
            server.sendall(data)
            return show(server)
    except OSError as error:
        sys.stderr.write(f"git in the sandbox: Newel does not answer ({error.strerror}).\n")
        return 128


def show(server: socket.socket) -> int:
    with server.makefile("rb") as answers:
        line = answers.readline()
        if not line:
            sys.stderr.write("git in the sandbox: Newel has ended the request.\n")
            return 128
        answer = json.loads(line)
        if "refused" in answer:
            sys.stderr.write(f"git in the sandbox: {answer['refused']}\n")
            return 128
        for descriptor, length in ((1, answer["stdout"]), (2, answer["stderr"])):
            data = answers.read(length)
            while data:
                data = data[os.write(descriptor, data) :]
        return int(answer["exit"])


def start_folder(argv: list[str]) -> str:
    """The folder that git starts in: every ``-C`` is relative to the one before."""
    folder = os.getcwd()  # noqa: PTH109 — as above
    index = 0
    while index < len(argv) and argv[index].startswith("-"):
        if argv[index] in ("-C", "-c"):
            if argv[index] == "-C" and index + 1 < len(argv):
                folder = os.path.join(folder, argv[index + 1])  # noqa: PTH118 — pathlib is slow to import
            index += 1
        index += 1
    return os.path.realpath(folder)


def find_git(folder: str) -> str | None:
    while True:
        link = os.path.join(folder, ".git")  # noqa: PTH118 — as above
        if os.path.lexists(link):
            return link
        parent = os.path.dirname(folder)  # noqa: PTH120 — as above
        if parent == folder:
            return None
        folder = parent


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
