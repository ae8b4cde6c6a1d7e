"""Other coding agents that the suite can run: how each is started with a given model, and what its output tells.

A preset is data. Its command is for a shell; what it needs of the model comes by its environment and by files in the
empty home of a trial, so that a prompt, an address or a name is never part of a command unquoted. The key is in the
environment alone. All else is as each agent has it by default: its prompt, its tools, its limits.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from newel.agent.errors import UsageError
from newel.agent.messages import Usage
from newel.evals.trial import PROMPT, TRACE, AgentReport, AgentSetup, Metrics
from newel.providers.families import Api, find_api
from newel.providers.http.urls import model_file_path, ollama_http_url, pulled_model
from newel.text.json import as_dict, as_list, as_str, parse

PriceOf = Callable[[Usage], float | None]
"""The price of a response in US dollars; None if it is unknown."""

NO_KEY: Final = "none"
"""For a server that needs no key: the agents want to have one."""


class GivenModel(msgspec.Struct, frozen=True):
    """The model that an agent is to use. ``base_url`` is that of HTTP requests, without what an API appends to it."""

    base_url: str
    api: Api
    model: str
    api_key: str = NO_KEY


class AgentOutput(msgspec.Struct, frozen=True):
    """What the output of an agent tells. ``usages`` are those of its requests, or sums of them. ``problem`` says why
    it gave up.
    """

    answer: str = ""
    usages: Sequence[Usage] = ()
    requests: int | None = None
    tool_calls: int | None = None
    problem: str = ""


class AgentPreset(msgspec.Struct, frozen=True, kw_only=True):
    """An agent. ``install`` is a command that installs its ``program``. ``apis`` are those of model servers that it
    can use, with its own names for them.

    ``{base_url}``, ``{key}``, ``{model}`` and ``{api}`` stand for the model's in the values of ``environ``, and
    ``{API}`` in their names. In ``files``, which are written to the agent's home, they stand for JSON strings, which
    TOML reads, too; there is no key among them.
    """

    program: str
    install: str
    command: str
    apis: Mapping[Api, str]
    environ: Mapping[str, str]
    files: Mapping[str, str] = {}
    read: Callable[[str], AgentOutput]

    def setup(self, model: GivenModel, price_of: PriceOf) -> AgentSetup:
        """Raises ``UsageError`` if the agent cannot use the server's API."""
        api = self.apis.get(model.api)
        if api is None:
            raise UsageError(
                f"{self.program} cannot use a server with the API `{model.api}`, only {', '.join(self.apis)}. Choose another server, or another agent."
            )
        words = {"{base_url}": model.base_url, "{key}": model.api_key, "{model}": model.model, "{api}": api}
        quoted = {mark: msgspec.json.encode(word).decode() for mark, word in words.items() if mark != "{key}"}
        return AgentSetup(
            command=self.command,
            environ={
                name.replace("{API}", api.upper()): _filled(value, words)
                for name, value in self.environ.items()
            },
            files={path: _filled(text, quoted) for path, text in self.files.items()},
            read=lambda text: _report(self.read(text), price_of),
        )


def _filled(text: str, words: Mapping[str, str]) -> str:
    """In one pass, so that a word may look like a mark."""
    return re.sub("|".join(map(re.escape, words)), lambda match: words[match[0]], text)


def _report(output: AgentOutput, price_of: PriceOf) -> AgentReport:
    costs = [price_of(usage) for usage in output.usages]
    known = [cost for cost in costs if cost is not None]
    total = sum(output.usages, Usage())
    is_silent = not output.usages and not output.answer
    return AgentReport(
        answer=output.answer,
        problem=output.problem or ("It got no answer from the model." if is_silent else ""),
        metrics=Metrics(
            requests=output.requests,
            tool_calls=output.tool_calls,
            input_tokens=total.input if output.usages else None,
            output_tokens=total.output if output.usages else None,
            cost=sum(known) if known and len(known) == len(costs) else None,
        ),
    )


def choose_agent(words: str) -> AgentPreset | None:
    """The preset of this name; None for a shell command with a prompt. Raises ``UsageError`` for what is neither, and
    for a preset whose program is missing.
    """
    preset = PRESETS.get(words.strip())
    if preset is None:
        if PROMPT not in words:
            raise UsageError(
                f"`{words}` is not an agent that Newel can start: {', '.join(PRESETS)}. To run another one, give a shell command that contains {PROMPT}."
            )
        return None
    if shutil.which(preset.program) is None:
        raise UsageError(
            f"{words.strip()} is not installed: there is no program `{preset.program}`. Install it: `{preset.install}`"
        )
    return preset


