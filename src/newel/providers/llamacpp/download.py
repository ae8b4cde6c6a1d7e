"""Downloads a model's file: continues after an interruption, and gives the file its name once its size and hash are right."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import anyio

from newel.agent.errors import (
    BadResponse,
    ConfigError,
    ConnectionFailed,
    ProviderError,
    RateLimited,
    RequestRejected,
    ServerFailed,
)
from newel.providers.catalog.downloadable_models import DownloadableModel
from newel.providers.http.client import HttpClient, HttpResponse
from newel.providers.http.urls import is_loopback
from newel.providers.llamacpp.model_file import load_model_file
from newel.providers.llamacpp.model_store import ModelStore, locked, unwritable
from newel.text.format import format_size

TIMEOUT_S: Final = 60.0
"""Seconds without a byte."""

ATTEMPTS: Final = 5
"""Requests in a row that bring nothing before the download fails."""

PAUSE_S: Final = 1.0
"""Before the second of these attempts; it doubles with each one."""

MAX_REDIRECTS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_BLOCK: Final = 2**20

OnProgress = Callable[[str, int], None]
"""Gets what is being done (``downloading`` or ``checking``) and how many bytes of the file that has reached."""


class Download:
    """Downloads ``model`` from ``base_url``, Hugging Face or a mirror, into ``store``. ``on_notice`` gets a sentence about each
    interruption; ``pause`` is in seconds, see ``PAUSE_S``. Raises ``ConfigError`` for an address that is not safe.
    """

    def __init__(
        self,
        model: DownloadableModel,
        store: ModelStore,
        base_url: str,
        *,
        on_progress: OnProgress,
        on_notice: Callable[[str], None],
        pause: float = PAUSE_S,
    ) -> None:
        _check_scheme(base_url, allow_http=is_loopback(base_url))
        self._model = model
        self._store = store
        self._path = store.path(model.name)
        self._partial = store.partial_path(model.name)
        self._url = base_url.rstrip("/") + model.path
        self._on_progress = on_progress
        self._on_notice = on_notice
        self._pause = pause
        self._has_answered = False

    async def run(self) -> Path:
        """Return the path of the complete file. Raises ``ConfigError`` if another process downloads it or the disk refuses, and
        ``ProviderError`` if the server does not send the file, or another one.
        """
        self._store.prepare()
        try:
            with locked(self._partial) as descriptor:
                try:
                    await self._fill(descriptor)
                finally:
                    if not os.fstat(descriptor).st_size:
                        self._partial.unlink()
                self._finish(descriptor)
        except OSError as error:
            raise self._disk_error(error) from error
        return self._path

    def is_complete(self, *, hashed: bool = False) -> bool:
        """Whether the file that is there is the right one, by its size and header: it got its name after its hash was checked.
        ``hashed`` checks that again. Raises ``ConfigError`` if it cannot be read.
        """
        try:
            if self._path.stat().st_size != self._model.size:
                return False
            load_model_file(self._path)
            with self._path.open("rb") as file:
                return not hashed or self._hash(file.fileno()) == self._model.sha256
        except RequestRejected:
            return False
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be read: {error.strerror}.") from error

    async def _fill(self, descriptor: int) -> None:
        """Request the rest of the file until it is there."""
        failures = 0
        while (have := os.fstat(descriptor).st_size) != self._model.size:
            if have > self._model.size:
                os.ftruncate(descriptor, have := 0)
            self._check_space(self._model.size - have)
            try:
                await self._request_rest(descriptor, have)
            except (ConnectionFailed, RateLimited, ServerFailed) as error:
                failures = 1 if os.fstat(descriptor).st_size > have else failures + 1
                if failures >= ATTEMPTS or not error.retryable or not self._has_answered:
                    raise  # without a network, the user need not wait to learn that
                self._on_notice(f"{error} Continuing ({failures} of {ATTEMPTS - 1}).")
                await anyio.sleep(error.retry_after or self._pause * 2 ** (failures - 1))

    async def _request_rest(self, descriptor: int, have: int) -> None:
        """Append what is missing, or begin anew if the server does not send parts of files."""
        async with AsyncExitStack() as stack:
            response = await self._open(stack, have)
            if response.status == 416:  # what is here is no part of the server's file
                os.ftruncate(descriptor, 0)
                if not have:
                    raise BadResponse(f"{self._host(self._url)} refuses to send {self._model.file} (416).")
                return
            if not response.ok:
                raise self._refusal(response)
            start = self._start_of(response, have)
            if start < have:
                self._on_notice("The server does not send parts of files, so the download starts over.")
                os.ftruncate(descriptor, start)
            await self._append(descriptor, start, response)

    async def _append(self, descriptor: int, start: int, response: HttpResponse) -> None:
        at = start
        self._on_progress("downloading", at)
        async with aclosing(response.chunks(self._model.size - start)) as chunks:
            async for chunk in chunks:
                _write(descriptor, chunk, at)
                at += len(chunk)
                self._on_progress("downloading", at)
        if at < self._model.size:
            raise ConnectionFailed(f"{self._host(self._url)} ended the download too early.")

    async def _open(self, stack: AsyncExitStack, have: int) -> HttpResponse:
        """Send the request, and follow redirects to servers with TLS. There is no key to be sent."""
        url = self._url
        headers = {"User-Agent": "newel", "Accept": "*/*", "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        for _ in range(MAX_REDIRECTS + 1):
            client = HttpClient(
                url,
                headers=headers,
                timeout=TIMEOUT_S,
                display_name=self._host(url),
                remedy="Check the network, and HTTPS_PROXY if there is a proxy.",
            )
            stack.push_async_callback(client.aclose)
            response = await stack.enter_async_context(client.request("GET", ""))
            self._has_answered = True
            target = response.headers.get("location", "")
            if response.status not in _REDIRECTS or not target:
                return response
            url = urljoin(url, target).partition("#")[0]
            _check_scheme(url, allow_http=is_loopback(self._url) and is_loopback(url))
        raise BadResponse(f"{self._host(self._url)} redirects more than {MAX_REDIRECTS} times.")

    def _start_of(self, response: HttpResponse, have: int) -> int:
        """Where the body begins in the file. Raises ``BadResponse`` if it is a part of another file."""
        start, total = 0, response.headers.get("content-length", "")
        if response.status == 206:
            found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("content-range", ""))
            if not found or int(found[1]) != have:
                raise BadResponse(f"{self._host(self._url)} sent another part of the file than requested.")
            start, total = have, found[2]
        if total.isdecimal() and int(total) != self._model.size:
            raise BadResponse(
                f"The file of {self._host(self._url)} has {int(total):,} bytes instead of {self._model.size:,}, so it is not "
                f"{self._model.name} as Newel knows it. Check NEWEL_MODELS_URL, if it is set, or try a newer Newel."
            )
        return start

    def _refusal(self, response: HttpResponse) -> ProviderError:
        host, status = self._host(self._url), response.status
        if status == 429 or status >= 500 or status == 408:
            kind = RateLimited if status == 429 else ServerFailed
            wait = response.headers.get("retry-after", "")
            return kind(
                f"{host} answered with {status}.",
                status=status,
                retry_after=min(float(wait), 60.0) if wait.isdecimal() else None,
            )
        if status in {401, 403}:
            reason = f"refuses the download ({status})"
        elif status in {404, 410}:
            reason = f"has no file {self._model.path} ({status})"
        else:
            reason = f"answered with {status}"
        return RequestRejected(
            f"{host} {reason}. A newer Newel may know another address; NEWEL_MODELS_URL names a mirror; "
            "`newel models pull --file PATH.gguf` uses a file that you have downloaded.",
            status=status,
        )

    def _finish(self, descriptor: int) -> None:
        """Check the complete download and give it its name."""
        os.fsync(descriptor)
        found = self._hash(descriptor)
        if found != self._model.sha256:
            self._partial.unlink()
            raise BadResponse(
                f"The downloaded file is not {self._model.name}: its sha256 is {found} instead of {self._model.sha256}. It was "
                "deleted. Download it again; if that does not help, the server or a proxy changes it."
            )
        self._partial.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _hash(self, descriptor: int) -> str:
        digest, at = hashlib.sha256(), 0
        self._on_progress("checking", at)
        while block := os.pread(descriptor, _BLOCK, at):
            digest.update(block)
            at += len(block)
            self._on_progress("checking", at)
        return digest.hexdigest()

    def _check_space(self, needed: int) -> None:
        free = shutil.disk_usage(self._store.folder).free
        if free < needed:
            raise ConfigError(
                f"{self._model.name} needs {format_size(needed)} more space on the disk of {self._store.folder}, where "
                f"{format_size(free)} is free. Delete something, or set NEWEL_HOME to a folder on another disk."
            )

    def _disk_error(self, error: OSError) -> ConfigError:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return ConfigError(
                f"The disk of {self._store.folder} is full. Delete something, and run the command again: it continues "
                "where it stopped."
            )
        return ConfigError(unwritable(self._partial, error))

    def _host(self, url: str) -> str:
        parts = urlsplit(url)
        return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or url


def _write(descriptor: int, data: bytes, at: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, at)
        at, rest = at + written, rest[written:]


def _check_scheme(url: str, *, allow_http: bool) -> None:
    """Raises ``ConfigError`` for an address that is neither HTTPS nor, if that is allowed, HTTP."""
    scheme = urlsplit(url).scheme
    if scheme != "https" and not (allow_http and scheme == "http"):
        raise ConfigError(
            f"The download would come from {scheme}://{urlsplit(url).hostname or ''}, without encryption. Models are downloaded "
            "from https:// addresses only."
        )
