"""A process that starts on a full disk and then gets room.

Argument: the sessions' folder. Writes messages until one fails, then gets room again. Prints what happened.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from newel.agent.errors import SessionError
from newel.agent.messages import UserMessage
from newel.session.manager import SessionManager


def main() -> None:
    session = SessionManager(directory=Path(sys.argv[1]), cwd="/src/shop")
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        session.append_message(UserMessage("does not even begin"))
    except SessionError as error:
        sys.stdout.write(f"{error}\n")
    left = [str(path) for path in Path(sys.argv[1]).rglob("*") if path.is_file()]
    sys.stdout.write(f"left behind: {left}\n")
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        for number in range(100):
            session.append_message(UserMessage("x" * 1500, id=f"m{number}"))
    except SessionError as error:
        sys.stdout.write(f"{error}\n")
    sys.stdout.write(f"{len(session.get_messages())}\n")
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    session.append_message(UserMessage("room again", id="last"))
    session.close()


main()