def given_model(base_url: str, api: Api | None, model: str, api_key: str | None) -> GivenModel:
    """How another agent asks a model of Newel's settings. Raises ``UsageError`` for a model that has no server."""
    if pulled_model(base_url) or model_file_path(base_url):
        raise UsageError(
            "Newel runs a model file by itself; other agents need a server. Start one, and name it with --base-url."
        )
    if ollama := ollama_http_url(base_url):  # it speaks OpenAI's API, too, which all agents know
        return GivenModel(f"{ollama}/v1", "chat", model, api_key or NO_KEY)
    spoken = api or find_api(base_url) or "chat"
    return GivenModel(base_url, spoken, model, api_key or NO_KEY)


# -- what agents write ----------------------------------------------------------------------------


def read_pi(text: str) -> AgentOutput:
    """The events of ``pi --mode json``."""
    events = list(_events(text))
    messages = [as_dict(event.get("message")) for event in events if event.get("type") == "message_end"]
    answers = [message for message in messages if message.get("role") == "assistant"]
    last = answers[-1] if answers else {}
    return AgentOutput(
        answer=_text_of(last.get("content")),
        usages=[usage for message in answers if (usage := _pi_usage(as_dict(message.get("usage")))).total],
        requests=len(answers),
        tool_calls=sum(event.get("type") == "tool_execution_start" for event in events),
        problem=as_str(last.get("errorMessage")) if last.get("stopReason") == "error" else "",
    )


def _pi_usage(usage: dict[str, Any]) -> Usage:
    """Its ``input`` is without the cached part."""
    read, write = _number(usage, "cacheRead"), _number(usage, "cacheWrite")
    return Usage(_number(usage, "input") + read + write, _number(usage, "output"), read, write)


def read_codex(text: str) -> AgentOutput:
    """The events of ``codex exec --json``. How many requests it made is not among them."""
    events = list(_events(text))
    items = [as_dict(event.get("item")) for event in events if event.get("type") == "item.completed"]
    answers = [as_str(item.get("text")) for item in items if item.get("type") == "agent_message"]
    usages = [as_dict(event.get("usage")) for event in events if event.get("type") == "turn.completed"]
    errors = [as_dict(event.get("error")) for event in events if event.get("type") == "turn.failed"]
    return AgentOutput(
        answer=answers[-1] if answers else "",
        usages=[
            Usage(
                _number(usage, "input_tokens"),
                _number(usage, "output_tokens"),
                _number(usage, "cached_input_tokens"),
                _number(usage, "cache_write_input_tokens"),
            )
            for usage in usages
        ],
        tool_calls=sum(item.get("type") in _CODEX_TOOLS for item in items),
        problem=as_str(errors[-1].get("message")) if errors else "",
    )


_CODEX_TOOLS: Final = frozenset({"command_execution", "file_change", "mcp_tool_call", "web_search"})


def read_mini(text: str) -> AgentOutput:
    """The trajectory of mini-swe-agent. Its answer is the last message, and what it has submitted. The response to a
    request that brought no call is with the error that the model was told.
    """
    try:
        whole = as_dict(parse(text))
    except ValueError:
        return AgentOutput()
    messages = [as_dict(message) for message in as_list(whole.get("messages"))]
    answers = [message for message in messages if message.get("role") == "assistant"]
    info = as_dict(whole.get("info"))
    extras = [as_dict(message.get("extra")) for message in messages]
    responses = [as_dict(extra.get("response")) for extra in extras if "response" in extra]
    said = [as_str(answers[-1].get("content")) if answers else "", as_str(info.get("submission"))]
    status = as_str(info.get("exit_status"))
    return AgentOutput(
        answer="\n".join(part.strip() for part in said if part.strip()),
        usages=[usage for response in responses if (usage := _chat_usage(response)).total],
        requests=len(responses),
        tool_calls=sum(len(as_list(message.get("tool_calls"))) for message in answers),
        problem="" if status in {"", "Submitted"} else f"It ended with {status}.",
    )


def _chat_usage(response: dict[str, Any]) -> Usage:
    usage = as_dict(response.get("usage"))
    details = as_dict(usage.get("prompt_tokens_details"))
    return Usage(
        _number(usage, "prompt_tokens"),
        _number(usage, "completion_tokens"),
        _number(details, "cached_tokens"),
    )


def read_aider(text: str) -> AgentOutput:
    """The chat history of aider, in which all but the model's text is quoted. It rounds numbers of tokens to two or
    three digits, and does not use tools.
    """
    _, _, chat = text.partition("\n#### ")
    lines = [line for line in chat.splitlines()[1:] if not line.startswith(("#### ", ">"))]
    tokens = re.findall(r"(?m)^> Tokens: ([\d.,]+[kM]?) sent, (?:.* )?([\d.,]+[kM]?) received", text)
    return AgentOutput(
        answer="\n".join(lines).strip(),
        usages=[Usage(_rounded(sent), _rounded(received)) for sent, received in tokens],
        requests=len(tokens),
    )


