"""What rules say of a call, and what has to be known of a project for it. Apart from the judge, whose parser takes long to load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, Protocol

import msgspec

from newel.agent.ports import Touch


class CallJudgement(msgspec.Struct, frozen=True):
    """What rules say of a call. ``effect``: ``reads`` if it is a command that only reads what may be read unasked, ``none`` if no rule is
    about it, ``server`` if none allows the server that it would reach. ``reason`` is the rule that denies it, or why the user has to be
    asked. ``rules`` would allow it, for an answer that allows it for good.
    """

    effect: Literal["deny", "ask", "allow", "reads", "none", "server"]
    reason: str = ""
    rules: tuple[str, ...] = ()


UNKNOWN: Final = CallJudgement("none")


class Judge(Protocol):
    """Judges calls for an approval mode."""

    @property
    def may_stop_calls(self) -> bool:
        """Whether it may deny a call, or ask about one."""
        ...

    async def judge(self, name: str, touches: Sequence[Touch], text: str, /) -> CallJudgement:
        """Judge a call of the tool ``name``. ``text`` is what it does, as its preview says."""
        ...

    def keep(self, rules: Sequence[str], /) -> None:
        """Keep the rules of an answer for the project. Raises ``ConfigError``."""
        ...


class ProjectView(Protocol):
    """What has to be known of a project to tell whether a command only reads."""

    async def may_read(self, paths: Iterable[str], /, *, recurses: bool) -> bool:
        """Whether files, relative to the project's folder or absolute, may be read unasked, with ``recurses`` all that is below, too."""
        ...

    async def is_own_program(self, name: str, /) -> bool:
        """Whether a command of that name is not a program of the project, as far as that is known."""
        ...

    async def is_git_safe(self, folder: str, /) -> bool:
        """Whether no command of git that reads starts a program that the repository of a folder names, or shows files that
        may not be read unasked.
        """
        ...

    async def has_no_repository(self, folder: str, /) -> bool:
        """Whether git finds no repository from a folder, whatever its settings."""
        ...
