"""The cost of work on a host, over loopback: processes and encryption only, no network latency.

``./run python -m benchmarks.remote [--runs 40]`` needs OpenSSH's server. Each figure has a floor: the cheapest way of
the same work with the system's ``ssh``. All are medians in milliseconds.

- read, edit, search: through the tools, with all their requests to the host. The floor is one channel of the same
  connection on which a program does the same: ``cat``, ``cat`` and ``cat >``, ``rg``.
- bash: a command through the tool; the floor is ``true`` on a channel.
- first: from the start to the end of the first command; the floor is ``ssh host true``.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from newel.tools import coding_tools
from newel.workspace.search import SearchQuery, search
from newel.workspace.ssh.target import Target
from newel.workspace.ssh.workspace import SshWorkspace
from tests.opened_host import open_host
from tests.sshd import Sshd, served

FILES: Final = 10_000
LINE: Final = "a line of text that is about as long as lines of code are\n"


async def timed(name: str, runs: int, work: Callable[[], Awaitable[object]]) -> None:
    took: list[float] = []
    for _ in range(runs):
        began = time.perf_counter()
        await work()
        took.append((time.perf_counter() - began) * 1000)
    took.sort()
    print(f"{name:44} median {statistics.median(took):7.1f}  fastest {took[0]:7.1f}", flush=True)


async def on_channel(workspace: SshWorkspace, command: str, stdin: bytes = b"") -> None:
    client = await workspace.connection.client()
    done = await anyio.run_process([*client.argv, command], input=stdin, env=client.environ, check=False)
    assert done.returncode == 0, done.stderr


async def measure(server: Sshd, workspace: SshWorkspace, project: Path, runs: int) -> None:
    tools: dict[str, Any] = {tool.spec.name: tool for tool in coding_tools(workspace)}
    content = (LINE * 200)[:10_000].encode()
    path = project / "file.txt"
    path.write_bytes(b"first\n" + content)
    server.give(path)
    odd = [False]

    async def shown(_: str) -> None: ...

    async def call(name: str, **arguments: Any) -> None:
        result = await (await tools[name].plan(tools[name].parse(arguments))).execute(shown)
        assert not result.is_error, result.output

    async def edit() -> None:
        odd[0] = not odd[0]
        old, new = ("first", "other") if odd[0] else ("other", "first")
        await call("edit", file_path="file.txt", old_string=old, new_string=new)

    async def rewrite() -> None:
        await on_channel(workspace, f"cat {path} >/dev/null")
        await on_channel(workspace, f"cat >{path}.new && mv {path}.new {path}", b"first\n" + content)

    await timed("a request that costs the host nothing", runs, workspace.connection.ping)
    await timed("read of 10 KB: read_bytes", runs, lambda: workspace.read_bytes(str(path)))
    await timed("read of 10 KB: the tool", runs, lambda: call("read", file_path="file.txt"))
    await timed("  floor: cat on a channel", runs, lambda: on_channel(workspace, f"cat {path}"))
    await timed(
        "write of 10 KB: write_bytes", runs, lambda: workspace.write_bytes(str(path), b"first\n" + content)
    )
    await timed("edit: the tool", runs, edit)
    await timed("  floor: cat and cat > on channels", runs, rewrite)
    await timed("bash true: the tool", runs, lambda: call("bash", command="true"))
    await timed("  floor: true on a channel", runs, lambda: on_channel(workspace, "true"))
    found = await search(workspace, SearchQuery(text="needle", seconds=60))
    assert len(found.matches) == 3, found
    few = max(3, runs // 4)
    await timed(
        f"search of {FILES:,} files", few, lambda: search(workspace, SearchQuery(text="needle", seconds=60))
    )
    letters = "".join(
        f"[{letter}{letter.upper()}]" for letter in "needle"
    )  # as a search does, which ignores case
    rg = (
        f"cd {project}; rg --no-config --no-ignore --encoding=none --glob='!.git' --files-with-matches --null"
    )
    await timed("  floor: rg on a channel", few, lambda: on_channel(workspace, f"{rg} '{letters}' ./"))


async def main(runs: int) -> None:
    with served() as server:
        project = server.project("bench")
        for number in range(FILES):
            folder = project / f"{number // 100:03}"
            folder.mkdir(exist_ok=True)
            (folder / f"{number:05}").write_text("needle\n" if number % 4000 == 1 else LINE * 20)
            folder.chmod(0o755)
        target, config = Target("host", path=str(project)), str(server.config)

        async def first() -> None:
            async with open_host(target, config=config) as workspace:
                await workspace.run("true")

        def plain() -> None:
            subprocess.run(["ssh", "-F", config, "--", "host", "true"], check=True)

        few = max(3, runs // 4)
        await timed("first command, with the login and the end", few, first)
        await timed("  floor: ssh host true", few, lambda: anyio.to_thread.run_sync(plain))
        async with open_host(target, config=config) as workspace:
            await measure(server, workspace, project, runs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=40)
    anyio.run(main, parser.parse_args().runs)
