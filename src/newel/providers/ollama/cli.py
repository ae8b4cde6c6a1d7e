"""A model on some host, run by ``ollama run``: the conversation is its standard input, the response its standard
output.

Facts from Ollama's ``cmd/cmd.go`` at v0.33.0 and the versions named:

- Words are wrapped unless ``--nowordwrap`` is given; since v0.20.0 also into a pipe, at 80 columns, with escape
  sequences that erase printed text.
- Since v0.9.0, models that can think do so, and print ``Thinking...``, the thoughts, and ``...done thinking.``, unless
  ``--think=false`` and ``--hidethinking`` are given. Older versions reject these: ``Error: unknown flag: --think``, exit
  code 1.
- Spinner and errors go to stderr. Two line feeds follow the response.
- ``--format`` takes ``json``, and since v0.5.0 a JSON Schema.
- A missing model is downloaded. Therefore ``ollama show`` runs first, which fails with ``not found``.
- Without a login, a cloud model prints a message on stdout and exits with 0.
- No flag sets the context size. Excess text is dropped silently; ``ollama ps`` shows the size once the model is loaded
  (since v0.10.0).
- A vision model gets the images whose paths occur in the prompt, if they exist on the host.
"""

from __future__ import annotations

import codecs
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from newel.agent.errors import (
    BadResponse,
    ConnectionFailed,
    ContextOverflow,
    HostUnreachable,
    ProviderError,
    RequestRejected,
    ServerFailed,
    WorkspaceError,
    as_sentence,
)
from newel.agent.events import Retry
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest, OnDelta
from newel.providers.errors import is_overflow, quote
from newel.providers.ollama.model_info import full_name, is_cloud_model, missing_model_error
from newel.providers.openai.stream import ResponseAccumulator
from newel.providers.parsing import text_protocol
from newel.text.json import regex, to_json
from newel.workspace.port import ProgramEnded

if TYPE_CHECKING:
    from newel.providers.listed_models import ListedModel

SMALLEST = 4_096
"""The default context of a server with little memory, in tokens."""

MAX_ASIDE = 2**20
"""Bytes kept of the output of a query."""

MAX_PRINTED = 8 * 2**20
"""Bytes of one response: more than any model writes."""

MAX_PROGRESS = 4_096
"""Bytes kept of a download's output."""

_ESCAPE = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|.)|[\u2800-\u28ff]"
_ERROR = r"(?im)^\s*error:\s*(.+)$"
_UNKNOWN_FLAG = r"(?:unknown flag: |for \")(--[a-z]+)"
_NO_THINKING = r"does not support thinking"
_NO_FORMAT = r"invalid format|format must be"
_NO_SERVER = r"(?i)could not connect|connection refused|is it running|timed out waiting for server"
_PASSING = r"(?i)server busy|try again|has terminated|unexpected(?:ly)? |EOF"
_MISSING = r"(?i)\bnot found|file does not exist"
_SIGN_IN = "You need to be signed in to Ollama"
_NUM_CTX = r"(?m)^\s*num_ctx\s+(\d{1,9})\s*$"
_CAPABILITIES = r"(?m)^\s*Capabilities\s*$((?:\n\s*\w+\s*$)+)"
_IF_IT_IS_THERE = 'm=$1; shift; ollama show -- "$m" >/dev/null || exit; exec ollama run "$@" -- "$m"'
_LIKE = "Use a name like llama3.2 or qwen3:8b; `ollama list` on the host shows the installed models."
_NO_PROGRAM = 127
_THINKING = "Thinking...\n"
_THOUGHT = "...done thinking.\n\n"
_END = "\n\n"


class ProgramRunner(Protocol):
    """Runs programs on one host."""

    @property
    def place(self) -> str:
        """The name of the host."""
        ...

    async def run_program(
        self, argv: Sequence[str], /, *, stdin: bytes, on_stdout: Callable[[bytes], Awaitable[None]]
    ) -> ProgramEnded:
        """Run a program that is found like those of the user's own commands, with ``stdin`` as its standard input
        and without a terminal; pass on its standard output in pieces. Cancellation ends the program. Raises
        ``WorkspaceError`` if the host is unreachable or its answer was lost. A missing program ends with 127.
        """
        ...


