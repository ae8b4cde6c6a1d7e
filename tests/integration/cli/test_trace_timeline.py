"""If these fail, a user cannot see what a conversation spent its time on, or a time line that is passed on leaks secrets, calls out, or
runs what a model wrote.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable, Iterator
from html.parser import HTMLParser

import pytest

from tests.browser.bench import axe_violations, launch_browser
from tests.integration.cli.test_stats import answer, at, head, prompt, result, write_session
from tests.support import Newel, bash, scenario

Make = Callable[..., Newel]

CALL = [{"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "make"}}]
HOSTILE = "<script>alert(1)</script>\"'><img src=http://example.org/x>\u202e"


class Page(HTMLParser):
    """The tags and the rows of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.widths: list[float] = []
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self._cell = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._cell = self._cell and tag != "td"

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.rows[-1][-1] += data

    @property
    def steps(self) -> list[tuple[str, str]]:
        return [(row[1], row[3]) for row in self.rows if row]


def page_of(newel: Newel, identity: str, *words: str) -> tuple[Page, str]:
    done = newel("trace", identity, "--html", "line.html", *words)
    assert done.returncode == 0, done.stderr
    text = (newel.project / "line.html").read_text()
    return Page(text), text


def session_id(newel: Newel) -> str:
    return newel.sessions[0].stem.partition("_")[2]


def test_a_conversation_is_a_time_line_with_durations_tokens_and_retries(with_model: Make) -> None:
    fault = {"kind": "status", "status": 503, "headers": {"Retry-After": "0.2"}, "times": 1}
    newel = with_model(scenario("go", {"fault": fault, "response": bash("sleep 0.1")}, {"content": "Done."}))
    assert newel("go").returncode == 0
    listed = json.loads(newel("trace", session_id(newel)[:8], "--json").stdout)
    assert [step["kind"] for step in listed["steps"]] == ["prompt", "model", "tool", "model"]
    _, model, tool, _ = listed["steps"]
    assert len(model["retries"]) == 1
    assert model["duration"] >= 200 > model["retries"][0]
    assert tool["duration"] >= 100
    assert tool["start"] >= model["start"] + model["duration"] - 1
    assert tool["text"] == "bash sleep 0.1"
    assert model["usage"]["input"] > 0
    shown = newel("trace", session_id(newel)[:8])
    assert re.search(r"\d\d:\d\d:\d\d\.\d{3}  model       mock-model  \d.* in .* · 1 retry\n", shown.stdout)
    page, text = page_of(newel, session_id(newel)[:8])
    assert [words.split()[0] for words, _ in page.steps] == ["prompt", "model", "tool", "model"]
    assert "1 retry" in page.steps[1][0]
    assert re.fullmatch(r"\d+ ms|\d.* s", page.steps[2][1])
    assert 'class="retry"' in text
    assert stat.S_IMODE((newel.project / "line.html").stat().st_mode) == 0o600


def test_a_subagent_is_nested_in_its_call(with_model: Make) -> None:
    newel = with_model()
    child = "c" * 32
    call = {"type": "toolCall", "id": "c", "name": "task", "arguments": {"description": "look around"}}
    asked = answer(when=at(seconds=1), content=[call])
    done = result("task", at(seconds=9), duration=8000, details={"session": child})
    write_session(newel, "1" * 32, head("1" * 32, at(), "/p"), prompt(at()), asked, done)
    path = write_session(
        newel,
        f"x_{child}",
        head(child, at(), "/p", parent="1" * 32),
        answer("b", when=at(seconds=5), duration=3000),
    )
    (step,) = [
        each
        for each in json.loads(newel("trace", "1111", "--json").stdout)["steps"]
        if each["kind"] == "tool"
    ]
    assert (step["text"], [each["duration"] for each in step["steps"]]) == ("task look around", [3000])
    page, text = page_of(newel, "1111")
    assert [words.split()[0] for words, _ in page.steps] == ["prompt", "model", "tool", "model"]
    assert 'class="model d1"' in text
    path.write_text(path.read_text().replace("1" * 32, "2" * 32))  # another agent's
    (newel.project / "line.html").unlink()
    assert 'class="model d1"' not in page_of(newel, "1111")[1]


