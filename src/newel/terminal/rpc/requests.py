"""The requests of JSON mode, their validation, and the commands of ``newel rpc`` that they stand for."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, assert_never, get_args

import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import Attachment, Wire
from newel.agent.ports import ThinkingLevel
from newel.context.attachments import attachment_problem
from newel.providers.routing import AgentModeName, read_agent_mode
from newel.terminal.rpc import protocol as p
from newel.text.json import decode_json

"""Image types that models accept."""

_HALF_A_PAIR = re.compile(r"\\u[dD][89aAbB][0-9a-fA-F]{2}(?!\\u)")


class InvalidRpcRequest(NewelError, code="bad_request"):
    """A line that is no valid request."""


class RpcRequest(Wire, frozen=True, tag_field="type"):
    """Base of all requests."""


class Say(RpcRequest, frozen=True, tag="message"):
    content: str
    attachments: list[Attachment] = []


class Interrupt(RpcRequest, frozen=True, tag="interrupt"):
    """Abort the current run."""


class StopRun(RpcRequest, frozen=True, tag="stop"):
    """Stop the run before its next request."""


class Steer(RpcRequest, frozen=True, tag="steer"):
    content: str


class FollowUp(RpcRequest, frozen=True, tag="follow_up"):
    content: str


class Clear(RpcRequest, frozen=True, tag="clear"):
    """Start a new session."""


class CompactHistory(RpcRequest, frozen=True, tag="compact"):
    instructions: str = ""


class ChangeModel(RpcRequest, frozen=True, tag="set_model"):
    model: str


class SetThinking(RpcRequest, frozen=True, tag="set_thinking"):
    level: ThinkingLevel


class ChangeAgentMode(RpcRequest, frozen=True, tag="set_agent_mode"):
    mode: AgentModeName


class GetState(RpcRequest, frozen=True, tag="get_state"):
    """Answered by a ``state`` line."""


class Approve(RpcRequest, frozen=True, tag="approve"):
    tool_call_id: str
    decision: Literal["once", "always", "rule", "no"]
    word: str = ""


InTurn = Say | Clear | CompactHistory
AnyRequest = (
    InTurn
    | Interrupt
    | StopRun
    | Steer
    | FollowUp
    | ChangeModel
    | SetThinking
    | ChangeAgentMode
    | GetState
    | Approve
)


@cache
def _decoder() -> msgspec.json.Decoder[AnyRequest]:
    return msgspec.json.Decoder[AnyRequest](AnyRequest)


def read_request(line: str) -> AnyRequest:
    """Parse a line of JSON. Raises ``InvalidRpcRequest``."""
    try:
        request = decode_json(line, _decoder())
    except msgspec.DecodeError as error:
        problem = explain(error, line)
        if unknown := re.fullmatch(r"(?s)Invalid value ('.*') - at `\$\.type`", problem):
            types = sorted(str(each.__struct_config__.tag) for each in get_args(AnyRequest))
            problem = f"there is no type {unknown[1][:100]}; the types are {', '.join(types)}"
        raise InvalidRpcRequest(f"Invalid request: {problem}. It begins: {line[:200]}") from error
    match request:
        case Say(content=text, attachments=[]) | Steer(content=text) | FollowUp(content=text) if (
            not text.strip()
        ):
            raise InvalidRpcRequest("The content is empty.")
        case Say():
            for attachment in request.attachments:
                check_attachment(attachment)
        case ChangeModel() if not request.model.strip():
            raise InvalidRpcRequest("set_model needs a model name.")
        case _:
            pass
    return request


def command_of(request: AnyRequest) -> p.AnyCommand:
    """The command that does the same. Raises ``UnknownAgentMode``."""
    match request:
        case Say():
            return p.PromptCommand(text=request.content, attachments=request.attachments)
        case Clear():
            return p.NewSessionCommand()
        case CompactHistory():
            return p.CompactCommand(instructions=request.instructions)
        case Interrupt():
            return p.AbortCommand()
        case StopRun():
            return p.StopCommand()
        case Steer():
            return p.SteerCommand(text=request.content)
        case FollowUp():
            return p.FollowUpCommand(text=request.content)
        case ChangeModel():
            return p.ModelCommand(model=request.model)
        case SetThinking():
            return p.ThinkingCommand(level=request.level)
        case ChangeAgentMode():
            return p.AgentModeCommand(mode=read_agent_mode(request.mode))
        case GetState():
            return p.StateCommand()
        case Approve():
            return p.ApproveCommand(
                tool_call_id=request.tool_call_id, decision=request.decision, word=request.word
            )
        case _:
            assert_never(request)


def explain(error: Exception, line: str) -> str:
    """The defect of a line of JSON."""
    problem = str(error)
    truncated = "truncated" in problem
    if "surrogate" in problem or (truncated and _HALF_A_PAIR.search(line)):
        return "a string contains a lone surrogate"
    return "it ends too early" if truncated else problem


def check_attachment(attachment: Attachment) -> None:
    """Reject attachments that no server accepts."""
    if problem := attachment_problem(attachment):
        raise InvalidRpcRequest(problem)