class ShowOutput(NamedTuple):
    """The output of ``ollama show`` for a model: its configured context, and whether it thinks (None: unknown)."""

    num_ctx: int
    thinks: bool | None


class OllamaCli:
    """A ``ModelServer`` that uses ``ollama run`` on the host of ``programs``. Requests with tools are refused, because
    the program cannot offer them.

    Flags that the host's version rejects are omitted from then on; a ``Retry`` without delay reports it. Raises
    ``ModelMissing`` for a model that the host does not have.
    """

    way = "ollama run"
    is_local = True
    supports_schema = True

    def __init__(
        self,
        programs: ProgramRunner,
        *,
        name: str = "ollama",
    ) -> None:
        self.name = name
        self.reason = ""
        """Where else Newel looked for Ollama, and the result; empty for nowhere."""
        self._programs = programs
        self._shown: dict[str, ShowOutput] = {}
        self._refused: set[str] = set()

    async def complete(self, request: ModelRequest, on_delta: OnDelta, /) -> AssistantMessage:
        """Ask the model; see ``Provider.complete``."""
        model = request.model.id
        info = await self._show(model)
        if request.tools:
            raise self._no_tools(model)
        prompt = text_protocol.format_prompt(request).encode("utf-8", "replace")
        tries = 0
        while True:
            flags = self._flags(request, info)
            answer = _CliAnswer(ResponseAccumulator(), on_delta, thinks="--think=true" in flags)
            argv = ["sh", "-c", _IF_IT_IS_THERE, "sh", model, *flags]
            result = await self._run(argv, prompt, answer.take)
            if result.exit_code == 0:
                return await self._whole(answer, model, result)
            error = self._failure(result, model)
            refused = self._flag_in(str(error), flags)
            if not refused:
                raise error
            self._refused.add(refused)
            tries += 1
            reason = f"the host's ollama rejected it; retrying without {refused}"
            await on_delta(Retry(attempt=tries, max_attempts=tries, delay=0.0, reason=reason))

    async def models(self) -> list[str]:
        """The names of the host's models, in its order. Raises ``ProviderError``."""
        rows = (await self._query("list")).split("\n")[1:]
        return [row.split()[0] for row in rows if row.strip()]

    async def list_models(self) -> list[ListedModel]:
        """The host's models, without facts: each would need a program of its own. Raises ``ProviderError``."""
        from newel.providers.listed_models import ListedModel

        return [ListedModel(name) for name in await self.models()]

    async def is_priced(self, model: str) -> bool:
        """Local models are free; the prices of cloud models are unknown."""
        return not is_cloud_model(model)

    async def window(self, model: str) -> int | None:
        """The size of the model's context in tokens: that of the loaded model, or else the minimum that the server
        will use. Raises ``ProviderError``.
        """
        try:
            loaded = _loaded_context(await self._query("ps"), full_name(model))
        except RequestRejected:  # not supported by this version
            loaded = 0
        return loaded or (await self._show(model)).num_ctx or SMALLEST

    async def pull(self, model: str, on_progress: Callable[[str], Awaitable[None]]) -> None:
        """Download a model on the host; ``on_progress`` gets progress messages. Raises ``ProviderError``."""
        _check_name(model)
        progress = bytearray()

        async def on_stdout(piece: bytes) -> None:
            progress.extend(piece)
            del progress[:-MAX_PROGRESS]
            if lines := [line.strip() for line in _plain(bytes(progress)).split("\n") if line.strip()]:
                await on_progress(quote(lines[-1], ""))

        argv = ["sh", "-c", 'exec ollama pull -- "$1" 2>&1', "sh", model]  # its progress goes to stderr
        result = await self._run(argv, b"", on_stdout)
        if result.exit_code != 0:
            raise self._failure(ProgramEnded(result.exit_code, bytes(progress)), "")

    async def aclose(self) -> None:
        """Nothing to close: each program ends with its response."""

    async def _show(self, model: str) -> ShowOutput:
        """The host's information about the model, queried once."""
        if model not in self._shown:
            _check_name(model)
            output = await self._query("show", "--", model, model=model)
            num_ctx = regex(_NUM_CTX).search(output)
            able = regex(_CAPABILITIES).search(output)
            thinks = "thinking" in able[1].split() if able else None
            self._shown[model] = ShowOutput(int(num_ctx[1]) if num_ctx else 0, thinks)
        return self._shown[model]

    def _flags(self, request: ModelRequest, info: ShowOutput) -> list[str]:
        thinking = ["--think=false", "--hidethinking"] if request.thinking == "off" else ["--think=true"]
        flags = ["--nowordwrap", *(thinking if info.thinks is not False else [])]
        if request.response_schema is not None:
            flags.append(f"--format={to_json(request.response_schema).decode()}")
        return [flag for flag in flags if flag.partition("=")[0] not in self._refused]

    def _flag_in(self, text: str, flags: Sequence[str]) -> str:
        """The flag that a refusal is about, empty if it is about something else."""
        names = {flag.partition("=")[0] for flag in flags}
        unknown = regex(_UNKNOWN_FLAG).search(text)
        named = unknown[1] if unknown else ""
        for about, flag in ((_NO_THINKING, "--think"), (_NO_FORMAT, "--format")):
            if not named and regex(about).search(text):
                named = flag
        return named if named in names else ""

    async def _query(self, *arguments: str, model: str = "") -> str:
        """The output of a query to the program."""
        pieces = bytearray()

        async def on_stdout(piece: bytes) -> None:
            pieces.extend(piece[: MAX_ASIDE - len(pieces)])

        result = await self._run(["ollama", *arguments], b"", on_stdout)
        if result.exit_code != 0:
            raise self._failure(result, model)
        return pieces.decode("utf-8", "replace")

    async def _run(
        self, argv: Sequence[str], stdin: bytes, on_stdout: Callable[[bytes], Awaitable[None]]
    ) -> ProgramEnded:
        try:
            return await self._programs.run_program(argv, stdin=stdin, on_stdout=on_stdout)
        except HostUnreachable as error:  # it was waited for already
            raise ProviderError(str(error)) from error
        except WorkspaceError as error:  # a query changes nothing, so it may be repeated
            raise ConnectionFailed(str(error)) from error

    async def _whole(self, answer: _CliAnswer, model: str, result: ProgramEnded) -> AssistantMessage:
        await answer.close()
        place = self._programs.place
        if not answer.fold.started:
            detail = f": {as_sentence(error_text)}" if (error_text := _error_message(result.stderr)) else "."
            raise BadResponse(f"'{model}' on {place} returned an empty answer{detail}")
        message = answer.fold.message(model=model, provider=self.name)
        if message.text.startswith(_SIGN_IN):
            raise RequestRejected(
                f"'{model}' runs in Ollama's cloud, and {place} is not signed in to it. Sign in there: ollama signin"
            )
        return message

    def _no_tools(self, model: str) -> RequestRejected:
        api = (
            f"Its API was not reached {self.reason}" if self.reason else "Use its API instead: --through auto"
        )
        return RequestRejected(
            f"Agents need tools, and `ollama run` offers none to '{model}' on {self._programs.place}. {as_sentence(api)}"
        )

    def _failure(self, result: ProgramEnded, model: str) -> ProviderError:
        place = self._programs.place
        message = _error_message(result.stderr)
        if result.exit_code == _NO_PROGRAM:
            api = f" Its API was not reached {self.reason}" if self.reason else ""
            return RequestRejected(
                f"`ollama` was not found on {place}. Install it there (https://ollama.com/download), or add it to the "
                f"PATH of commands over SSH.{api}"
            )
        if regex(_NO_SERVER).search(message):
            return ConnectionFailed(
                f"Ollama is not running on {place}: {as_sentence(message)} Start it there: ollama serve"
            )
        if model and regex(_MISSING).search(message):
            return missing_model_error(model, place)
        if is_overflow(message):
            return ContextOverflow(f"The conversation is too long for {model}: {as_sentence(message)}")
        kind = ServerFailed if regex(_PASSING).search(message) else RequestRejected
        return kind(
            f"ollama on {place} exited with code {result.exit_code}: {as_sentence(message or 'it printed nothing')}"
        )


