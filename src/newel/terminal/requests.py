"""What another program may ask of the agent in JSON mode, and what is wrong with a line that asks nothing."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from newel.agent.errors import NewelError
from newel.agent.messages import Attachment, Wire
from newel.agent.ports import ThinkingLevel
from newel.terminal.words import one_line

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What models can see."""

_HALF_A_PAIR = re.compile(r"\\u[dD][89aAbB][0-9a-fA-F]{2}(?!\\u)")


class BadRequest(NewelError):
    """A line that is no request, or asks for what cannot be done."""


class Request(Wire, frozen=True, tag_field="type"):
    """Base of all requests."""


class Say(Request, frozen=True, tag="message"):
    content: str
    attachments: list[Attachment] = []


class Interrupt(Request, frozen=True, tag="interrupt"):
    pass


class Stop(Request, frozen=True, tag="stop"):
    pass


class Steer(Request, frozen=True, tag="steer"):
    content: str


class FollowUp(Request, frozen=True, tag="follow_up"):
    content: str


class Clear(Request, frozen=True, tag="clear"):
    pass


class Compact(Request, frozen=True, tag="compact"):
    instructions: str = ""


class SetModel(Request, frozen=True, tag="set_model"):
    model: str


class SetThinking(Request, frozen=True, tag="set_thinking"):
    level: ThinkingLevel


class GetState(Request, frozen=True, tag="get_state"):
    pass


class Approve(Request, frozen=True, tag="approve"):
    tool_call_id: str
    decision: Literal["once", "always", "no"]
    word: str = ""


InTurn = Say | Clear | Compact
AnyRequest = InTurn | Interrupt | Stop | Steer | FollowUp | SetModel | SetThinking | GetState | Approve


class Requests:
    """Reads requests from lines of JSON."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder[AnyRequest](AnyRequest)

    def read(self, line: str) -> AnyRequest:
        """Raises ``BadRequest``."""
        try:
            request = self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise BadRequest(f"This is no request: {_why(error, line)}. It began: {line[:200]}") from error
        match request:
            case Say(content=text, attachments=[]) | Steer(content=text) | FollowUp(content=text) if (
                not text.strip()
            ):
                raise BadRequest("There is nothing in it to answer: its content is empty.")
            case Say():
                for attachment in request.attachments:
                    _check(attachment)
            case SetModel() if not request.model.strip():
                raise BadRequest("set_model needs the name of a model.")
            case _:
                pass
        return request


def _why(error: Exception, line: str) -> str:
    words = str(error)
    truncated = "truncated" in words
    if "surrogate" in words or (truncated and _HALF_A_PAIR.search(line)):
        return "a string holds half of a surrogate pair, which is no character"
    return "it ends too early" if truncated else words


def _check(attachment: Attachment) -> None:
    """Once it is in the conversation, every later request would fail on what no server takes."""
    image = attachment.type == "image"
    if attachment.size < 0:
        problem = "its size is negative"
    elif not _is_base64(attachment.content):
        problem = "its content is not base64"
    elif not _is_base64(attachment.preview or ""):
        problem = "its preview is not base64"
    elif image and not attachment.content:
        problem = "its content is empty"
    elif image and attachment.mime_type not in IMAGES:
        problem = f"its mimeType is none of {', '.join(IMAGES)}"
    else:
        return
    raise BadRequest(f"The attachment '{one_line(attachment.file_name)}' cannot be used: {problem}.")


def _is_base64(text: str) -> bool:
    from binascii import a2b_base64

    try:
        a2b_base64(text, strict_mode=True)
    except ValueError:
        return False
    return True
