"""The socket of a network proxy. Most runs reach no server, so the proxy is loaded with the first connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import SocketAttribute, TaskStatus

if TYPE_CHECKING:
    from newel.workspace.sandbox.domains import Domain
    from newel.workspace.sandbox.network_proxy import Allows


async def serve_proxy(
    path: Path,
    domains: Sequence[Domain],
    kept: Callable[[], Sequence[Domain]],
    allows: Allows,
    *,
    task_status: TaskStatus[None],
) -> None:
    """Serve on the socket ``path`` until it is cancelled, as ``NetworkProxy`` does; it has started when the socket is there."""
    async with await anyio.create_unix_listener(path, mode=0o600) as listener:
        task_status.started()
        await anyio.wait_readable(listener.extra(SocketAttribute.raw_socket))
        from newel.workspace.sandbox.network_proxy import NetworkProxy

        await NetworkProxy(lambda: domains, kept=kept, allows=allows).serve(listener)
