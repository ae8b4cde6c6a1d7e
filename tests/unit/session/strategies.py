"""Messages of every kind, with text of every kind that UTF-8 can carry."""

from __future__ import annotations

from hypothesis import strategies as st

from newel.agent.messages import (
    AssistantMessage,
    Attachment,
    CustomMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["\u2028 \u2029 \x85", "\r\n", "a\nb", "\0", '{"type":"message"}', "</script>", "é😀"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)

text_contents = st.builds(TextContent, texts)
images = st.builds(ImageContent, texts, texts)
calls = st.builds(ToolCall, texts, texts, json_objects, st.none() | texts)
usages = st.builds(Usage, *[st.integers(0, 2**40)] * 4)
attachments = st.builds(Attachment, st.sampled_from(["image", "document"]), texts, texts, st.integers(0), texts)

users = st.builds(
    UserMessage, texts | st.lists(text_contents | images, max_size=2), st.lists(attachments, max_size=1)
)
assistants = st.builds(
    AssistantMessage,
    st.lists(text_contents | st.builds(ThinkingContent, texts, st.none() | texts) | calls, max_size=3),
    model=texts,
    usage=usages,
    cost=st.none() | st.floats(0, 1e6),
    stop_reason=st.sampled_from(["stop", "length", "toolUse", "error", "aborted"]),
    error_message=st.none() | texts,
)
results = st.builds(
    ToolResultMessage, texts, texts, texts, st.booleans(), st.lists(images, max_size=1), json_objects
)
customs = st.builds(CustomMessage, texts, json_objects)
messages = users | assistants | results | customs
