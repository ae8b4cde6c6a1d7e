"""If these fail, an exported conversation is incomplete, or runs something when it is opened."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from newel.agent.errors import SessionError
from newel.agent.messages import (
    AppMessage,
    AssistantMessage,
    Attachment,
    CustomMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from newel.session.export import export_session
from newel.session.export.html import to_html
from newel.session.export.markdown import to_markdown
from newel.session.file_format import SessionMetadata
from newel.session.reader import SessionData

PROBES = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "</title><script>alert(1)</script>",
    "</pre></details></article></main><iframe src=javascript:alert(1)>",
    "<!--><script>alert(1)</script>-->",
    "```\n<script>alert(1)</script>\n```\n<script>alert(2)</script>",
    "   ```\n```\n<script>alert(1)</script>",
    "- a\n  ```\n<script>alert(1)</script>",
    "~~~\n```\n<img src=x onerror=alert(1)>",
    "`````\n```\n</details><script>alert(1)</script>",
    "`<script>alert(1)</script>`",
    r"\`<script>alert(1)</script>`",
    "``<b>`` `<i>",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt\\:alert(1))",
    "[click](java&#115;cript:alert(1))",
    "[click]: data:text/html,evil\n[click]",
    "![spy](https://evil.example/x.png)",
    "![spy][ref]\n\n[ref]: https://evil.example/x.png",
    "<https://evil.example>",
    "&lt;script&gt; &#60;script>",
    "<script\x00>alert(1)</script>",
    "a\r<script>alert(1)</script>",
    "\x1b]52;c;ZXZpbA==\x07 \x1b[2J \x9b2J",
    "<style>@import 'https://evil.example/x.css'</style>",
    '<meta http-equiv="refresh" content="0;url=https://evil.example">',
    "<base href=https://evil.example>",
]


def session(*messages: AppMessage, name: str | None = None) -> SessionData:
    metadata = SessionMetadata("s1", "2025-10-12T10:00:00.000Z", "/src/shop")
    return SessionData(metadata, list(messages), name)


def everywhere(probe: str) -> SessionData:
    """A session with the same text in every possible place."""
    return SessionData(
        SessionMetadata(probe, probe, probe, {probe: probe}),
        [
            UserMessage(probe, [Attachment("document", probe, probe, 3, "", probe)]),
            UserMessage(
                [TextContent(probe), ImageContent(probe, probe), ImageContent("QUJD", "image/svg+xml")]
            ),
            AssistantMessage(
                [TextContent(probe), ThinkingContent(probe), ToolCall("c", probe, {probe: probe})],
                model=probe,
                error_message=probe,
                stop_reason="error",
            ),
            ToolResultMessage("c", probe, probe, is_error=True, details={"diff": "+" + probe}),
            ToolResultMessage("lost", probe, probe, is_error=False),
            CustomMessage(probe, {"summary": probe}),
            CustomMessage(probe, {probe: probe}),
        ],
        probe,
    )


class Page(HTMLParser):
    """The tags and texts of a page, as a browser's parser finds them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.ended: list[str] = []
        self.attributes: dict[str, set[str]] = {}
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(f"{tag}.{name}", set()).add(value or "")

    def handle_endtag(self, tag: str) -> None:
        self.ended.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


OUR_TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "main", "h1", "h2", "div", "span", "time",
    "article", "details", "summary", "pre", "code", "strong", "img",
}  # fmt: skip
OUR_ATTRIBUTES = {
    "html.lang", "meta.charset", "meta.http-equiv", "meta.content", "meta.name", "div.class", "span.class",
    "article.class", "img.alt", "img.src",
}  # fmt: skip


def assert_page_is_inert(page: str) -> None:
    parsed = Page(page)
    assert set(parsed.tags) <= OUR_TAGS
    assert set(parsed.attributes) <= OUR_ATTRIBUTES
    assert parsed.attributes["article.class"] <= {"user", "assistant", "note"}
    assert all(
        re.match(r"data:image/(png|jpeg|gif|webp);base64,", src)
        for src in parsed.attributes.get("img.src", ())
    )
    assert parsed.tags.count("meta") == 4
    assert "url(" not in page.partition("<body>")[0]


MARKDOWN_TAGS = {
    "h1", "h2", "h3", "h4", "h5", "h6", "p", "ul", "ol", "li", "em", "strong", "code", "pre", "blockquote",
    "a", "hr", "br", "details", "summary",
}  # fmt: skip


def assert_markdown_is_inert(document: str) -> None:
    """Render it like the most careless viewer: with tags let through and every link allowed."""
    viewer = MarkdownIt("commonmark", {"html": True})
    viewer.validateLink = lambda _url: True  # pyright: ignore[reportAttributeAccessIssue] - as its documents say
    parsed = Page(viewer.render(document))
    assert set(parsed.tags) <= MARKDOWN_TAGS
    assert set(parsed.attributes) <= {"a.href", "a.title", "ol.start", "code.class"}
    for target in parsed.attributes.get("a.href", ()):
        assert not target.lower().startswith(("javascript:", "vbscript:", "data:"))
    assert parsed.tags.count("details") == parsed.ended.count("details")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", document)


