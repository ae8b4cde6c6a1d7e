"""If these fail, a search gives other results without ``rg``, runs without bounds, or reads hidden files."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from newel.workspace.glob import Glob
from newel.workspace.local import LocalWorkspace
from newel.workspace.search import SearchMatches, SearchQuery, search
from newel.workspace.walk import walk
from tests.properties import examples
from tests.requirements import skip_or_fail

pytestmark = pytest.mark.anyio

RG = shutil.which("rg", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")

Engine = Callable[[Path], LocalWorkspace]


@pytest.fixture(params=["rg", "grep", "busybox", "python"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """Makes a workspace whose commands find ``rg``, or only ``grep``, or only a shell."""
    environment = environ(tmp_path, request.param)
    return lambda folder: LocalWorkspace(str(folder), environ=environment)


def environ(tmp_path: Path, engine: str) -> dict[str, str]:
    """An environment whose PATH has a shell and an engine's programs. Skips if they are missing here."""
    folder = tmp_path / f"programs-{engine}"
    folder.mkdir(exist_ok=True)
    named = {
        "rg": {"rg": RG},
        "grep": {name: shutil.which(name) for name in ("grep", "find")},
        "busybox": {name: shutil.which("busybox") for name in ("grep", "find")},
        "python": {},
    }[engine]
    for name, program in ({"bash": shutil.which("bash")} | named).items():
        if program is None:
            skip_or_fail(f"needs {engine}: `apt-get install {'ripgrep' if engine == 'rg' else engine}`")
        if not (folder / name).exists():
            (folder / name).symlink_to(program)
    return {"PATH": str(folder)}


def project(tmp_path: Path, **files: str | bytes) -> Path:
    folder = tmp_path / "project"
    for name, content in files.items():
        put(folder, name, content)
    return folder


