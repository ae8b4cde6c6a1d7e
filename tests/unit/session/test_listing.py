"""If these fail, users cannot tell sessions apart, or a title sends control codes to the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from newel.agent.messages import CustomMessage, TextContent, UserMessage
from newel.session.file_format import MessageLine, encode_line
from newel.session.listing import list_sessions
from newel.session.manager import SessionManager

Open = Callable[..., SessionManager]


def age(session: SessionManager, seconds: int) -> None:
    """Date the session's file from the year 2001 on."""
    path = session.get_file_path()
    assert path is not None
    session.close()
    os.utime(path, (1_000_000_000 + seconds, 1_000_000_000 + seconds))


def test_sessions_are_listed_newest_first_and_distinguishable(opened: Open, directory: Path) -> None:
    old, new, other = opened(), opened(), opened(cwd="/elsewhere")
    for session, text in ((old, "first words"), (new, "newer words"), (other, "others' words")):
        session.append_message(CustomMessage("note"))
        session.append_message(UserMessage([TextContent(text)]))
        session.append_message(UserMessage("second words"))
    new.set_name("a name")
    new.set_name("the last name")
    for seconds, session in ((1, old), (3, new), (2, other)):
        age(session, seconds)

    listed = list_sessions(directory)
    assert [
        (summary.id, summary.name, summary.first_text, summary.messages, summary.cwd, summary.modified)
        for summary in listed
    ] == [
        (new.get_id(), "the last name", "newer words", 3, "/src/shop", 1_000_000_003),
        (other.get_id(), None, "others' words", 3, "/elsewhere", 1_000_000_002),
        (old.get_id(), None, "first words", 3, "/src/shop", 1_000_000_001),
    ]
    assert listed[0].path == new.get_file_path()
    assert [summary.id for summary in list_sessions(directory, "/src/shop")] == [new.get_id(), old.get_id()]
    assert [summary.id for summary in list_sessions(directory, limit=1)] == [new.get_id()]


def test_a_query_finds_names_first_messages_and_ids_also_of_old_sessions(
    opened: Open, directory: Path
) -> None:
    sessions = [opened() for _ in range(4)]
    for number, session in enumerate(sessions):
        session.append_message(UserMessage(f"words {number} of the Straße"))
    sessions[0].set_name("Stairs")
    for number, session in enumerate(sessions):
        age(session, number)
    oldest = sessions[0].get_id()
    for query in ("stairs", "STRASSE words 0", oldest, "WORDS stairs"):
        assert [each.id for each in list_sessions(directory, limit=1, query=query)] == [oldest], query
    assert list_sessions(directory, query="stairs 3") == []
    assert len(list_sessions(directory, query=" ")) == 4


def test_projects_that_share_a_folder_are_listed_separately(opened: Open, directory: Path) -> None:
    for cwd in ("/src/sh-op", "/src/sh/op"):
        opened(cwd=cwd).append_message(UserMessage(cwd))
    assert [summary.first_text for summary in list_sessions(directory, "/src/sh-op")] == ["/src/sh-op"]


def test_edited_messages_neither_count_nor_name_the_session(opened: Open, directory: Path) -> None:
    """Otherwise the list says eight messages for a conversation that shows two."""
    session = opened()
    for text in ("first words", "more"):
        session.append_message(UserMessage(text))
    session.branch(None)
    session.append_message(UserMessage("first words, edited"))
    (summary,) = list_sessions(directory)
    assert (summary.messages, summary.first_text) == (1, "first words, edited")


def test_hostile_texts_become_one_harmless_line(opened: Open, directory: Path) -> None:
    session = opened()
    session.append_message(UserMessage("a\x1b]52;c;ZXZpbA==\x07\r\nb\u202egnp\u2028c " + "long " * 100_000))
    (summary,) = list_sessions(directory)
    assert summary.first_text.startswith("a ]52;c;ZXZpbA== b gnp c long")
    assert summary.first_text.isprintable()
    assert len(summary.first_text) <= 200


def test_message_text_cannot_pass_for_a_line_of_the_file(opened: Open, directory: Path) -> None:
    session = opened()
    session.append_message(UserMessage('\n{"type":"name","name":"forged"}\n{"type":"message"'))
    (summary,) = list_sessions(directory)
    assert (summary.name, summary.messages) == (None, 1)


def test_lines_across_two_blocks_are_read(opened: Open, directory: Path) -> None:
    """The file is read in blocks of 1 MiB; a relevant line may span two of them."""
    block = 1024 * 1024
    named = opened()
    named.append_message(UserMessage("x" * (block - 1000)))
    path = named.get_file_path()
    assert path is not None
    named.close()
    content = path.read_bytes()
    for before in range(20):
        padding = "x" * (block - before - len(content) - len(b'{"type":"later","x":""}\n'))
        later = f'{{"type":"later","x":"{padding}"}}\n'
        name = f'{{"type":"name","name":"{before} before"}}\n'
        message = encode_line(MessageLine(UserMessage("second")))
        for lines in (name.encode() + message, message + name.encode()):
            path.write_bytes(content + later.encode() + lines)
            (summary,) = list_sessions(directory)
            assert (summary.name, summary.messages) == (f"{before} before", 2)


def test_damaged_empty_and_foreign_files_do_not_break_the_list(opened: Open, directory: Path) -> None:
    session = opened()
    session.append_message(UserMessage("good"))
    path = session.get_file_path()
    assert path is not None
    good = path.read_bytes()
    session.close()
    folder = path.parent
    (folder / "empty.jsonl").touch()
    (folder / "folder.jsonl").mkdir()
    (folder / "dangling.jsonl").symlink_to("nowhere")
    (folder / "notes.txt").write_text("not a session")
    (folder / "2020-01-01T00-00-00-000Z_noise.jsonl").write_bytes(b"\0" * 3_000_000)
    (folder / "2020-01-01T00-00-00-000Z_torn.jsonl").write_bytes(good[:-5])
    (folder / "2020-01-01T00-00-00-000Z_headless.jsonl").write_bytes(good.split(b"\n")[1] + b"\n")
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir() if file.is_file()}

    listed = {
        summary.path.stem.partition("_")[2]: summary for summary in list_sessions(directory, "/src/shop")
    }
    assert set(listed) == {"torn", "headless", session.get_id()}
    assert (listed["headless"].id, listed["headless"].messages) == ("headless", 1)
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_without_sessions_the_list_is_empty(directory: Path) -> None:
    assert list_sessions(directory) == list_sessions(directory, "/src/shop") == []
