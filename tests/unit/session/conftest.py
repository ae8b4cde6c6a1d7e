"""Fixtures: sessions in a temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from newel.session.manager import SessionManager

CWD = "/src/shop"
Open = Callable[..., SessionManager]


@pytest.fixture
def directory() -> Generator[Path]:
    """A fresh folder, recreated by tests that hypothesis repeats."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder, "sessions")


@pytest.fixture
def opened(directory: Path) -> Generator[Open]:
    """Opens sessions of one project, and closes them after the test."""
    managers: list[SessionManager] = []

    def open_session(cwd: str = CWD, **options: Any) -> SessionManager:
        manager = SessionManager(directory=directory, cwd=cwd, **options)
        managers.append(manager)
        return manager

    yield open_session
    for manager in managers:
        manager.close()
