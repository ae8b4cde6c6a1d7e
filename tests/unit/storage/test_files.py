"""If these fail, files of killed processes pile up in Newel's folder, or a running process loses the file that it writes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from newel.storage.file_lock import lock
from newel.storage.files import replace_file

LEFT = ".a.json-0123456789abcdef.tmp"


def test_the_next_write_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    for name in (LEFT, ".b.json-0123456789abcdef.tmp", ".a.json-mine.tmp"):
        (tmp_path / name).write_text("half")
    replace_file(tmp_path / "a.json", b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".a.json-mine.tmp",
        ".b.json-0123456789abcdef.tmp",
        "a.json",
    ]
    assert (tmp_path / "a.json").read_bytes() == b"whole"


def test_a_file_that_another_process_is_writing_stays(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / LEFT, os.O_WRONLY | os.O_CREAT, 0o600)
    lock(descriptor)
    replace_file(tmp_path / "a.json", b"whole")
    assert (tmp_path / LEFT).exists()
    os.close(descriptor)
    replace_file(tmp_path / "a.json", b"whole")
    assert not (tmp_path / LEFT).exists()


def test_a_reader_never_sees_a_part_of_the_new_content(tmp_path: Path) -> None:
    """A kill after the exchange would leave it so."""
    path = tmp_path / "a.json"
    replace_file(path, b"old" * 100)
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(200):
        replace_file(path, b"new" * 100)
        replace_file(path, b"old" * 100)
    done.set()
    reader.join()
    assert seen <= {b"old" * 100, b"new" * 100}