def _rounded(number: str) -> int:
    scale = {"k": 1_000, "M": 1_000_000}.get(number[-1], 1)
    return round(float(number.rstrip("kM").replace(",", "")) * scale)


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            yield as_dict(parse(line))
        except ValueError:  # a warning, or cut off when the agent was ended
            continue


def _text_of(content: Any) -> str:
    blocks = [as_dict(block) for block in as_list(content)]
    return "".join(as_str(block.get("text")) for block in blocks if block.get("type") == "text")


def _number(values: dict[str, Any], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) else 0


# -- the agents -----------------------------------------------------------------------------------

_LITELLM_APIS: Final[Mapping[Api, str]] = {"chat": "openai", "responses": "openai", "anthropic": "anthropic"}
_LITELLM: Final = {
    "EVAL_MODEL": "{api}/{model}",
    "{API}_API_BASE": "{base_url}",
    "{API}_API_KEY": "{key}",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no request for prices
}

PRESETS: Final[Mapping[str, AgentPreset]] = {
    "pi": AgentPreset(
        program="pi",
        install="npm install -g @earendil-works/pi-coding-agent",
        command=f'pi --offline --provider eval --model "$EVAL_MODEL" --mode json -p -- {PROMPT}',
        apis={
            "chat": "openai-completions",
            "responses": "openai-responses",
            "anthropic": "anthropic-messages",
            "gemini": "google-generative-ai",
        },
        environ={
            "EVAL_MODEL": "{model}",
            "EVAL_API_KEY": "{key}",
            "PI_TELEMETRY": "0",
            "PI_SKIP_VERSION_CHECK": "1",
        },
        files={
            ".pi/agent/models.json": '{"providers": {"eval": {"baseUrl": {base_url}, "api": {api}, "apiKey": "$EVAL_API_KEY", "models": [{"id": {model}}]}}}\n'
        },
        read=read_pi,
    ),
    "codex": AgentPreset(
        program="codex",
        install="npm install -g @openai/codex",
        # With its home below the folder for temporary files, it does not find its sandbox, and no command of it works.
        command="mkdir -p ~/tmp && TMPDIR=~/tmp "
        f"codex exec --json --sandbox workspace-write --skip-git-repo-check -- {PROMPT}",
        apis={"responses": "responses", "chat": "responses"},  # a server with one often has both
        environ={"EVAL_API_KEY": "{key}"},
        files={
            ".codex/config.toml": "model = {model}\n"
            'model_provider = "eval"\n'
            "check_for_update_on_startup = false\n"
            "[analytics]\nenabled = false\n"
            "[model_providers.eval]\n"
            'name = "eval"\nbase_url = {base_url}\nwire_api = {api}\nenv_key = "EVAL_API_KEY"\n'
        },
        read=read_codex,
    ),
    "mini-swe-agent": AgentPreset(
        program="mini",
        install="uv tool install mini-swe-agent",
        # Its report takes the place of its output, and is written after each step.
        command='mini --yolo --exit-immediately --cost-limit 0 --model "$EVAL_MODEL" '
        f"--output ../{TRACE} --task {PROMPT} >&2",
        apis=_LITELLM_APIS,
        environ={
            **_LITELLM,
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_SILENT_STARTUP": "1",
        },
        read=read_mini,
    ),
    "aider": AgentPreset(
        program="aider",
        install="uv tool install --python 3.12 aider-chat",
        # It sees the files of a git repository only, and leaves a cache there.
        command='[ -e .git ] || { git init -q && git add -A && git -c user.name=eval -c user.email=eval@localhost commit -qm start; }; aider --model "$EVAL_MODEL" '
        "--yes-always --no-gitignore --no-auto-commits --no-dirty-commits --no-analytics --no-check-update --no-show-release-notes --no-show-model-warnings "
        "--no-fancy-input --no-pretty --no-detect-urls --no-stream --input-history-file ../home/input "
        f"--chat-history-file ../{TRACE} --message={PROMPT} >&2; status=$?; rm -rf .aider.tags.cache.v*; exit $status",
        apis=_LITELLM_APIS,
        environ=_LITELLM,
        # A cache that is not empty, or else it would ask another server for prices, four times.
        files={".aider/caches/model_prices_and_context_window.json": '{"none": {}}'},
        read=read_aider,
    ),
}