def put(folder: Path, name: str, content: str | bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def places(found: SearchMatches) -> list[tuple[str, int, int]]:
    return [(match.path, match.start, len(match.lines)) for match in found.matches]


async def paths(workspace: LocalWorkspace, glob: str) -> list[str]:
    found = await search(workspace, SearchQuery(text="needle", glob=glob))
    return [match.path for match in found.matches]


async def test_a_match_has_the_lines_around_it(engine: Engine, tmp_path: Path) -> None:
    lines = [f"line {number}\n" for number in range(1, 40)]
    lines[17] = "here is the needle\n"
    folder = project(tmp_path, **{"notes/team/onboarding.md": "".join(lines)})
    found = await search(engine(folder), SearchQuery(text="needle"))
    assert places(found) == [("notes/team/onboarding.md", 14, 9)]
    assert found.matches[0].snippet == "".join(lines[13:22]) == "".join(found.matches[0].lines)
    assert found.stopped == ""


async def test_matches_are_ordered_by_path_and_line(engine: Engine, tmp_path: Path) -> None:
    names = ["a-b/x", "a/z", "a/b/y", "b", "B", "ä"]
    folder = project(tmp_path, **dict.fromkeys(names, "needle\n" + "\n" * 20 + "needle\n"))
    found = await search(engine(folder), SearchQuery(text="needle"))
    assert places(found) == [
        (name, start, 5) for name in ["B", "a/b/y", "a/z", "a-b/x", "b", "ä"] for start in (1, 18)
    ]


async def test_overlapping_contexts_are_shown_once(engine: Engine, tmp_path: Path) -> None:
    folder = project(tmp_path, f="needle\n" * 50)
    found = await search(engine(folder), SearchQuery(text="needle"))
    assert places(found) == [("f", 1, 20), ("f", 21, 20), ("f", 41, 10)]
    assert "".join(match.snippet for match in found.matches) == "needle\n" * 50


async def test_a_text_is_matched_literally(engine: Engine, tmp_path: Path) -> None:
    text = r"""a.*b [x] {2} (?i) $HOME `id` "q" 'q' \n -- ^$ ! é"""
    folder = project(tmp_path, yes=f"-- {text} --\n", no="aXXb x 22 /root uid\n")
    assert places(await search(engine(folder), SearchQuery(text=text))) == [("yes", 1, 1)]
    assert places(await search(engine(folder), SearchQuery(text="-- a"))) == [("yes", 1, 1)]


async def test_lower_case_matches_upper_case_and_not_the_reverse(engine: Engine, tmp_path: Path) -> None:
    folder = project(tmp_path, a="ÜBER Straße", b="über straße", c="uber strasse")
    for text, names in {
        "über": ["a", "b"],
        "Ü": [],
        "ÜBER": ["a"],
        "STRASSE": [],
        "straße": ["a", "b"],
    }.items():
        found = await search(engine(folder), SearchQuery(text=text))
        assert [match.path for match in found.matches] == (["a"] if text == "Ü" else names)


async def test_git_hidden_and_system_files_are_excluded(engine: Engine, tmp_path: Path) -> None:
    names = [".git/config", "sub/.git/x", ".env", ".github/ci.yml", "x/.DS_Store", "Thumbs.db", "ok"]
    folder = project(tmp_path, **dict.fromkeys(names, "needle"))
    workspace = engine(folder)
    assert await paths(workspace, "**/*") == ["ok"]
    assert await paths(workspace, ".github/**") == [".github/ci.yml"]
    assert await paths(workspace, "**/.env") == [".env"]
    assert await paths(workspace, ".git/**") == []
    assert await paths(workspace, "{.git,.env,ok}") == [".env", "ok"]


async def test_ignored_files_are_searched(engine: Engine, tmp_path: Path) -> None:
    names = [".gitignore", ".ignore", ".rgignore", ".git/info/exclude"]
    folder = project(tmp_path, **dict.fromkeys(names, "out\n"), **{"out/x": "needle", ".git/HEAD": ""})
    assert await paths(engine(folder), "**/*") == ["out/x"]


async def test_links_are_not_followed(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("needle")
    folder = project(tmp_path, **{"a/ok": "needle"})
    (folder / "file").symlink_to(tmp_path / "secret" / "key")
    (folder / "folder").symlink_to(tmp_path / "secret")
    (folder / "again").symlink_to(folder)
    for glob, names in {"**/*": ["a/ok"], "folder/*": [], "file": [], "again/a/ok": []}.items():
        assert await paths(engine(folder), glob) == names


async def test_only_text_is_searched(engine: Engine, tmp_path: Path) -> None:
    folder = project(
        tmp_path,
        binary=b"needle\0",
        latin=b"needle\n\xe4\n",
        wide="needle".encode("utf-16"),
        bom=b"\xef\xbb\xbfneedle",
        windows=b"one\r\nneedle\r\n",
    )
    os.mkfifo(folder / "pipe")
    (folder / "large").write_bytes(b"needle\n" + b"x" * (8 << 20))
    put(folder, "\udcfe", "needle")
    found = await search(engine(folder), SearchQuery(text="needle"))
    assert [(match.path, match.lines) for match in found.matches] == [
        ("bom", ("\ufeffneedle",)),
        ("windows", ("one\r\n", "needle\r\n")),
    ]
    assert places(await search(engine(folder), SearchQuery(text="\ufeffneedle"))) == [("bom", 1, 1)]


async def test_a_missing_folder_has_no_matches(engine: Engine, tmp_path: Path) -> None:
    folder = project(tmp_path, a="needle", **{"b/c": "needle"})
    (folder / "gone").symlink_to(tmp_path / "nothing")
    assert await paths(engine(folder), "**/*") == ["a", "b/c"]
    assert await paths(engine(folder), "gone/*") == []
    assert await paths(engine(folder), "missing/**") == []
    assert await paths(engine(folder), "a/*") == []


async def test_each_limit_ends_the_search_and_says_so(engine: Engine, tmp_path: Path) -> None:
    folder = project(tmp_path, **{f"f{number}": "needle\n" for number in range(5)})
    workspace = engine(folder)
    assert (await search(workspace, SearchQuery(text="needle", limit=5))).stopped == ""
    few = await search(workspace, SearchQuery(text="needle", limit=4))
    assert ([match.path for match in few.matches], few.stopped) == (["f0", "f1", "f2", "f3"], "limit")
    small = await search(workspace, SearchQuery(text="needle", room=20))
    assert (len(small.matches), small.stopped) == (2, "room")
    assert len((await search(workspace, SearchQuery(text="needle", room=1))).matches) == 1
    assert await search(workspace, SearchQuery(text="needle", seconds=0)) == SearchMatches([], "seconds")


async def test_a_long_line_is_shown_around_the_match(engine: Engine, tmp_path: Path) -> None:
    folder = project(tmp_path, f="ä" * 100_000 + "needle" + "ö" * 100_000 + "\n", g="y" * 501 + "\nneedle\n")
    long, other = (await search(engine(folder), SearchQuery(text="needle"))).matches
    assert long.snippet == "…" + "ä" * 250 + "needle" + "ö" * 244 + "…\n"
    assert other.snippet == "y" * 500 + "…\nneedle\n"


@pytest.mark.slow  # six thousand files
async def test_more_names_than_a_command_may_print_lose_nothing(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    for number in range(6_000):
        put(folder, f"{number // 1000}/{'x' * 180}{number:04}", "needle")
    found = await search(engine(folder), SearchQuery(text="needle"))
    assert [match.path[-4:] for match in found.matches] == [f"{number:04}" for number in range(20)]
    assert found.stopped == "limit"


class Staged(LocalWorkspace):
    """Reads other content than the disk has."""

    async def read_bytes(self, path: str, /, **given: Any) -> bytes:
        content = await super().read_bytes(path, **given)
        return content.replace(b"straw", b"needle").replace(b"nail", b"-")


@pytest.mark.parametrize("engine", ["rg", "grep", "python"])
async def test_staged_content_is_searched_instead_of_the_disks(tmp_path: Path, engine: str) -> None:
    folder = project(tmp_path, a="straw", b="needle", c="nail")
    workspace = Staged(str(folder), environ=environ(tmp_path, engine))
    found = await search(workspace, SearchQuery(text="needle"), staged=["a", "c"])
    assert [match.path for match in found.matches] == ["a", "b"]
    assert (await search(workspace, SearchQuery(text="nail"), staged=["a", "c"])).matches == []


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "a\rb", "a\0b", "\ud800", "x" * 501])
async def test_an_unsearchable_text_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="the text to search for"):
        await search(LocalWorkspace(str(tmp_path)), SearchQuery(text=text))


