"""If these fail, a change outside the project goes unnoticed, or looking for one holds up Newel."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.review.tracking.outside import MAX_COMMAND, OutsideWatch


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.mark.parametrize(
    "command", ["echo x >{place}", "X={place} sh x", "dd of={place}", "tee '{place}'", "cd ..;>./made cat"]
)
def test_a_place_that_a_command_names_is_noticed(project: Path, tmp_path: Path, command: str) -> None:
    place = tmp_path / "made"
    watch = OutsideWatch(str(project))
    watch.look(command.format(place=place).replace("./made", "../made"))
    place.write_text("x")
    assert str(place) in watch.changed()


def test_a_link_of_another_users_process_stops_no_command(project: Path) -> None:
    OutsideWatch(str(project)).look("ls -l /proc/1/exe; cat /proc/1/root/etc/hostname")


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", ["a", "$", "{", "~"])
def test_a_long_word_is_looked_through_at_once(project: Path, text: str) -> None:
    OutsideWatch(str(project)).look(f"echo {text * MAX_COMMAND}")
