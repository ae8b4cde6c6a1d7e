"""If these fail, the author of a task does not learn which line of it is wrong, or a changed task is mixed with its former self."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from newel.agent.errors import UsageError
from newel.evals.task import TaskError, find_tasks, load_task, load_tasks, select

GOOD = """\
title = "Say hello"
size = "S"
tags = ["shell"]
prompt = "Write hello.txt with the word hello."

[files]
"notes.txt" = "notes"

[[checks]]
file = "hello.txt"
contains = "^hello$"

[[checks]]
only = ["hello.txt"]

[reference]
files = { "hello.txt" = "hello" }

[[wrong]]
why = "It greets the world."
files = { "hello.txt" = "hello, world" }
"""


def write(folder: Path, text: str, name: str = "say-hello") -> Path:
    place = folder / name
    place.mkdir(exist_ok=True)
    (place / "task.toml").write_text(text)
    return place


def test_a_task_has_what_its_file_says(tmp_path: Path) -> None:
    task = load_task(write(tmp_path, GOOD))
    assert (task.name, task.size, task.timeout) == ("say-hello", "S", 300.0)
    assert [check.only for check in task.checks] == [None, ("hello.txt",)]
    assert task.wrong[0].why == "It greets the world."


SLIPS = {
    ('size = "S"', 'size = "XL"'): "line 2: size: it must be one of S, M, L.",
    ('tags = ["shell"]', 'tags = ["shell", 3]'): "line 3: tags.1: expected `str`, got `int`.",
    ('prompt = "', 'promt = "'): "line 4: promt: unknown field (did you mean `prompt`?).",
    ("only = [", "olny = ["): "line 14: checks.1.olny: unknown field (did you mean `only`?).",
    (
        "only = [",
        "xyz = [",
    ): "line 14: checks.1.xyz: unknown field; the fields are run, output, timeout, file,",
    ('contains = "^hello$"', 'contains = "(hello"'): "line 9: checks.0: `(hello` is not a regular expression",
    ('contains = "^hello$"\n', ""): "line 9: checks.0: `file` needs exactly one of",
    ('only = ["hello.txt"]', ""): "line 13: checks.1: a check has exactly one of",
    ('why = "It greets the world."', ""): "line 1: each of `[[wrong]]` needs `why`",
    ("[files]", "[files"): "line 6: ",
    ('file = "hello.txt"', 'file = "../hello.txt"'): "line 10: the path `../hello.txt` is not one below",
    ('"notes.txt" = ', '"/etc/notes.txt" = '): "line 7: the path `/etc/notes.txt` is not one below",
    ('files = { "hello.txt" = "hello, world" }', 'files = { "a\\u0000" = "" }'): "is not one below",
    ("[files]", '[host]\nlocal = { "/etc/x" = "" }\n[files]'): "the path `/etc/x` is not one below",
    ("[files]", "[host]\n[review]\n[files]"): "line 1: `[host]` and `[review]` do not go together",
}


@pytest.mark.parametrize(("before", "after"), SLIPS, ids=[after for _, after in SLIPS])
def test_a_slip_is_told_with_its_line_and_field(tmp_path: Path, before: str, after: str) -> None:
    assert before in GOOD
    with pytest.raises(TaskError) as told:
        load_task(write(tmp_path, GOOD.replace(before, after)))
    assert SLIPS[before, after] in str(told.value)
    assert str(tmp_path / "say-hello" / "task.toml") in str(told.value)


def test_a_name_that_a_command_line_could_misread_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="lower-case letters, digits and hyphens"):
        load_task(write(tmp_path, GOOD, name="Say hello"))


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    place = write(tmp_path, GOOD)
    (place / "task.toml").write_bytes(b'title = "caf\xe9"\n')
    with pytest.raises(TaskError, match="line 1: byte 0xe9 is not UTF-8 text"):
        load_task(place)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match=r"task\.toml cannot be read: No such file"):
        load_task(tmp_path / "empty")


def test_tasks_are_found_and_selected_by_name_tag_and_size(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "one")
    write(tmp_path, GOOD.replace('"S"', '"M"').replace('"shell"', '"bug"'), "two")
    (tmp_path / "no-task").mkdir()
    tasks = [load_task(path) for path in find_tasks(tmp_path)]
    assert [task.name for task in tasks] == ["one", "two"]
    assert [task.name for task in select(tasks, ["bug"])] == ["two"]
    assert [task.name for task in select(tasks, ["one", "M"])] == ["one", "two"]
    with pytest.raises(UsageError, match=r"No task has the name, tag or size `bugs`\. Did you mean `bug`\?"):
        select(tasks, ["bugs"])


def test_a_task_that_was_changed_has_another_digest(tmp_path: Path) -> None:
    """Otherwise a run that is resumed mixes results of two different tasks."""
    place = write(tmp_path, GOOD)
    before = load_task(place).digest
    (place / "files").mkdir()
    (place / "files" / "more.txt").write_text("more")
    assert load_task(place).digest != before


def test_a_file_of_an_editor_on_windows_is_read(tmp_path: Path) -> None:
    place = write(tmp_path, GOOD)
    (place / "task.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_task(place).checks == load_task(write(tmp_path, GOOD)).checks


def test_a_name_that_is_not_utf8_is_part_of_the_digest(tmp_path: Path) -> None:
    place = write(tmp_path, GOOD)
    (place / "files").mkdir()
    before = load_task(place).digest
    Path(os.fsdecode(bytes(place / "files") + b"/a\xff")).touch()
    assert load_task(place).digest != before


def test_files_that_cannot_be_those_of_a_task_are_told(tmp_path: Path) -> None:
    """A stranger's task reads nothing from elsewhere, and a large file does not make `newel eval list` wait."""
    place = write(tmp_path, GOOD)
    file = place / "files" / "x"
    file.parent.mkdir()
    (file.parent / "near").symlink_to("y")
    assert load_task(place)
    for make, told in (
        (lambda: file.symlink_to("/etc/passwd"), r"files/x is a link to a place outside of files/"),
        (lambda: file.symlink_to("../task.toml"), r"files/x is a link to a place outside of files/"),
        (lambda: os.mkfifo(file), r"files/x is neither a file nor a folder\. Make it in `setup`"),
        (
            lambda: (file.touch(), os.truncate(file, 1 << 40)),
            r"more than 1,073,741,824 bytes\. Make x in `setup`",
        ),
    ):
        make()
        with pytest.raises(TaskError, match=told):
            load_task(place)
        file.unlink()


