"""``newel demo``: a scripted run. Only the model is scripted: the agent, HTTP, file and command are real."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio

from newel.app.agent_factory import AgentOptions
from newel.app.terminal import run_with
from newel.cli.options import Parser
from newel.config.settings import Flags, load_settings

PROMPT = "Write a hello world script and run it."


def command_demo(arguments: Sequence[str]) -> int:
    parser = Parser(
        prog="newel demo",
        description="Watch a scripted run. Only the model is scripted: the agent, HTTP, file and command are real.",
    )
    parser.add_argument("--renderer", choices=["rich", "console", "json"], help="how to show the run")
    options = parser.parse_args(arguments)
    # Its commands are Newel's own, so it needs no sandbox, which this machine may not have.
    flags = Flags(renderer=options.renderer, model="mock-model", api_key="none", sandbox="off")
    return anyio.run(_demo, flags)


async def _demo(flags: Flags) -> int:
    import msgspec

    from mock_llm_server import serve

    folder = Path(tempfile.mkdtemp(prefix="newel-demo-"))
    async with serve() as server:
        flags = msgspec.structs.replace(flags, base_url=f"{server.url}/v1")
        settings = load_settings(flags, cwd=folder, environ={"NEWEL_HOME": str(folder / ".newel")})
        options = AgentOptions(flags=flags, cwd=folder, prompts=[PROMPT], ephemeral=True, echo=True)
        if settings.renderer != "json":
            print(f"A scripted model answers at {server.url}. Everything else is real.\n")
        code = await run_with(settings, options)
    if settings.renderer != "json":
        _conclude(folder)
    return code


def _conclude(folder: Path) -> None:
    created = ", ".join(sorted(path.name for path in folder.iterdir() if path.is_file())) or "nothing"
    print(f"\nIn {folder}: {created}\nTo use a model of yours: newel setup")
