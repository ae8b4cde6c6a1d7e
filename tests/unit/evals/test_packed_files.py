"""If these fail, a task reaches a worker otherwise than it is, the files of a trial get lost, or a strange machine writes elsewhere."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import msgspec
import pytest

from newel.evals.packed_files import (
    LEFT_OUT,
    MOST_OF_TASK,
    PackedFile,
    PackingError,
    pack,
    pack_task,
    pack_trial,
    unpack_task,
    unpack_trial,
)
from newel.evals.task import load_task

TASK = """\
title = "x"
size = "S"
tags = []
prompt = "p"
[[checks]]
file = "a"
contains = "b"
[reference]
run = "true"
[[wrong]]
why = "w"
run = "true"
"""


def make_task(folder: Path) -> Path:
    (folder / "files/empty").mkdir(parents=True)
    (folder / "task.toml").write_text(TASK)
    (folder / "files/program").touch(mode=0o755)
    (folder / "files/private").touch(mode=0o600)
    (folder / "files/bytes").write_bytes(bytes(range(256)))
    (folder / "files/link").symlink_to("program")
    return folder


def test_a_task_arrives_as_it_is(tmp_path: Path) -> None:
    sent = make_task(tmp_path / "fix-it")
    there = tmp_path / "there" / "fix-it"
    unpack_task(pack_task(sent), there)
    assert load_task(there).digest == load_task(sent).digest
    assert (there / "files/empty").is_dir()
    for name in ("program", "private"):
        assert (there / "files" / name).stat().st_mode == (sent / "files" / name).stat().st_mode
    assert (there / "files/link").readlink() == Path("program")


def test_a_task_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    sent = make_task(tmp_path / "fix-it")
    with (sent / "files/big").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(PackingError, match="more than 8,388,608 bytes"):
        pack_task(sent)


def make_trial(place: Path) -> None:
    (place / "project/sub").mkdir(parents=True)
    (place / "home/.newel/sessions").mkdir(parents=True)
    (place / "trace.jsonl").write_text(f'{{"cwd":"{place}/project","key":"top-secret"}}\n')
    (place / "project/sub/made").write_text("made")
    (place / "home/.newel/sessions/s.jsonl").write_text("{}")


def hide_secret(data: bytes) -> bytes:
    return data.replace(b"top-secret", b"**********")


def test_the_files_of_a_trial_come_back_with_the_paths_of_the_new_place(tmp_path: Path) -> None:
    make_trial(tmp_path / "there")
    here = tmp_path / "here"
    unpack_trial(pack_trial(tmp_path / "there", hide_secret), here)
    assert (here / "trace.jsonl").read_text() == f'{{"cwd":"{here}/project","key":"**********"}}\n'
    assert (here / "project/sub/made").read_text() == "made"
    assert (here / "home/.newel/sessions/s.jsonl").read_text() == "{}"
    assert not (here / LEFT_OUT).exists()


def test_what_an_agent_leaves_to_do_harm_is_named_and_stays_behind(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    make_trial(there)
    project = there / "project"
    (project / "out").symlink_to("/etc/passwd")
    os.mkfifo(project / "pipe")
    (project / ".git/hooks").mkdir(parents=True)
    (project / ".git/hooks/pre-commit").write_text("evil")
    with (project / "huge").open("wb") as file:
        file.truncate(1 << 40)
    for number in range(8):
        (project / f"random{number}").write_bytes(os.urandom(1 << 20))
    unpack_trial(pack_trial(there, hide_secret), here)
    left_out = (here / LEFT_OUT).read_text().splitlines()
    assert {f"project/{name}" for name in ("out", "pipe", ".git", "huge")} <= set(left_out)
    assert (here / "trace.jsonl").exists()
    came = {path.name for path in (here / "project").iterdir()}
    assert "sub" in came
    assert len(came) == 4  # and as many of the others as there is room for


@pytest.mark.parametrize(
    "file",
    [
        PackedFile("../evil", "file", b"x"),
        PackedFile("/tmp/evil", "file", b"x"),  # noqa: S108 — what is refused
        PackedFile("project/./../../evil", "file", b"x"),
        PackedFile("project", "link", b"/etc"),
        PackedFile("project/.GIT/config", "file", b"x"),
        PackedFile("a\0b", "file", b"x"),
        PackedFile("a" * 300, "file", b"x"),
    ],
    ids=lambda file: file.path[:20],
)
def test_a_file_that_no_trial_sends_is_refused(tmp_path: Path, file: PackedFile) -> None:
    with pytest.raises(PackingError):
        unpack_trial(pack([PackedFile("trace.jsonl", "file"), file]), tmp_path / "deep/here")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    "packed",
    [
        b"no zlib",
        zlib.compress(b"\xc1"),
        zlib.compress(msgspec.msgpack.encode([PackedFile("a", "file", b"x" * 80_000_000)])),
        pack([PackedFile("a", "file", b"x")])[:-1],
        pack([PackedFile(f"a{number}", "file") for number in range(6_000)]),
        pack([PackedFile("a", "file"), PackedFile("a/b", "file")]),
        pack([PackedFile("a", "file"), PackedFile("a", "file")]),
    ],
    ids=["garbage", "no files", "a bomb", "cut off", "too many", "a folder in place of a file", "twice"],
)
def test_damaged_files_are_refused(tmp_path: Path, packed: bytes) -> None:
    with pytest.raises(PackingError):
        unpack_trial(packed, tmp_path / "here")


@pytest.mark.parametrize(
    "links",
    [
        [("files", "{out}")],
        [("files/a", "{out}"), ("files/a/planted", "x")],
        [("files/a", "b"), ("files/a/planted", "x")],
        [("files/a", "../../planted")],
        [("planted", "files/a")],
    ],
    ids=str,
)
def test_a_task_has_no_link_that_leads_out_of_its_files(tmp_path: Path, links: list[tuple[str, str]]) -> None:
    """Otherwise who submits a trial has links made on a worker, anywhere, or files copied from there."""
    (out := tmp_path / "out").mkdir()
    packed = [PackedFile("task.toml", "file", b""), PackedFile("files/b", "folder")]
    packed += [PackedFile(at, "link", target.format(out=out).encode()) for at, target in links]
    if links[0][0] == "files":
        packed = packed[:1] + packed[2:]
    with pytest.raises(PackingError, match=r"is a link|below a link"):
        unpack_task(pack(packed), tmp_path / "there/task")
    assert [*out.iterdir()] == []
    assert not [*tmp_path.rglob("planted")]


def test_the_traces_of_a_trial_are_not_those_of_another_place(tmp_path: Path) -> None:
    traces = tmp_path / "private/traces"
    traces.mkdir(parents=True)
    (traces / "job.jsonl").write_bytes(b"PRIVATE")
    place = tmp_path / "place"
    (place / "home").mkdir(parents=True)
    (place / "home/.newel").symlink_to(tmp_path / "private")
    assert b"PRIVATE" not in zlib.decompress(pack_trial(place, bytes))


def test_the_limit_of_a_task_holds_when_it_is_unpacked(tmp_path: Path) -> None:
    with pytest.raises(PackingError, match="more than 8,388,608 bytes"):
        unpack_task(pack([PackedFile("a", "file", b"x" * MOST_OF_TASK)]), tmp_path / "task")
