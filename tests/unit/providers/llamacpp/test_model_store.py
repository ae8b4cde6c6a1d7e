"""If these fail, a file of the user is lost or copied, or a name leads out of Newel's folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from newel.agent.errors import ConfigError, NewelError, RequestRejected, UsageError
from newel.providers.catalog.downloadable_models import DOWNLOADABLE
from newel.providers.http.urls import is_model_name
from newel.providers.llamacpp.model_file import load_model_file
from newel.providers.llamacpp.model_store import ModelStore
from tests.gguf_file import LLAMA, gguf

HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "~",
    "-x",
    ".x",
    "a\0b",
    "a\n",
    "x.gguf",
    "x.part",
]


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "home" / "models")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "My Model.gguf"
    path.write_bytes(gguf())
    return path


def test_a_users_file_gets_a_name_and_stays_where_it_is(store: ModelStore, file: Path) -> None:
    stored = store.link("mine", file)
    assert (stored.target, stored.size) == (file, file.stat().st_size)
    assert load_model_file(store.path("mine")).size == stored.size
    assert store.all() == [stored] == [store.find("mine")]
    assert store.remove("mine") is not None
    assert store.all() == []
    assert file.read_bytes() == gguf()


def test_a_name_can_be_given_to_another_file(store: ModelStore, file: Path, tmp_path: Path) -> None:
    store.link("mine", file)
    other = tmp_path / "other.gguf"
    other.write_bytes(gguf())
    assert store.link("mine", other).target == other


def test_a_file_that_is_gone_is_reported_with_its_path(store: ModelStore, file: Path) -> None:
    store.link("mine", file)
    file.unlink()
    [stored] = store.all()
    assert stored.size is None
    with pytest.raises(RequestRejected, match=f"no model file {re.escape(str(file))}, to which"):
        load_model_file(store.path("mine"))


@pytest.mark.parametrize(
    "data", [b"", b"<html>", gguf()[:100], gguf()[:-1], gguf({**LLAMA, "split.count": 2})]
)
def test_a_file_that_is_no_complete_model_gets_no_name(
    store: ModelStore, tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(NewelError):
        store.link("bad", path)
    assert store.all() == []


def test_the_first_part_of_a_split_model_is_used_by_its_path(store: ModelStore, tmp_path: Path) -> None:
    parts = [tmp_path / f"big-0000{number}-of-00002.gguf" for number in (1, 2)]
    for part in parts:
        part.write_bytes(gguf({**LLAMA, "split.count": 2}))
    with pytest.raises(ConfigError, match=f"llamacpp:{parts[0]}"):
        store.link("big", parts[0])


def test_a_downloaded_model_is_not_replaced_by_a_link(store: ModelStore, file: Path) -> None:
    """Otherwise it would have to be downloaded again."""
    store.prepare()
    store.path("mine").write_bytes(gguf())
    with pytest.raises(ConfigError, match="Give another name"):
        store.link("mine", file)
    assert not store.path("mine").is_symlink()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_leads_nowhere(store: ModelStore, file: Path, name: str) -> None:
    uses: list[Callable[[], object]] = [
        partial(store.path, name),
        partial(store.find, name),
        partial(store.remove, name),
        partial(store.link, name, file),
    ]
    for use in uses:
        with pytest.raises(UsageError):
            use()


def test_what_is_removed_is_counted(store: ModelStore) -> None:
    store.prepare()
    store.path("a").write_bytes(b"123")
    store.partial_path("a").write_bytes(b"12")
    assert store.remove("a") == 5
    assert store.remove("a") is None
    assert list(store.folder.iterdir()) == []


def test_the_list_of_models_can_be_downloaded_and_checked() -> None:
    """A wrong hash costs the user a download of gigabytes; each address names a revision, so its file never changes."""
    for model in DOWNLOADABLE:
        assert is_model_name(model.name)
        assert re.fullmatch(r"[0-9a-f]{64}", model.sha256)
        assert re.fullmatch(r"[0-9a-f]{40}", model.revision)
        assert model.file.endswith(".gguf")
        assert model.licence in {"Apache-2.0", "MIT"}
        assert model.size < model.memory * 10**9 < 3 * model.size
    sizes = [model.size for model in DOWNLOADABLE]
    assert sizes == sorted(set(sizes))
    assert (
        len({model.name for model in DOWNLOADABLE})
        == len({model.sha256 for model in DOWNLOADABLE})
        == len(sizes)
    )