@pytest.mark.parametrize("glob", ["../x", "a/../../b", "{a,b", "x" * 401, "{a,b}" * 7, "a\0b/c", "\ud800/x"])
def test_an_invalid_glob_is_refused(glob: str) -> None:
    with pytest.raises(ValueError, match=r"glob|brace"):
        Glob(glob)


@pytest.mark.parametrize(
    ("glob", "fits", "not_"),
    [
        ("**/*", "a a/b a/b/c -x", ".a a/.b .a/b .git/x a/.git/b Thumbs.db a/DESKTOP.INI"),
        ("**", "a a/b", ".a"),
        ("", "a a/b", ".a"),
        ("*.md", "x.md a/b/x.md", "x.mdx .md"),
        ("./*.md", "x.md", "a/x.md"),
        ("src/*.py", "src/a.py", "src/a/b.py a/src/b.py src/.a.py"),
        ("src/**/*.py", "src/a.py src/a/b/c.py", "a.py src/.x/a.py"),
        ("src/**", "src/a src/b/c", "src srcs/a"),
        ("src/", "src/a src/b/c", "src a/src/b"),
        ("src", "src a/src src/a/b x/src/y", "srcs src/.x"),
        ("a/**/b/*/c", "a/b/x/c a/x/b/y/c", "a/b/c b/x/c a/b/x/y/z"),
        ("**/*.{ts,tsx}", "a.ts b/c.tsx", "a.t a.tsxx"),
        ("{a,b/{c,d}}/x", "a/x b/c/x b/d/x", "b/x c/x"),
        ("[ab]?.[!x]", "ax.y bz.z", "cx.y a.y ax.x"),
        ("[^a]", "b", "a"),
        ("a[b", "a[b", "ab"),
        ("/{,x}", "x", "a"),
        (".*", ".env a/.b", "env .git"),
        (".github/**", ".github/a", ".github/.b github/a"),
    ],
)
def test_globs_match_as_written(glob: str, fits: str, not_: str) -> None:
    pattern = Glob(glob)
    assert [path for path in fits.split() if not pattern.matches(path)] == []
    assert [path for path in not_.split() if pattern.matches(path)] == []


