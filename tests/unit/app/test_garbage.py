"""If these fail, a key waits for tens of milliseconds while modules are looked through for garbage."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from types import ModuleType

import pytest

from newel.app.garbage import ModuleFreezer

NAME = "newel_loaded_by_a_test"


@pytest.fixture
def kept() -> Generator[None]:
    """The objects of this process that a test exempts are collected again afterwards."""
    keep = ModuleFreezer()
    gc.collect(1)
    gc.callbacks.append(keep)
    gc.collect(1)
    yield
    gc.callbacks.remove(keep)
    sys.modules.pop(NAME, None)
    gc.unfreeze()


def exempted() -> int:
    return gc.get_freeze_count()


@pytest.mark.usefixtures("kept")
def test_the_objects_of_a_module_that_was_loaded_are_no_longer_looked_at() -> None:
    objects: list[list[object]] = [[] for _ in range(1_000)]
    loaded = sys.modules[NAME] = ModuleType(NAME)
    loaded.__dict__["objects"] = objects
    gc.collect(1)

    looked_at = set(map(id, gc.get_objects()))
    assert looked_at.isdisjoint(map(id, objects))


@pytest.mark.usefixtures("kept")
def test_garbage_is_collected_where_no_module_was_loaded() -> None:
    before = exempted()

    loop: list[object] = []
    loop.append(loop)
    del loop
    collected = gc.collect(1)

    assert collected
    assert exempted() <= before
