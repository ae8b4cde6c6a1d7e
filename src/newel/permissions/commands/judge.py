"""Judges commands by rules: by the words of all simple commands in them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Final

from newel.permissions.commands.parse import (
    Words,
    parse,
    program,
    reads_program,
    without_global_options,
)
from newel.permissions.commands.programs import programs
from newel.permissions.commands.reading import Reads, find_reads
from newel.permissions.judgement import UNKNOWN, CallJudgement, ProjectView
from newel.permissions.rules import CommandRule, Rule, RuleSet


async def judge_command(text: str, rules: RuleSet, project: ProjectView) -> CallJudgement:
    parsed = parse(text)
    if rule := _find(rules.deny, parsed.commands, unknown=False):
        return CallJudgement("deny", str(rule))
    if rule := _find(rules.ask, parsed.commands, unknown=False):
        return CallJudgement("ask", f"your rule asks: {rule}")
    forbidding = [*rules.deny, *rules.ask]
    if any(isinstance(rule, CommandRule) for rule in forbidding) and (
        parsed.hides_program or _find(forbidding, parsed.commands, unknown=True)
    ):
        return CallJudgement(
            "ask", "what it runs is only known when it runs, and you have rules about commands"
        )
    allowed = [rule for rule in rules.allow if isinstance(rule, CommandRule)]
    return await _judge_plain(parsed.plain, allowed, project)


def _find(rules: Sequence[Rule], commands: Sequence[Words], *, unknown: bool) -> CommandRule | None:
    """The first rule that one of the commands matches, whatever folder its program is in."""
    for rule in rules:
        if isinstance(rule, CommandRule):
            for words in commands:
                name = program(words)
                forms = [words, (name, *words[1:])]
                if name == "git":
                    forms.append(("git", *without_global_options(words)[1:]))
                if name.startswith("git-"):
                    forms.append(("git", name[4:], *words[1:]))
                if any(
                    words and words[0] is not None and rule.matches(form, unknown=unknown) for form in forms
                ):
                    return rule
    return None


async def _judge_plain(
    plain: Sequence[tuple[str, ...]], allowed: Sequence[CommandRule], project: ProjectView
) -> CallJudgement:
    """Judge the commands of a plain text, in order. Once one of them may do more than read, what a later one reads is not known: the
    folder may be another one, and a file a link.
    """
    if not plain:
        return UNKNOWN
    only_reads = True
    offers: list[CommandRule | None] = []
    bases = [""]
    if (folder := _leading_cd(plain[0])) and await project.may_read([folder], recurses=False):
        bases.append(folder)
        plain = plain[1:]
    for words in plain:
        reads = find_reads(words)
        if (
            reads
            and (only_reads or reads.needs_no_file)
            and await _may_read(reads, bases, project)
            and await project.is_own_program(words[0])
        ):
            continue
        only_reads = False
        if not any(rule.matches(words) for rule in allowed):
            offers.append(_offer(words))
    if offers:
        return CallJudgement("none", rules=_texts(offers))
    return CallJudgement("reads" if only_reads else "allow")


def _leading_cd(words: tuple[str, ...]) -> str:
    """The folder of a ``cd``; empty if it is none, if CDPATH has a say in where it leads, or if it may go through a link and back: for bash
    ``link/..`` is the folder of the link, and for everybody else that of its target.
    """
    is_cd = len(words) == 2 and words[0] == "cd" and words[1].startswith(("/", "./", "../"))
    if not (is_cd or words == ("cd", "..")):
        return ""
    down = re.sub(r"^(?:\.\.?(?:/+|$))*", "", words[1])
    return "" if ".." in down.split("/") else words[1]


async def _may_read(reads: Reads, bases: Sequence[str], project: ProjectView) -> bool:
    """Whether a command that reads may do so unasked, in whichever of the folders it runs."""
    for base in bases:
        paths = [posixpath.join(base, path) for path in reads.paths]
        if reads.uses_git and not (
            (reads.needs_repository and await project.has_no_repository(base))
            or await project.is_git_safe(base)
        ):
            return False
        if not await project.may_read(paths or [base], recurses=reads.recurses):
            return False
    return True


# -- rules that an answer may keep -------------------------------------------------------------------------

MAX_OFFERS: Final = 3
"""Rules that one answer may keep: a user reads no more."""

MAX_OFFERED: Final = 120
"""Characters of them."""


def _texts(offers: Sequence[CommandRule | None]) -> tuple[str, ...]:
    """The rules as texts; none if one command is better asked about each time, or if there are too many for one answer."""
    texts = tuple(dict.fromkeys(map(str, offers)))
    is_short = len(texts) <= MAX_OFFERS and len(" ".join(texts)) <= MAX_OFFERED
    return texts if is_short and None not in offers else ()


def _offer(words: tuple[str, ...]) -> CommandRule | None:
    """The rule that allows a command, and where a user means that, others of its kind."""
    if program(words) in programs().asked_each_time or reads_program(words):
        return None
    if not words[0] or any("*" in word or "\n" in word for word in words):
        return None  # no rule says that
    if (subcommands := programs().families.get(words[0])) is None:
        return CommandRule(words)
    if not subcommands:
        return CommandRule(words[:1], any_rest=True)
    if len(words) < 2 or words[1] not in subcommands.split():
        return CommandRule(words)
    named = 3 if words[1] == "run" and words[0] != "cargo" else 2
    if len(words) < named or words[named - 1].startswith("-"):
        return CommandRule(words)
    return CommandRule(words[:named], any_rest=True)