class _CliAnswer:
    """Parses the program's output. ``thinks``: it may begin with thoughts."""

    def __init__(self, fold: ResponseAccumulator, on_delta: OnDelta, *, thinks: bool) -> None:
        self.fold = fold
        self._on_delta = on_delta
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._within: Literal["beginning", "thoughts", "answer"] = "beginning" if thinks else "answer"
        self._kept = ""
        self._size = 0

    async def take(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MAX_PRINTED:
            raise BadResponse(f"The model was stopped: it wrote more than {MAX_PRINTED // 2**20} MiB.")
        self._kept += self._decode(piece)
        await self._emit(self._split())

    async def close(self) -> None:
        """The program succeeded, so its output is complete."""
        await self.take(self._decode(b"", final=True).encode())
        await self._emit([(self._within == "thoughts", self._kept.rstrip("\n"))])
        self.fold.on_done()
        for delta in self.fold.close():
            await self._on_delta(delta)

    def _split(self) -> Iterator[tuple[bool, str]]:
        """Return complete parts; keep a possible beginning of a marker, and two line feeds, which may be the
        program's.
        """
        if self._within == "beginning":
            if self._kept != _THINKING and _THINKING.startswith(self._kept):
                return
            self._within = "thoughts" if self._kept.startswith(_THINKING) else "answer"
            self._kept = self._kept.removeprefix(_THINKING)
        if self._within == "thoughts":
            thoughts, closed, rest = self._kept.partition(_THOUGHT)
            if not closed:
                at = max(0, len(self._kept) - len(_THOUGHT))
                yield True, self._kept[:at]
                self._kept = self._kept[at:]
                return
            yield True, thoughts.removesuffix("\n")
            self._within, self._kept = "answer", rest
        end = self._kept[-len(_END) :]
        at = len(self._kept) - len(end) + len(end.rstrip("\n"))
        yield False, self._kept[:at]
        self._kept = self._kept[at:]

    async def _emit(self, pieces: Iterable[tuple[bool, str]]) -> None:
        for thinking, text in pieces:
            if text:
                delta = {"thinking" if thinking else "content": text}
                for event in self.fold.feed({"choices": [{"delta": delta}]}):
                    await self._on_delta(event)


def _check_name(model: str) -> None:
    if model.startswith("-") or not model.isprintable() or " " in model or not model:
        raise RequestRejected(f"'{quote(model, '')}' is not a valid model name. {_LIKE}")


def _plain(printed: bytes) -> str:
    """The output without cursor movements and the spinner."""
    return regex(_ESCAPE).sub("", printed.decode("utf-8", "replace").replace("\r", "\n"))


def _error_message(stderr: bytes) -> str:
    """The program's error message."""
    text = _plain(stderr)
    errors = regex(_ERROR).findall(text)
    return quote(errors[-1] if errors else text, "")


def _loaded_context(table: str, model: str) -> int:
    """The context of a loaded model from the table of ``ollama ps``, 0 if it is not listed."""
    head, *rows = table.split("\n")
    at, end = head.find("CONTEXT"), head.find("UNTIL")
    for row in rows:
        if 0 <= at < end and row.split()[:1] == [model] and row[at:end].strip().isdecimal():
            return int(row[at:end])
    return 0
