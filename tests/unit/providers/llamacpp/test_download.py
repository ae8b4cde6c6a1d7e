"""If these fail, gigabytes are downloaded twice, or a file that is incomplete or not the model is used as one."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from newel.agent.errors import BadResponse, ConfigError, ConnectionFailed, NewelError, RequestRejected
from newel.providers.catalog.downloadable_models import DownloadableModel
from newel.providers.llamacpp.download import ATTEMPTS, MAX_REDIRECTS, Download
from newel.providers.llamacpp.model_store import ModelStore, locked
from tests.gguf_file import LLAMA, gguf
from tests.model_mirror import ModelMirror, model_mirror

pytestmark = pytest.mark.anyio

DATA = gguf(LLAMA, (("only", (50_000,), 0),)) + bytes(range(256)) * 400
HALF = 150_000


@pytest.fixture
def mirror() -> Iterator[ModelMirror]:
    with model_mirror(DATA) as server:
        yield server


class Puller:
    """Downloads the file of a mirror; ``notices`` and ``progress`` are what the user would see."""

    def __init__(self, folder: Path, mirror: ModelMirror, data: bytes = DATA, size: int = len(DATA)) -> None:
        self.store = ModelStore(folder / "models")
        self.notices: list[str] = []
        self.progress: list[tuple[str, int]] = []
        model = DownloadableModel(
            name="tiny",
            parameters="1",
            licence="MIT",
            repository="Org/Repo",
            revision="abc",
            file="tiny-q4.gguf",
            size=size,
            sha256=hashlib.sha256(data).hexdigest(),
            context=1,
            memory=1,
            note="",
        )
        self.path, self.partial = self.store.path("tiny"), self.store.partial_path("tiny")
        self.url = mirror.url
        self._model = model

    @property
    def download(self) -> Download:
        return Download(
            self._model,
            self.store,
            self.url,
            on_progress=lambda action, at: self.progress.append((action, at)),
            on_notice=self.notices.append,
            pause=0,
        )

    async def run(self) -> bytes:
        assert await self.download.run() == self.path
        assert not self.partial.exists()
        return self.path.read_bytes()

    async def failure(self) -> NewelError:
        with pytest.raises(NewelError) as raised:
            await self.download.run()
        assert not self.path.exists()
        return raised.value

    def begin(self, data: bytes) -> None:
        """Leave a download that was interrupted."""
        self.store.prepare()
        self.partial.write_bytes(data)


@pytest.fixture
def puller(tmp_path: Path, mirror: ModelMirror) -> Puller:
    return Puller(tmp_path, mirror)


async def test_a_model_is_stored_under_its_name_and_only_for_its_user(
    puller: Puller, mirror: ModelMirror
) -> None:
    assert await puller.run() == DATA
    assert stat.S_IMODE(puller.path.stat().st_mode) == 0o600
    [(path, headers)] = mirror.requests
    assert path == "/Org/Repo/resolve/abc/tiny-q4.gguf"
    assert headers["accept-encoding"] == "identity"  # a compressed body could not be continued
    assert not {"authorization", "range", "cookie"} & set(headers)
    assert puller.progress[0] == ("downloading", 0)
    assert puller.progress[-1] == ("checking", len(DATA))
    assert puller.download.is_complete(hashed=True)


async def test_a_broken_connection_costs_only_what_is_missing(puller: Puller, mirror: ModelMirror) -> None:
    mirror.cuts = [HALF, 50_000]
    assert await puller.run() == DATA
    assert mirror.ranges_asked == ["", f"bytes={HALF}-", f"bytes={HALF + 50_000}-"]
    assert "broke" in puller.notices[0]
    assert "Continuing" in puller.notices[0]


async def test_an_interrupted_download_continues_with_the_next_command(
    puller: Puller, mirror: ModelMirror
) -> None:
    puller.begin(DATA[:HALF])
    assert await puller.run() == DATA
    assert mirror.ranges_asked == [f"bytes={HALF}-"]


async def test_a_download_that_only_lacks_its_check_needs_no_server(
    puller: Puller, mirror: ModelMirror
) -> None:
    puller.begin(DATA)
    assert await puller.run() == DATA
    assert mirror.requests == []


async def test_a_server_that_sends_only_whole_files_begins_anew(puller: Puller, mirror: ModelMirror) -> None:
    mirror.ranges = False
    puller.begin(b"x" * HALF)
    assert await puller.run() == DATA
    assert "starts over" in puller.notices[0]


async def test_a_download_that_begins_anew_keeps_nothing_of_the_earlier_one(
    puller: Puller, mirror: ModelMirror
) -> None:
    """Otherwise the bytes of both are mixed if it is interrupted again."""
    mirror.ranges, mirror.cuts = False, [1_000] + [0] * ATTEMPTS
    puller.begin(b"x" * HALF)
    await puller.failure()
    assert not puller.partial.exists()


async def test_a_server_that_is_gone_is_given_up_and_the_part_is_kept(
    puller: Puller, mirror: ModelMirror
) -> None:
    mirror.cuts = [HALF] + [0] * ATTEMPTS
    assert isinstance(await puller.failure(), ConnectionFailed)
    assert len(mirror.requests) == ATTEMPTS
    assert puller.partial.read_bytes() == DATA[:HALF]


async def test_an_overloaded_server_is_asked_again(puller: Puller, mirror: ModelMirror) -> None:
    mirror.statuses = [503, 429]
    assert await puller.run() == DATA
    assert ["503." in puller.notices[0], "429." in puller.notices[1]] == [True, True]


async def test_another_file_is_deleted_and_both_hashes_are_named(tmp_path: Path, mirror: ModelMirror) -> None:
    """Otherwise a file that someone has changed runs as the model."""
    puller = Puller(tmp_path, mirror, data=DATA[:-1] + b"!")
    error = await puller.failure()
    assert isinstance(error, BadResponse)
    assert hashlib.sha256(DATA).hexdigest() in str(error)
    assert "deleted" in str(error)
    assert list(puller.store.folder.iterdir()) == []


async def test_a_part_of_another_file_is_found_by_the_hash(puller: Puller) -> None:
    puller.begin(b"x" * HALF)
    assert "deleted" in str(await puller.failure())
    assert await puller.run() == DATA


@pytest.mark.parametrize("status", [200, 206])
async def test_a_file_of_another_size_is_refused_before_it_is_downloaded(
    puller: Puller, mirror: ModelMirror, status: int
) -> None:
    mirror.size = len(DATA) + 1
    puller.begin(b"" if status == 200 else DATA[:HALF])
    error = await puller.failure()
    assert f"has {len(DATA) + 1:,} bytes instead of {len(DATA):,}" in str(error)
    assert puller.progress == []


async def test_a_part_that_the_server_cannot_continue_is_downloaded_anew(
    puller: Puller, mirror: ModelMirror
) -> None:
    puller.begin(DATA[:HALF])
    mirror.statuses = [416]
    assert await puller.run() == DATA
    assert mirror.ranges_asked == [f"bytes={HALF}-", ""]
    puller.path.unlink()
    mirror.statuses = [416]
    assert "(416)" in str(await puller.failure())


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "has no file /Org/Repo/resolve/abc/tiny-q4.gguf (404)"),
        (403, "refuses the download (403)"),
        (418, "answered with 418"),
    ],
)
async def test_a_refusal_is_named_and_leaves_nothing(
    puller: Puller, mirror: ModelMirror, status: int, words: str
) -> None:
    mirror.statuses = [status]
    error = await puller.failure()
    assert isinstance(error, RequestRejected)
    assert words in str(error)
    assert "--file PATH.gguf" in str(error)
    assert list(puller.store.folder.iterdir()) == []


async def test_a_redirect_is_followed_without_credentials(puller: Puller, mirror: ModelMirror) -> None:
    """Otherwise the server of a redirect would get the password of the mirror."""
    with model_mirror(DATA) as other:
        mirror.location = f"{other.url}/cdn/file?sig=a%2Fb#part"
        puller.url = mirror.url.replace("://", "://user:secret@")
        assert await puller.run() == DATA
        [(path, headers)] = other.requests
    assert path == "/cdn/file?sig=a%2Fb"
    assert "authorization" in mirror.requests[0][1]
    assert "authorization" not in headers


@pytest.mark.parametrize(
    "location", ["http://models.example/file", "file:///etc/passwd", "ftp://127.0.0.1/x"]
)
async def test_a_redirect_away_from_encryption_is_not_followed(
    puller: Puller, mirror: ModelMirror, location: str
) -> None:
    mirror.location = location
    assert "without encryption" in str(await puller.failure())


async def test_redirects_in_a_circle_end(puller: Puller, mirror: ModelMirror) -> None:
    mirror.location = "/again"
    assert "redirects more than" in str(await puller.failure())
    assert len(mirror.requests) == MAX_REDIRECTS + 1


def test_a_mirror_needs_encryption(puller: Puller) -> None:
    puller.url = "http://mirror.example"
    with pytest.raises(ConfigError, match="without encryption"):
        _ = puller.download


async def test_a_disk_without_space_is_reported_before_the_download(
    tmp_path: Path, mirror: ModelMirror
) -> None:
    puller = Puller(tmp_path, mirror, size=10**18)
    error = await puller.failure()
    assert "needs 1000000000.0 GB more space on the disk" in str(error)
    assert mirror.requests == []


async def test_a_model_is_downloaded_once_at_a_time(puller: Puller, mirror: ModelMirror) -> None:
    """Otherwise two processes write into one file."""
    puller.store.prepare()
    with locked(puller.partial):
        assert "Another Newel is downloading tiny" in str(await puller.failure())
        with pytest.raises(ConfigError, match="Another Newel"):
            puller.store.remove("tiny")
    assert mirror.requests == []
    assert await puller.run() == DATA


async def test_a_folder_that_cannot_be_written_is_named(puller: Puller) -> None:
    puller.store.folder.write_text("a file")
    with pytest.raises(ConfigError) as raised:
        await puller.download.run()
    assert str(puller.store.folder) in str(raised.value)
    assert "NEWEL_HOME" in str(raised.value)


async def test_damage_is_found_by_size_and_header_at_once_and_by_hash_on_request(puller: Puller) -> None:
    await puller.run()
    changed = bytearray(DATA)
    changed[-1] ^= 1
    puller.path.write_bytes(changed)
    assert puller.download.is_complete()
    assert not puller.download.is_complete(hashed=True)
    puller.path.write_bytes(b"x" + DATA[1:])
    assert not puller.download.is_complete()
    os.truncate(puller.path, HALF)
    assert not puller.download.is_complete()
