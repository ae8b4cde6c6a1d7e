"""If these fail, a message that was typed earlier is lost or comes back as another one."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.history import FileHistory

from newel.storage.prompt_history import PromptHistory

MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["/a", "/b \n", ""]), st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
    )
)


@given(MESSAGES)
def test_messages_come_back_as_typed_and_older_versions_read_them(messages: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = PromptHistory(Path(folder, "history"))
        history.create()
        for place, text in messages:
            history.append(place, text)
        assert history.read() == messages
        assert list(FileHistory(str(history.path)).load_history_strings())[::-1] == [
            text for _, text in messages
        ]
        assert history.count("/a") == sum(place == "/a" for place, _ in messages)
        history.forget("/a")
        assert history.read() == [(place, text) for place, text in messages if place != "/a"]


def test_of_a_long_file_the_end_is_read(tmp_path: Path) -> None:
    history = PromptHistory(tmp_path / "history")
    history.create()
    for number in range(3):
        history.append("/a", f"{number}\n" + "x\n" * 300_000)
    assert [text[:2] for _, text in history.read()] == ["2\n"]
