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
    """``port`` leads to the target port on loopback. Its methods may be called from any thread."""

    def __init__(self, target: int, listener: socket.socket | None = None) -> None:
        self._target = target
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self._end, self._ended = socket.socketpair()
        self.port: int = self._listener.getsockname()[1]
        self.round_trips = 0
        """How often the target has answered: what it sends before more is sent to it is one answer."""
        self._last_side = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._swallowed: tuple[int, ...] = ()
        self._held: tuple[int, ...] = (0, 1)
        self._passes = threading.Event()
        self._passes.set()
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
        self._end.close()
        self.cut()
        self._thread.join()
        self._ended.close()
        self._listener.close()

    def _serve(self) -> None:
        threads: list[threading.Thread] = []
        with selectors.DefaultSelector() as selector:
            for each in (self._listener, self._ended):
                selector.register(each, selectors.EVENT_READ)
            while all(key.fileobj is self._listener for key, _ in selector.select()):
                here, _ = self._listener.accept()
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
                self.round_trips += side > self._last_side
                self._last_side = side
                if side in self._held:
                    self._passes.wait()
                if side not in self._swallowed:
                    other.sendall(chunk)
        return True


@contextmanager
def open_relay(target: int, listener: socket.socket | None = None) -> Generator[Relay]:
    """A relay to a port on loopback, from a free port there, or from ``listener``."""
    relay = Relay(target, listener)
    try:
        yield relay
    finally:
        relay.close()
