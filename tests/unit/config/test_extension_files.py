"""If these fail, an installed extension is not found, or odd files beside Newel keep it from starting."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint as Standard
from importlib.metadata import PathDistribution
from pathlib import Path

from newel.config.extension_files import extension_files, installed_extensions

TEXT = """\
[console_scripts]
dice = newel_dice.main:run

[newel.tools]
dice = newel_dice:register
deep = newel_dice.deep : Kit.register
whole=newel_dice.whole
extra = newel_dice.extra:register [fast]
# a comment = not:this
[newel.hooks]
again = newel_dice:register
[newel.other]
x = no:no
"""


def package(folder: Path, name: str, text: str) -> Path:
    metadata = folder / f"{name}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(text)
    return metadata


def test_entry_points_are_those_that_the_standard_library_reads(tmp_path: Path) -> None:
    metadata = package(tmp_path, "newel_dice-1", TEXT)
    standard: list[Standard] = [
        point
        for point in PathDistribution(metadata).entry_points
        if point.group in {"newel.tools", "newel.hooks"} and point.name != "again"
    ]
    found = installed_extensions([str(tmp_path)])
    assert sorted((point.group, point.name, point.module, point.attribute) for point in found) == sorted(
        (point.group, point.name, point.module, point.attr or "") for point in standard
    )


def test_odd_files_are_passed_over(tmp_path: Path) -> None:
    for name, text in (("a-1", "[newel.tools\nx"), ("b-1", "[newel.tools]\n= x\nx =\nx = a b:c\n\0")):
        package(tmp_path, name, text)
    binary = package(tmp_path, "c-1", "")
    (binary / "entry_points.txt").write_bytes(b"[newel.tools]\n\xff\xfe = \xff\n")
    pipe = package(tmp_path, "d-1", "") / "entry_points.txt"
    pipe.unlink()
    os.mkfifo(pipe)
    folder = package(tmp_path, "e-1", "") / "entry_points.txt"
    folder.unlink()
    folder.mkdir()
    assert installed_extensions([str(tmp_path), str(tmp_path / "none")]) == []


def test_files_are_those_of_python_that_are_not_hidden(tmp_path: Path) -> None:
    assert extension_files(tmp_path) == []
    folder = tmp_path / "extensions"
    folder.mkdir()
    for name in ("b.py", "a.py", "_helper.py", ".hidden.py", "notes.txt"):
        (folder / name).touch()
    assert extension_files(tmp_path) == [folder / "a.py", folder / "b.py"]
