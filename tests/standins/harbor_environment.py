# pyright: basic, reportMissingImports=false
"""An environment of Harbor without containers: a root of its own by bubblewrap, with this machine's ``/usr`` and uv. Harbor loads it by
``--env harbor_environment:BubblewrapEnvironment``, in a Python that does not have Newel's packages.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

FOLDERS = ("app", "root", "logs/agent", "logs/verifier", "logs/artifacts", "tests", "installed-agent", "tmp")
LINKS = ("bin", "sbin", "lib", "lib64")
TOOLS = "/opt/tools"


class BubblewrapEnvironment(BaseEnvironment):
    capabilities = EnvironmentCapabilities()

    @staticmethod
    def type() -> str:
        return "bubblewrap"

    @classmethod
    def preflight(cls) -> None:
        pass

    def _validate_definition(self) -> None:
        pass

    async def start(self, force_build: bool) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="root-"))
        for name in FOLDERS:
            (self.root / name).mkdir(parents=True)
        for name in LINKS:
            (self.root / name).symlink_to(f"usr/{name}")

    async def stop(self, delete: bool) -> None:
        shutil.rmtree(self.root)

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        shutil.copy(source_path, self._at(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._at(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(self._at(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._at(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        words = ["bwrap", "--die-with-parent", "--unshare-pid", "--bind", str(self.root), "/"]
        words += [
            "--ro-bind",
            "/usr",
            "/usr",
            "--ro-bind",
            "/etc",
            "/etc",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ]
        words += ["--ro-bind", os.environ["TOOLS"], TOOLS, "--clearenv", "--chdir", cwd or "/app"]
        given = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "SSL_CERT_"))}
        given |= {"PATH": f"{TOOLS}:/usr/bin:/bin", "HOME": "/root"} | (self._merge_env(env) or {})
        for name, value in given.items():
            words += ["--setenv", name, value]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *words, "bash", "-c", command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        except BaseException:
            process.kill()
            raise
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode or 0)
