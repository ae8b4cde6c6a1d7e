"""A relay between two programs on loopback that a test can cut, or make drop all data."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager

BLOCK = 65_536


class Relay:
    """``port`` leads to the target port. Its methods may be called from any thread."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._swallowed: tuple[int, ...] = ()
        self._held: tuple[int, ...] = (0, 1)
        self._passes = threading.Event()
        self._passes.set()
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Close all connections. New ones are relayed again."""
        with self._lock:
            for end in (each for pair in self._pairs for each in pair):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def swallowing(self, *, answers_only: bool = False) -> Generator[None]:
        """Drop all data silently, on existing and new connections. With ``answers_only``, data for the target passes."""
        self._swallowed = (1,) if answers_only else (0, 1)
        try:
            yield
        finally:
            self.cut()  # the connection lacks the dropped data
            self._swallowed = ()

    @contextmanager
    def holding(self, *, answers_only: bool = False) -> Generator[None]:
        """Hold all data back, and pass it on afterwards. With ``answers_only``, data for the target passes."""
        self._held = (1,) if answers_only else (0, 1)
        self._passes.clear()
        try:
            yield
        finally:
            self._passes.set()

    def close(self) -> None:
        self._closed = True
        self.cut()
        with socket.create_connection(("127.0.0.1", self.port)):
            pass  # wakes the thread that waits for data
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        threads: list[threading.Thread] = []
        while True:
            here, _ = self._listener.accept()
            if self._closed:
                here.close()
                break
            try:
                there = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                here.close()  # nothing listens there
                continue
            for end in (here, there):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._pass, args=(here, there), daemon=True)
            threads.append(thread)
            thread.start()
        for thread in threads:
            thread.join()

    def _pass(self, here: socket.socket, there: socket.socket) -> None:
        pair = (here, there)
        with self._lock:
            self._pairs.append(pair)
        try:
            with here, there, selectors.DefaultSelector() as selector, contextlib.suppress(OSError):
                for source in pair:
                    selector.register(source, selectors.EVENT_READ)
                while self._forward(selector, pair):
                    pass
        finally:
            with self._lock:
                self._pairs.remove(pair)

    def _forward(self, selector: selectors.BaseSelector, pair: tuple[socket.socket, socket.socket]) -> bool:
        """Forward data once; False at the end of either side."""
        ready = {key.fd for key, _ in selector.select()}
        for side, (source, other) in enumerate((pair, pair[::-1])):
            if source.fileno() in ready:
                chunk = source.recv(BLOCK)
                if not chunk:
                    return False
                if side in self._held:
                    self._passes.wait()
                if side not in self._swallowed:
                    other.sendall(chunk)
        return True


@contextmanager
def open_relay(target: int) -> Generator[Relay]:
    """A relay to a port on loopback."""
    relay = Relay(target)
    try:
        yield relay
    finally:
        relay.close()