LEADS_OUT = {
    "the folder of files": ("files", "{secret}"),
    "the folder of files, by its parent": ("files", "../../secret"),
    "a folder in it": ("files/a/b", "{secret}"),
    "a link in it whose target is a link": ("files/a", "b"),
    "an absolute path of its own": ("files/a", "{task}/files/b"),
    "out and in again": ("files/a", "../files/b"),
    "a circle": ("files/a", "a"),
    "the task's file": ("task.toml", "files/task.toml"),
    "the golden trace": ("trace.json", "files/trace.json"),
    "the golden trace of another place": ("trace.json", "{secret}/trace.json"),
}


@pytest.mark.parametrize("case", LEADS_OUT)
def test_a_link_that_leads_out_of_the_files_of_a_task_is_refused(tmp_path: Path, case: str) -> None:
    """A stranger's suite would have a user's folder copied to where the model reads it."""
    secret = tmp_path / "secret"
    secret.mkdir()
    for name in ("id_rsa", "trace.json"):
        (secret / name).write_text("PRIVATE KEY")
    place = write(tmp_path, GOOD)
    at, target = LEADS_OUT[case]
    link = place / at
    link.parent.mkdir(parents=True, exist_ok=True)
    if case == "a link in it whose target is a link":
        (place / "files/b").symlink_to(secret)
    if at == "task.toml":
        (place / "files").mkdir()
        link.rename(place / "files/task.toml")
    link.symlink_to(target.format(secret=secret, task=place))
    with pytest.raises(TaskError) as caught:
        load_task(place)
    assert "is a link" in str(caught.value)
    assert "say-hello" in str(caught.value)
    assert "Copy" in str(caught.value)


def test_a_task_that_is_a_link_is_refused_and_a_suite_may_be_one(tmp_path: Path) -> None:
    elsewhere, suite = tmp_path / "elsewhere", tmp_path / "suite"
    elsewhere.mkdir()
    suite.mkdir()
    write(suite, GOOD)
    (suite / "thief").symlink_to(write(elsewhere, GOOD))
    (tmp_path / "link").symlink_to(suite)
    tasks, (error,) = load_tasks(find_tasks(tmp_path / "link"), [])
    assert [task.name for task in tasks] == ["say-hello"]
    assert "thief is a link" in str(error)
    (task,) = load_tasks(find_tasks(suite / "thief"), [])[0]  # the user names it
    assert task.name == "say-hello"


def test_all_slips_of_a_suite_are_told_and_those_of_other_tasks_do_not_matter(tmp_path: Path) -> None:
    for name, text in {"bad": "title = 1\n", "good": GOOD, "worse": "[\n"}.items():
        write(tmp_path, text, name)
    tasks, errors = load_tasks(find_tasks(tmp_path), [])
    assert [task.name for task in tasks] == ["good"]
    assert [Path(str(error).partition(",")[0]).parent.name for error in errors] == ["bad", "worse"]
    assert load_tasks(find_tasks(tmp_path), ["good"])[1] == []
    assert len(load_tasks(find_tasks(tmp_path), ["shell"])[1]) == 2  # they may have this tag