@pytest.mark.parametrize("probe", PROBES)
def test_hostile_text_is_inert_in_every_place(probe: str) -> None:
    assert_page_is_inert(to_html(everywhere(probe)))
    assert_markdown_is_inert(to_markdown(everywhere(probe)))


pieces = st.sampled_from([
    "<script>", "</details>", "`", "```", "````x", "~~~", "\n", "\n   ", "\n\n", "\r", "- ", "> ", "\\", "&#60;",
    "![", "[a](", "javascript:", ")", "]: ", "<img src=x onerror=y>", "text ", "\t", "1. ", "|", "***", "&lt;",
])  # fmt: skip


@given(st.lists(pieces, max_size=14).map("".join))
def test_no_mixture_of_markup_breaks_out(text: str) -> None:
    assert_page_is_inert(to_html(session(UserMessage(text), AssistantMessage([TextContent(text)]))))
    assert_markdown_is_inert(to_markdown(session(UserMessage(text), AssistantMessage([TextContent(text)]))))


def test_the_page_forbids_unused_features() -> None:
    page = to_html(session(UserMessage("hello")))
    policy = Page(page).attributes["meta.content"]
    assert any("default-src 'none'" in content and "style-src 'sha256-" in content for content in policy)
    assert "script" not in Page(page).tags


def a_whole_session() -> SessionData:
    return session(
        UserMessage("Why is `List<int>` **slow**?\n\n```python\nif a < b:\n    pass\n```"),
        AssistantMessage(
            [ThinkingContent("hmm"), TextContent("I look."), ToolCall("c", "bash", {"command": "ls <dir>"})],
            model="qwen",
        ),
        ToolResultMessage(
            "c",
            "bash",
            "```\nfenced output\n```",
            is_error=True,
            images=[ImageContent("QUJD", "image/png")],
            details={"diff": "--- a\n+++ b\n-old\n+new"},
        ),
        AssistantMessage([ToolCall("d", "bash", {})], stop_reason="aborted"),
        CustomMessage("compaction", {"summary": "all of it"}),
        name="A <name>",
    )


def test_markdown_has_the_whole_conversation() -> None:
    assert to_markdown(a_whole_session()) == (
        "# A &lt;name&gt;\n\n"
        "2025-10-12T10:00:00.000Z · /src/shop · qwen · s1\n\n"
        "## You\n\n"
        "Why is <code>List&lt;int&gt;</code> **slow**?\n\n"
        "```python\nif a < b:\n    pass\n```\n\n"
        "## Newel · qwen\n\n"
        "<details><summary>Thinking</summary>\n\n```\nhmm\n```\n\n</details>\n\n"
        "I look.\n\n"
        "<details><summary>bash ls &lt;dir&gt; · failed</summary>\n\n"
        'Arguments\n\n```json\n{\n  "command": "ls <dir>"\n}\n```\n\n'
        "Output\n\n````\n```\nfenced output\n```\n````\n\n"
        "Diff\n\n```diff\n--- a\n+++ b\n-old\n+new\n```\n\n"
        "</details>\n\n"
        "*Image, image/png, 3 bytes*\n\n"
        "## Newel\n\n"
        "<details><summary>bash · no result</summary>\n\nArguments\n\n```json\n{}\n```\n\n</details>\n\n"
        "## Note\n\n"
        "<details><summary>compaction</summary>\n\nSummary\n\n```\nall of it\n```\n\n</details>\n"
    )


def test_the_page_has_the_whole_conversation() -> None:
    page = Page(to_html(a_whole_session()))
    for text in (
        "A <name>",
        "if a < b:\n    pass",
        "List<int>",
        "hmm",
        "ls <dir>",
        "failed",
        "no result",
        "all of it",
    ):
        assert text in page.text
    assert page.attributes["img.src"] == {"data:image/png;base64,QUJD"}
    assert {"added", "removed"} <= page.attributes["span.class"]


def test_exports_are_private_files(tmp_path: Path) -> None:
    data = session(UserMessage("half a pair: \ud83d"))
    for name, start in (("talk.md", "# half"), ("talk.HTML", "<!doctype html>")):
        export_session(data, tmp_path / name)
        with pytest.raises(SessionError, match="exists already"):
            export_session(data, tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    with pytest.raises(SessionError, match=r"End it with \.md or \.html"):
        export_session(data, tmp_path / "talk.pdf")
    with pytest.raises(SessionError, match="cannot be exported"):
        export_session(data, tmp_path / "no" / "folder.md")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["talk.HTML", "talk.md"]


def test_what_a_subagent_did_is_in_the_document() -> None:
    call = ToolCall(id="c1", name="task", arguments={"description": "Find writers", "prompt": "search"})
    details = {"session": "abc", "calls": 1, "cost": None, "log": ["grep <b>append"]}
    messages: list[AppMessage] = [
        AssistantMessage(content=[call]),
        ToolResultMessage(
            tool_call_id="c1", tool_name="task", output="Two.", is_error=False, details=details
        ),
    ]
    data = SessionData(SessionMetadata(id="s", timestamp="", cwd=""), messages)
    for text in (to_html(data), to_markdown(data)):
        assert "task Find writers" in text
        assert "newel export abc" in text
    assert "grep &lt;b&gt;append" in to_html(data)
