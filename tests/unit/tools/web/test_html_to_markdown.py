"""If these fail, a model reads a page in disorder, misses a part of it, or a page stops a run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.tools.web.html_to_markdown import to_markdown
from newel.workspace.sandbox.web_address import parse_web_address

PAGE = parse_web_address("https://docs.example.org/guide/start")


def markdown(page: str) -> str:
    return to_markdown(page, PAGE).text


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<h1>One</h1>text<h3>Three <a href='#x'>¶</a></h3>", "# One\n\ntext\n\n### Three"),
        ("<p>a\n  b<br>c<p>d &amp; &lt;e&gt;", "a b\nc\n\nd & <e>"),
        ("<a href='../x?q=1#part'>up</a>, <a href='#here'>here</a>", "[up](https://docs.example.org/x?q=1), here"),
        ("<a href='javascript:alert(1)'>no</a> <a href='http://[bad'>bad</a>", "no bad"),
        ("<a href='//cdn.example.org/y'><div>One</div><div>Two</div></a>",
         "[One](https://cdn.example.org/y)\n\n[Two](https://cdn.example.org/y)"),
        ("<ul><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ul>", "- a\n  - b\n  - c\n- d"),
        ("<ol start=3><li>x<li><p>y</p><p>more</p></ol>", "3. x\n4. y\n\n  more"),
        ("<blockquote><p>a</p><p>b</p></blockquote>c", "> a\n>\n> b\n\nc"),
        ("<pre class='lang-py'>x = 1\n\n  y</pre>", "```py\nx = 1\n\n  y\n```"),
        ("<pre><code>a <b>b</b>\n```\n</code></pre>", "````\na b\n```\n````"),
        ("use <code>a&lt;b</code>", "use `a<b`"),
        ("<table><thead><tr><th>k</th><th>v</th></tr></thead><tbody><tr><td><p>a</p></td><td>1</td></tr></tbody></table>",
         "k | v\n---|---\na | 1"),
        ("<dl><dt>word<dd>meaning</dl>", "word\n\nmeaning"),
        ("<nav>menu</nav><main><p>This</main><footer>that</footer>", "This"),
        ("<header>top</header><main></main><p>rest", "top\n\nrest"),
        ("a<script>if (1 < 2) { '<p>' }</script>b<style>p{}</style>c<!-- <p>d -->e", "abce"),
        ("1 < 2 and <3, <>", "1 < 2 and <3, <>"),
        ("<img alt='A diagram' src=x> and <img src=y>", "A diagram and"),
        ("<p>unclosed <b>bold <i>and <td>more", "unclosed bold and more"),
        ("<input hidden><br hidden>seen<span hidden>not</span>", "seen"),
        ("", ""),
    ],
)  # fmt: skip
def test_what_a_reader_sees_is_kept_in_order(page: str, expected: str) -> None:
    assert markdown(page) == expected


def test_the_title_is_told_apart() -> None:
    converted = to_markdown("<title> A  &mdash; B\n</title><p>x", PAGE)
    assert (converted.title, converted.text, converted.is_cut) == ("A — B", "x", False)


TAGS = st.sampled_from(
    "p div a li ul ol pre code table tr td th blockquote h2 script main nav br title span svg".split()  # noqa: SIM905
)
PIECES = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["<", ">", "<!--", "-->", '"', "'", "&#", "&amp", "<a href=", "</", "\0", "\n"]),
    TAGS.map(lambda tag: f"<{tag}>"),
    TAGS.map(lambda tag: f"</{tag}>"),
    TAGS.map(lambda tag: f"<{tag} hidden href='x' start=9 class='lang-x'>"),
)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_page_is_an_error(page: str) -> None:
    converted = to_markdown(page, PAGE)
    assert "\0" not in converted.text
