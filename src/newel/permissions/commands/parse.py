"""The simple commands in a text of bash, for rules: parsed, never executed.

``parse`` looks into pipelines, lists, subshells, substitutions and loops, and through programs that start others (``env``, ``xargs``,
``find -exec``, ``sh -c``, …), so that a rule that forbids a command sees it wherever it stands. A text is ``plain`` only if it is
nothing but simple commands with literal words: what a plain text runs is known exactly.
"""

from __future__ import annotations

import itertools
import re
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from newel.permissions.commands.programs import programs

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_TEXT: Final = 20_000
"""Bytes of a command that are parsed; a longer one is not plain, and nothing is known of it."""

MAX_DEPTH: Final = 4
"""How deep a command in an argument of another one is looked for; nothing is known of a deeper one."""

MAX_PARSED: Final = 4 * MAX_TEXT
"""Bytes that are parsed for one command, with all commands in its arguments."""

MAX_STARTED: Final = 200
"""Words of a program that starts others, at which the other one may begin."""

MAX_SECONDS: Final = 0.5
"""Processor time after which parsing a command ends and nothing is known of it: a usual one of 20 KB takes 5 ms, a hostile one took
seconds, in which nothing else in the process went on.
"""

Words = tuple[str | None, ...]
"""The words of a simple command, the program first. None is a word that is only known when the command runs."""

_PLAIN: Final = frozenset(
    {"comment", "program", "list", "pipeline", "command", "command_name", "redirected_statement"}
)
_WORDS: Final = frozenset({"word", "number", "raw_string", "string", "string_content", "concatenation"})
_EVALUATING: Final = frozenset(
    {
        *("unset_command", "declaration_command", "unary_expression", "binary_expression"),
        *("variable_assignment", "subscript"),
    }
)
"""Nodes in which a quoted word may be evaluated, now or later: the index of an array, as by the programs in ``programs().evaluating``, and
what ``PS4`` or ``${x@P}`` expand.
"""

_TOKENS: Final = frozenset({"&&", "||", ";", "|", "\n", '"'})
_SAFE_REDIRECT: Final = re.compile(r"[012]?>&[12]|(?:[012]|&)?>>?\s*/dev/null|0?<\s*/dev/null")

_UNUSUAL: Final = re.compile(
    r"[^\x20-\x7e\n\u00a1-\u1fff\u2c00-\ud7ff\uf900-\ufdff\ufe20-\ufe4f\U00010000-\U0001ffff]"
)
"""Characters that a shell and a parser may see differently: control characters, odd spaces."""

_BEYOND_LATIN: Final = re.compile(r"[^\x00-\xff]")
_UNREAD: Final = "\x80"
"""Stands for a character that the parser must not see: behind a brace, it looks such a one up in a table of 256 places, and crashes. A word
with it is not known.
"""

_ESCAPED_START: Final = re.compile(r"(\n[ \t]*)\\(?=[\w./])")
"""A backslash before the first word of a line, which keeps bash from replacing an alias."""

_SPECIAL: Final = re.compile(r"[*?\[\]{}~!$`]")
"""In a word without quotes, what bash may replace by something else."""

_RUN_BY_GIT: Final = re.compile(
    r"(?si)(?:alias\.[^=]*=!|(?:core|sequence|diff|filter|merge|difftool|mergetool|pager|gpg|credential)\.[^=]*=!?"
    r"|--(?:exec|extcmd|open-files-in-pager|upload-pack|receive-pack)=|-O)(.*)"
)
"""Arguments of git that have a command in them."""

_ALIAS: Final = re.compile(r"(?si)alias\.([^=]*)=(?!!)(.*)")