@given(st.text("ab*?[]!{},/.-\\^~&|", max_size=12), st.text("ab/.*[", min_size=1, max_size=10))
@settings(max_examples=examples(100))
@example("*a" * 200, "a" * 200)
def test_a_hostile_glob_is_either_refused_or_quick(glob: str, path: str) -> None:
    try:
        pattern = Glob(glob)
    except ValueError:
        return
    if pattern.matches(path):
        assert not pattern.base or path.startswith(f"{pattern.base}/")


NAMES = st.sampled_from(
    ["a", "-e", "--", "a b", "it's", '"q"', "new\nline", "é", "*", "[x]", ".hid", "$(id)", "\udcff", "tab\t"]
)
LIKE_K_AND_S = "\u017f \u212a ß \u2028\f".encode()
PIECES = st.sampled_from(
    [b"needle", b"NEEDLE", b"Needle", b"\n", b"\r\n", b"\r", b" ", b"x" * 600, LIKE_K_AND_S, b"\0", b"\xff"]
)
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    st.lists(PIECES, max_size=12).map(b"".join),
    max_size=6,
)
TEXTS = ["needle", "Needle", "e", "x", "k", "s", "ß", "x\u2028", "e ", "leN"]
GLOBS = ["**/*", "*", "a/**", "{-e,é}/**", "-*", "**/.hid/**", "**/*b", ".*", "[*]", "a b"]
QUERIES = st.builds(
    SearchQuery,
    text=st.sampled_from(TEXTS),
    glob=st.sampled_from(GLOBS),
    limit=st.integers(1, 30),
    lines=st.integers(1, 30),
)


@given(TREES, QUERIES)
@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_all_search_programs_give_the_same_answer(
    tmp_path: Path, tree: dict[str, bytes], query: SearchQuery
) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as root:
        for name, content in tree.items():
            with contextlib.suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
                put(Path(root), name, content)
        with_rg, with_grep, without = [
            await search(LocalWorkspace(root, environ=environ(tmp_path, engine)), query)
            for engine in ("rg", "grep", "python")
        ]
    assert with_rg == with_grep == without
    small = query.text == query.text.lower()
    for match in with_rg.matches:
        assert any(query.text in (line.lower() if small else line) for line in match.lines)
        assert len(match.lines) <= query.lines


async def test_a_search_can_be_cancelled(engine: Engine, tmp_path: Path) -> None:
    # All files match, so that work remains even if the program that finds them ends at once.
    folder = project(tmp_path, **{f"{number}": "a needle" for number in range(500)})
    workspace = engine(folder)
    with anyio.move_on_after(0) as scope:
        await search(workspace, SearchQuery(text="needle"))
    assert scope.cancelled_caught


async def test_a_walk_is_limited_and_follows_no_link(tmp_path: Path) -> None:
    folder = project(tmp_path, **dict.fromkeys(["a", "b/c", "b/d", "e"], ""))
    (folder / "b" / "again").symlink_to(folder)
    workspace = LocalWorkspace(str(folder))
    assert await walk(workspace, limit=4) == (["a", "b/c", "b/d", "e"], True)
    assert await walk(workspace, limit=3) == (["a", "b/c", "b/d"], False)
    assert await walk(workspace, "b", limit=9) == (["b/c", "b/d"], True)