def test_approvals_and_summaries_are_steps(with_model: Make) -> None:
    newel = with_model()
    data = {"usage": {"input": 700, "output": 70}, "model": "small", "duration": 2000, "summary": "…"}
    summary = {"role": "custom", "name": "compaction", "data": data, "id": "s", "timestamp": at(seconds=30)}
    write_session(
        newel, "1" * 32, head("1" * 32, at(), "/p"), prompt(at()), answer(when=at(seconds=1), content=CALL),
        result("bash", at(seconds=20), duration=1000, waited=15_000), {"type": "message", "message": summary},
    )  # fmt: skip
    steps = json.loads(newel("trace", "1111", "--json").stdout)["steps"]
    assert [(step["kind"], step["duration"]) for step in steps[2:]] == [
        ("wait", 15000),
        ("tool", 1000),
        ("compaction", 2000),
    ]
    page, _ = page_of(newel, "1111")
    assert ("wait waiting for approval", "15.0 s") in page.steps
    assert ("compaction small", "2.0 s") in page.steps


def test_nothing_that_was_said_acts_in_the_page_and_secrets_are_masked(with_model: Make) -> None:
    newel = with_model()
    secret = "ghp_0123456789abcdefghij"
    said = prompt(at())
    said["message"]["content"] = f"{HOSTILE} {secret}"
    name = {"type": "name", "name": HOSTILE}
    call = {"type": "toolCall", "id": "c", "name": HOSTILE, "arguments": {"x": HOSTILE}}
    asked = answer(when=at(seconds=1), model=HOSTILE, content=[call], errorMessage=HOSTILE)
    write_session(
        newel,
        "1" * 32,
        head("1" * 32, at(), HOSTILE),
        said,
        name,
        asked,
        result(HOSTILE, at(seconds=2)),
        project="/p",
    )
    page, text = page_of(newel, "1111")
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "link", "iframe", "a", "form", "object", "embed"}
    attributes = {name for _, found in page.tags for name in found}
    assert not [name for name in attributes if name.startswith("on") or name in {"src", "href", "style"}]
    assert "default-src 'none'" in text
    assert "\u202e" not in text
    assert secret not in text
    assert secret not in newel("trace", "1111").stdout + newel("trace", "1111", "--json").stdout
    (newel.project / "line.html").unlink()
    assert secret in page_of(newel, "1111", "--unmasked")[1]


def test_an_existing_file_is_not_overwritten_and_a_wrong_name_is_told(with_model: Make) -> None:
    newel = with_model()
    write_session(newel, "1" * 32, head("1" * 32, at(), "/p"), prompt(at()))
    (newel.project / "mine.html").write_text("mine")
    done = newel("trace", "1111", "--html", "mine.html")
    assert (done.returncode, (newel.project / "mine.html").read_text()) == (1, "mine")
    assert "exists already" in done.stderr
    assert "no session whose id begins with 'f00'" in newel("trace", "f00").stderr
    assert newel("trace", "--html", "x.html").returncode == 2


def test_a_damaged_and_hostile_session_still_has_a_time_line(with_model: Make) -> None:
    newel = with_model()
    odd = answer(when="9999-12-31T23:59:59Z", duration=-5, retries=[10**15])
    strange = answer("2", when="no time at all")
    path = write_session(newel, "1" * 32, head("1" * 32, at(), "/p"), prompt(at()), odd, strange)
    with path.open("a") as file:
        file.write("broken\n")
    page, text = page_of(newel, "1111")
    assert len(page.steps) == 2
    assert "Left out: line 5" in text


@pytest.fixture
def shown(with_model: Make) -> Iterator[tuple[Newel, list[str]]]:
    newel = with_model()
    write_session(
        newel, "1" * 32, head("1" * 32, at(), "/p"), prompt(at()), answer(when=at(seconds=1), duration=900, retries=[100], content=CALL),
        result("bash", at(seconds=20), duration=1000, waited=15_000), prompt(at(seconds=90_000)),
        answer("b", when=at(seconds=90_004), duration=4000),
    )  # fmt: skip
    complaints: list[str] = []
    yield newel, complaints
    assert complaints == []


@pytest.mark.slow  # a browser
def test_the_page_asks_for_nothing_and_is_accessible_in_light_and_dark(
    shown: tuple[Newel, list[str]],
) -> None:
    newel, complaints = shown
    page_of(newel, "1111")
    asked: list[str] = []
    with launch_browser() as browser:
        for scheme in ("light", "dark"):
            page = browser.new_page(color_scheme=scheme, viewport={"width": 400, "height": 800})
            page.on("request", lambda request: asked.append(request.url))
            page.on("console", lambda message: complaints.append(message.text))
            page.goto(f"file://{newel.project}/line.html")
            bars = page.locator("td.axis rect").evaluate_all(
                "all => all.map((each) => each.getBoundingClientRect().width)"
            )
            assert all(width > 0 for width in bars)
            assert axe_violations(page) == []
            assert (
                page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                == 0
            )
    assert {url.split("/")[0] for url in asked} == {"file:"}
