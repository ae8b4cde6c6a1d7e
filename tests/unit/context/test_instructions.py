"""If these fail, the model does not know the project's rules, or is sent what it should not see."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

import anyio
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.ports import ToolSpec
from newel.context.file_reader import WorkspaceFolder
from newel.context.instructions import MAX_BYTES, Instructions, describe, find_instructions
from newel.context.system_prompt import PromptContext, short_prompt, system_prompt
from newel.workspace.local import LocalWorkspace


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def project(tmp_path: Path) -> Path:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    (tmp_path / "shop" / "api" / "v1").mkdir(parents=True)
    return tmp_path / "shop"


def find(folder: Path, home: Path | None = None, max_bytes: int = MAX_BYTES) -> list[Instructions]:
    """The instructions of an agent that works in ``folder``."""
    own = WorkspaceFolder(LocalWorkspace("/"), str(home)) if home else None
    return anyio.run(partial(find_instructions, LocalWorkspace(str(folder)), home=own, max_bytes=max_bytes))


def test_the_users_file_comes_first_then_the_projects_from_root_to_leaf(tmp_path: Path) -> None:
    shop = project(tmp_path)
    write(tmp_path / "AGENTS.md", "outside the project")
    write(tmp_path / "home" / "AGENTS.md", "user")
    write(shop / "AGENTS.md", "root")
    write(shop / "api" / "v1" / "AGENTS.md", "leaf")
    write(shop / "other" / "AGENTS.md", "beside")
    found = find(shop / "api" / "v1", tmp_path / "home")
    assert [each.text for each in found] == ["user", "root", "leaf"]
    assert found[1].path == str(shop / "AGENTS.md")


def test_without_a_repository_only_the_folder_itself_counts(tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", "above")
    write(tmp_path / "work" / "AGENTS.md", "here")
    assert [each.text for each in find(tmp_path / "work")] == ["here"]


def test_a_worktree_whose_git_is_a_file_is_a_project(tmp_path: Path) -> None:
    write(tmp_path / "tree" / ".git", "gitdir: elsewhere")
    write(tmp_path / "tree" / "AGENTS.md", "root")
    (tmp_path / "tree" / "src").mkdir()
    assert [each.text for each in find(tmp_path / "tree" / "src")] == ["root"]


def test_cuts_are_reported_in_the_text_and_on_the_screen(tmp_path: Path) -> None:
    shop = project(tmp_path)
    line = "a rule of forty characters or thereabout\n"
    write(shop / "AGENTS.md", line * 1000)
    write(shop / "api" / "AGENTS.md", "never reached")
    root, leaf = find(shop / "api")
    text, _, note = root.text.partition("\n[Truncated")
    assert len(text) <= MAX_BYTES
    assert text.endswith(line)
    assert root.size - root.cut == len(text)
    assert f"{root.cut:,} bytes of {shop / 'AGENTS.md'}" in note
    assert (leaf.cut, leaf.size) == (13, 13)
    assert "13 bytes" in leaf.text
    assert "(cut)" in describe([root, leaf])


@given(
    st.lists(st.binary(max_size=200).filter(lambda data: b"\0" not in data), min_size=3, max_size=3),
    st.integers(0, 400),
)
def test_all_files_together_stay_below_the_limit(parts: list[bytes], cap: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shop = project(Path(folder))
        for place, data in zip((shop, shop / "api", shop / "api" / "v1"), parts, strict=True):
            write(place / "AGENTS.md", data)
        found = find(shop / "api" / "v1", max_bytes=cap)
        assert sum(each.size - each.cut for each in found) <= cap
        for each in found:
            each.text.encode()
            assert bool(each.cut) == ("[Truncated" in each.text)


def test_a_file_of_backquotes_is_read_at_once(tmp_path: Path) -> None:
    """Otherwise a cloned project holds up every start in it."""
    text = "@a " + "`" * (MAX_BYTES - 100)
    write(project(tmp_path) / "CLAUDE.md", text)
    assert [each.text for each in find(tmp_path / "shop")] == [text]


def test_invalid_utf8_is_replaced(tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", b"\xef\xbb\xbfgr\xfc\xdfe: always\n")
    [found] = find(tmp_path)
    assert found.text == "gr\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}e: always\n"


def test_a_cut_inside_a_character_leaves_no_broken_one(tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", "é" * 100)
    [found] = find(tmp_path, max_bytes=33)
    assert found.text.startswith("é" * 16 + "\n[Truncated")


def test_unreadable_files_are_reported_and_skipped(tmp_path: Path) -> None:
    shop = project(tmp_path)
    (shop / "AGENTS.md").symlink_to(shop / "AGENTS.md")
    os.mkfifo(shop / "api" / "AGENTS.md")
    write(shop / "api" / "v1" / "AGENTS.md", b"\x7fELF\0\0")
    write(tmp_path / "home" / "AGENTS.md", "user")
    user, loop, pipe, binary = find(shop / "api" / "v1", tmp_path / "home")
    assert user.text == "user"
    assert "symbolic link" in (loop.problem or "")
    assert "not a regular file" in (pipe.problem or "")
    assert "not a text file" in (binary.problem or "")
    assert describe([user, loop]) == "AGENTS.md 0.1k (not all could be read)"


def test_a_cloned_project_cannot_send_a_file_of_the_user_by_a_link(tmp_path: Path) -> None:
    shop = project(tmp_path)
    write(tmp_path / "secret", "PRIVATE KEY")
    write(shop / "CLAUDE.md", "the rules")
    (shop / "AGENTS.md").symlink_to(tmp_path / "secret")
    (shop / "api" / "AGENTS.md").symlink_to(shop / "CLAUDE.md")
    outside, inside = find(shop / "api")
    assert (outside.text, "outside the project" in (outside.problem or "")) == ("", True)
    assert inside.text == "the rules"


def test_a_broken_link_is_reported(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").symlink_to("CLAUDE.md")
    [found] = find(tmp_path)
    assert "No such file" in (found.problem or "")


def test_a_file_reached_twice_counts_once(tmp_path: Path) -> None:
    shop = project(tmp_path)
    write(shop / "AGENTS.md", "root")
    (shop / "api" / "AGENTS.md").symlink_to(shop / "AGENTS.md")
    assert [each.text for each in find(shop / "api", shop)] == ["root"]


def test_the_screen_says_how_much_is_used() -> None:
    assert describe([]) == ""
    assert describe([Instructions("a", "", size=1000), Instructions("b", "", size=240)]) == "AGENTS.md 1.2k"


HERE = PromptContext(  # noqa: S604 — the name of a shell, no call of one
    cwd="/src/shop", instructions=[], os_name="Linux", shell="/bin/zsh", date="2026-01-31"
)


def test_the_system_prompt_has_the_tools_the_rules_and_the_folder() -> None:
    files = [
        Instructions("/src/shop/AGENTS.md", "Use tabs.\n"),
        Instructions("/x", "", problem="unreadable"),
    ]
    context = msgspec.structs.replace(HERE, instructions=files, manner="Answer in French.")
    tools = [ToolSpec("read", "", {}), ToolSpec("edit", "", {}), ToolSpec("weather", "", {})]
    prompt = system_prompt(context, tools)
    surroundings = ("Use tabs.", "Answer in French.", "/src/shop", "2026-01-31")
    for words in ("`read`, `edit`, `weather`", "offset=5001", *surroundings):
        assert words in prompt
    assert "`bash`" not in prompt
    assert "unreadable" not in prompt
    assert len(prompt.splitlines()) < 60
    for words in surroundings:
        assert words in short_prompt(context)


def test_a_model_is_told_where_it_reads_about_newel_if_it_can() -> None:
    """Otherwise it answers from memory, which knows other agents better."""
    context = msgspec.structs.replace(HERE, has_docs=True)
    told = "`newel docs`"
    assert told in system_prompt(context, [ToolSpec("bash", "", {})])
    assert told not in system_prompt(context, [ToolSpec("read", "", {})])
    assert told not in system_prompt(HERE, [ToolSpec("bash", "", {})])
    in_another_product = msgspec.structs.replace(context, manner="You are Bob.")
    assert told not in system_prompt(in_another_product, [ToolSpec("bash", "", {})])


def test_without_tools_the_system_prompt_names_none() -> None:
    prompt = system_prompt(HERE, [])
    assert "# Tools" not in prompt
    assert "# Instructions" not in prompt


def test_the_short_prompt_leaves_most_of_a_small_window_to_the_work() -> None:
    """Its tokens are read anew by every model on a laptop, at some tens a second."""
    assert len(short_prompt(HERE)) < 600