_GLOBAL_WITH_VALUE: Final = frozenset(
    {
        *("-c", "-C", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix"),
        *("--config-env", "--attr-source"),
    }
)

_APPENDING: Final = frozenset({"fd", "parallel", "xargs"})
"""Programs that start others with more arguments than they name."""

_SHELL_OPTIONS_WITH_VALUE: Final = frozenset({"--rcfile", "--init-file"})
_SCRIPT_OPTION: Final = r"-[a-zA-Z]*c[a-zA-Z]*|--command"
"""The option of a shell that gets a script: the first argument behind all options."""

_INPUT: Final = frozenset({"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})


class ParsedCommand(NamedTuple):
    """``commands`` are all simple commands that a text may run, as far as they can be seen, those that other programs start
    included. ``plain`` are those that bash itself runs, if nothing else is in the text; otherwise it is empty.
    """

    commands: list[Words]
    plain: list[tuple[str, ...]]

    @property
    def hides_program(self) -> bool:
        """Whether a program's name is only known when the command runs."""
        return any(not words or words[0] is None or _runs_unknown_script(words) for words in self.commands)


def parse(text: str) -> ParsedCommand:
    """The simple commands of a text. Never raises."""
    search = _Search()
    plain: list[tuple[str, ...]] = []
    is_plain = search.collect(text, plain)
    return ParsedCommand(search.commands, plain if is_plain else [])


class _Search:
    """Finds the simple commands in a text. One of which nothing is known stands for what is too long, or takes too long, to be looked
    through.
    """

    def __init__(self) -> None:
        self.commands: list[Words] = []
        self._room = MAX_PARSED
        self._deadline = time.thread_time() + MAX_SECONDS

    def collect(self, text: str, plain: list[tuple[str, ...]], depth: int = 0) -> bool:
        """Append the simple commands in a text; whether it is plain."""
        seen = _BEYOND_LATIN.sub(_UNREAD, text) if "{" in text else text
        data = seen.encode("utf-8", "surrogatepass")
        self._room -= len(data)
        fits = len(data) <= MAX_TEXT and self._room >= 0 and "\0" not in text
        root = self._root(data) if fits else None
        if root is None:
            self.commands.append((None,))
            return False
        is_plain = not root.has_error and _UNUSUAL.search(text) is None and not _skips_text(root, data)
        for node, parent in _nodes(root):
            if node.type == "command":
                words = tuple(_words(node))
                self.commands += [words, *_started(words)]
                self._collect_all(_scripts(words), depth)
                literal = tuple(word for word in words if word is not None)
                is_plain &= bool(literal) and len(literal) == len(words)
                plain.append(literal)
            self._collect_all(_hidden_scripts(node), depth)
            if node.type == "raw_string" and parent is not None and parent.type in _EVALUATING:
                self._collect_all(_evaluated(_text(node)), depth)
            is_plain &= _is_plain(node, parent)
        if root.has_error:
            self.commands.append((None,))  # what bash makes of it is anybody's guess
        self._collect_all(_other_readings(text), depth)
        return is_plain

    def _root(self, data: bytes) -> Node | None:
        """The parsed text; None after the deadline."""
        parser = _parser()
        try:
            return parser.parse(
                lambda start, _: data[start:],
                progress_callback=lambda _offset, _has_error: time.thread_time() > self._deadline,
            ).root_node
        except ValueError:
            parser.reset()  # else it would go on with this text
            return None

    def _collect_all(self, scripts: Iterable[str], depth: int) -> None:
        """Append the commands of texts within another one."""
        for script in scripts:
            if depth == MAX_DEPTH:
                self.commands.append((None,))
                return
            self.collect(script, [], depth + 1)
            if self._room < 0:
                return


def _other_readings(text: str) -> Iterator[str]:
    """The text as bash reads it where the parser does not. Bash joins lines, also within a word, but not behind a comment; for the parser,
    a line that begins with a backslash is part of the one before.
    """
    if "\\" in text:
        readings = (_ESCAPED_START.sub(r"\1", each) for each in (text, text.replace("\\\n", "")))
        yield from (reading for reading in dict.fromkeys(readings) if reading != text)


def _hidden_scripts(node: Node) -> Iterator[str]:
    """Commands that the parser does not show as such: with words behind a redirection, as in ``git >f push``, and in backquotes within
    backquotes.
    """
    if node.type == "command_substitution" and "\\`" in (text := _text(node)) and text.startswith("`"):
        yield text[1:-1].replace("\\`", "`")
    if node.type != "redirected_statement":
        return
    cuts = [span for child in node.children_by_field_name("redirect") for span in _redirections(child)]
    data, at, kept = node.text or b"", node.start_byte, list[bytes]()
    for start, end in cuts:
        kept.append(data[at - node.start_byte : start - node.start_byte])
        at = end
    kept.append(data[at - node.start_byte :])
    if b"".join(kept[1:]).strip() or node.child_by_field_name("body") is None:
        yield b" ".join(kept).decode("utf-8", "replace")


def _redirections(node: Node) -> Iterator[tuple[int, int]]:
    """Where the redirections of a node are, without words behind them."""
    if node.type == "file_redirect":
        targets = node.children_by_field_name("destination")
        yield node.start_byte, targets[0].end_byte if targets else node.end_byte
    elif node.type == "heredoc_redirect":
        start = next((child for child in node.children if child.type == "heredoc_start"), node)
        yield node.start_byte, start.end_byte
        for child in node.children:
            if child.type in {"heredoc_body", "heredoc_end"}:
                yield child.start_byte, child.end_byte
            else:
                yield from _redirections(child)
    elif node.type == "herestring_redirect":
        yield node.start_byte, node.end_byte


def _evaluated(text: str) -> Iterator[str]:
    """The index of an array, which bash evaluates although it is quoted."""
    if "$(" in text or "`" in text:
        yield ': "{}"'.format(text.strip("'"))


@cache
def _parser() -> Parser:
    import tree_sitter_bash  # loaded for the first command that a rule has to judge
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _nodes(root: Node) -> Iterator[tuple[Node, Node | None]]:
    """All nodes, each with its parent, which the parser would have to look for from the root."""
    waiting: list[tuple[Node, Node | None]] = [(root, None)]
    while waiting:
        node, parent = waiting.pop()
        yield node, parent
        waiting += [(child, node) for child in reversed(node.children)]


def _skips_text(root: Node, data: bytes) -> bool:
    """Whether the parser took something for space between words that is none: a backslash, above all."""
    at = 0
    for node, _ in _nodes(root):
        if node.child_count == 0 or node.type in {"string", "raw_string"}:
            if data[at : node.start_byte].strip(b" \t\n"):
                return True
            at = max(at, node.end_byte)
    return bool(data[at:].strip(b" \t\n"))


def _is_plain(node: Node, parent: Node | None) -> bool:
    if node.is_missing or node.is_error:
        return False
    if node.type == "word" and b"\\" in (node.text or b""):
        return False  # the parser ends words at some backslashes where bash does not
    if node.type == "command" and any(
        one.end_byte == other.start_byte for one, other in pairwise(node.children)
    ):
        return False  # one word for bash
    if node.type == "file_redirect":
        return _SAFE_REDIRECT.fullmatch(_text(node)) is not None
    inside_redirect = parent is not None and parent.type == "file_redirect"
    return inside_redirect or node.type in _PLAIN or node.type in _WORDS or node.type in _TOKENS


def _words(command: Node) -> list[str | None]:
    words: list[str | None] = []
    end = -1
    for child in command.children:
        if child.type == "variable_assignment":
            continue  # not plain, and no word
        if child.type in {"file_redirect", "herestring_redirect", "heredoc_redirect"}:
            continue
        word = _literal(child.children[0] if child.type == "command_name" and child.children else child)
        if child.start_byte == end:  # one word for bash
            before = words.pop()
            word = None if word is None or before is None else before + word
        words.append(word)
        end = child.end_byte
    return words


def _literal(node: Node) -> str | None:
    """The text that bash makes of a word; None if it depends on more than the word, or was not read."""
    match node.type:
        case "word" | "number" | "raw_string" | "string" if _UNREAD in _text(node):
            return None
        case "word" | "number":
            return _unquoted(_text(node))
        case "raw_string":
            return _text(node)[1:-1]
        case "string":
            text = _text(node)[1:-1]
            return None if re.search(r"[$`\\!]", text) else text
        case "concatenation":
            parts = [_literal(child) for child in node.children]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case _:
            return None


def _unquoted(text: str) -> str | None:
    """A word without quotes: a backslash takes the next character as it is."""
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            out.append(text[at + 1])
            at += 2
        elif _SPECIAL.match(text[at]) or (text[at] == "=" and not out):
            return None
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


# -- commands within commands -----------------------------------------------------------------------------


def program(words: Words) -> str:
    """The name of the program without its folder; empty if it is unknown."""
    return (words[0] or "").rpartition("/")[2] if words else ""


def _started(words: Words) -> Iterator[Words]:
    """What another program may start: each rest of its arguments, as its options are not known. Of ``git`` the subcommand."""
    name = program(words)
    if name in programs().starters:
        if len(words) > MAX_STARTED:
            yield (None,)
        for at in range(1, min(len(words), MAX_STARTED)):
            if words[at] is None or not str(words[at]).startswith("-"):
                yield words[at:]
                if name in _APPENDING:
                    end = words.index(":::", at) if ":::" in words[at:] else len(words)
                    yield (*words[at:end], None)
    if name == "git" and (plain := without_global_options(words)) != words:
        yield plain


def _scripts(words: Words) -> Iterator[str]:
    """Arguments that are commands themselves, or have some in them."""
    name, known = program(words), programs()
    texts = [word for word in words[1:] if word is not None]
    if name in known.shells or name in known.starters:
        yield from (word for word in texts if re.search(r"\s", word))
    if name in known.shells:
        behind = [*itertools.dropwhile(lambda word: re.fullmatch(_SCRIPT_OPTION, word) is None, texts)]
        yield from behind[len(_shell_options(behind)) :][:1]
    if name == "env":
        split = (re.match(r"-[a-zA-Z]*?S|--s[a-z-]*=", word) for word in texts)
        yield from (found.string[found.end() :] for found in split if found)
    if name == "git":
        yield from (found[1] for word in texts if (found := _RUN_BY_GIT.match(word)))
        yield from (word for option, word in pairwise(texts) if option in {"--exec", "-x"})
        yield from (
            script
            for at, word in enumerate(texts)
            if word in {"foreach", "run"}
            for script in (" ".join(map(shlex.quote, texts[at + 1 :])), " ".join(texts[at + 1 :]))
        )
        yield from (word for option, word in pairwise(texts) if option.endswith("-filter"))
        rest = [word or "" for word in without_global_options(words)[1:]]
        yield from (
            f"git {found[2]} {shlex.join(rest[1:])}"
            for word in texts
            if (found := _ALIAS.match(word)) and rest[:1] == [found[1]]
        )
    if name == "alias":
        yield from (word.partition("=")[2] for word in texts)
    if name in known.evaluating:
        yield from (f': "{word}"' for word in texts if "$(" in word or "`" in word)
    if name in {"eval", "exec"} and None not in words:
        yield " ".join(texts).removeprefix("-- ")


def _runs_unknown_script(words: Words) -> bool:
    """Whether a shell gets a script that is only known when it runs, or reads it from its standard input; or git an alias."""
    if program(words) == "git":
        return None in words[: len(words) - len(without_global_options(words)) + 1]
    if program(words) not in programs().shells:
        return False
    return None in words or reads_program(words)


def reads_program(words: Words) -> bool:
    """Whether a shell or an interpreter runs what it reads from its standard input. Further words are arguments of that."""
    known = programs()
    name = program(words)
    if name not in known.shells | known.interpreters:
        return False
    is_shell = name in known.shells
    options = _shell_options(words[1:]) if is_shell else list(itertools.takewhile(_is_option, words[1:]))
    operand = words[len(options) + 1 :][:1]
    if operand in {(), *((path,) for path in _INPUT)} or "-" in options:
        return True
    return is_shell and any(re.fullmatch(r"-[a-zA-Z]*s[a-zA-Z]*", word or "") for word in options)


def _is_option(word: str | None) -> bool:
    return word is not None and word.startswith("-")


def _shell_options(words: Sequence[str | None]) -> Sequence[str | None]:
    """The options of a shell at the beginning of its arguments, and their values."""
    at = 0
    while at < len(words) and (word := words[at]) is not None and word.startswith(("-", "+")):
        is_long = word.startswith("--")
        values = word in _SHELL_OPTIONS_WITH_VALUE if is_long else word.count("o") + word.count("O")
        at += 1 + values
    return words[:at]


def without_global_options(words: Sequence[str | None]) -> Words:
    """A command of git without the options before its subcommand."""
    at = 1
    while at < len(words) and (word := words[at]) is not None and word.startswith("-"):
        at += 2 if word in _GLOBAL_WITH_VALUE else 1
    return (words[0], *words[at:])
