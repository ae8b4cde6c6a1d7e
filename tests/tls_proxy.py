"""A proxy with TLS in front of a server of this machine, such as a user puts there for other machines. It passes on every byte."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from threading import Thread

import trustme


class TlsProxy:
    """``port`` is its own, ``target`` that of the server."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        self.port: int = listener.getsockname()[1]
        self.target = 0
        self._listener = listener
        self._context = context

    def run(self) -> None:
        """Serve until the listener is shut down."""
        with contextlib.suppress(OSError):
            while True:
                Thread(target=self._serve, args=[self._listener.accept()[0]], daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            self._context.wrap_socket(plain, server_side=True) as client,
            socket.create_connection(("127.0.0.1", self.target)) as server,
        ):
            back = Thread(target=_copy, args=[server, client], daemon=True)
            back.start()
            _copy(client, server)
            back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(2**16):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


@contextmanager
def tls_proxy() -> Generator[TlsProxy]:
    """A proxy on a free port, whose certificate no browser knows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.tempfile() as path:
        context.load_cert_chain(path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = TlsProxy(listener, context)
        Thread(target=proxy.run, daemon=True).start()
        yield proxy
        listener.shutdown(socket.SHUT_RDWR)
