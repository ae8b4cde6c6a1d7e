"""If these fail, a command in a sandbox changes Newel's own code through a file that a project shares with it."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from newel.workspace.sandbox.confinement import SandboxError
from newel.workspace.sandbox.own_installation import separate

FILES = {
    "six.py": "code",
    "anyio/__init__.py": "code",
    "anyio/_core/_io.py": "code",
    "anyio/data/icon.png": "\x00\x01",
    "anyio-4.0.dist-info/METADATA": "Name: anyio",
    "anyio-4.0.dist-info/entry_points.txt": "[newel.tools]",
    "namespace/part/module.py": "code",
}


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with packages, each file a hard link to one in a cache beside it."""
    for name, text in FILES.items():
        for path in (tmp_path / "cache" / name, tmp_path / "packages" / name):
            path.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cache" / name).write_text(text)
        (tmp_path / "cache" / name).chmod(0o750)
        os.utime(tmp_path / "cache" / name, ns=(1_000_000_001, 2_000_000_003))
        (tmp_path / "packages" / name).hardlink_to(tmp_path / "cache" / name)
    return tmp_path / "packages"


def test_files_of_the_cache_are_no_longer_those_of_the_installation(packages: Path) -> None:
    separate([str(packages)])
    for name, text in FILES.items():
        (packages.parent / "cache" / name).write_text("planted")
        assert (packages / name).read_text() == text
        assert (packages / name).stat().st_mtime_ns == 2_000_000_003  # compiled modules stay valid
        assert (packages / name).stat().st_mode & 0o777 == 0o750
    assert {str(path.relative_to(packages)) for path in packages.rglob("*") if path.is_file()} == set(FILES)


def test_a_file_that_is_read_only_is_separated_too(packages: Path) -> None:
    """Its owner, whom commands run as, can change that."""
    for name in FILES:
        (packages / name).chmod(0o440)
    separate([str(packages)])
    assert all((packages / name).stat().st_nlink == 1 for name in FILES)


def test_what_was_interrupted_is_completed_by_the_next_start(packages: Path, tmp_path: Path) -> None:
    blocked = packages / "anyio" / "_core"
    blocked.rename(tmp_path / "elsewhere")
    separate([str(packages)])
    (tmp_path / "elsewhere").rename(blocked)  # linked still, with probes that are done
    probe = packages / "anyio" / "__init__.py"
    probe.unlink()
    probe.hardlink_to(tmp_path / "cache" / "anyio" / "__init__.py")
    separate([str(packages)])
    assert (blocked / "_io.py").stat().st_nlink == 1


def test_without_room_for_copies_the_sandbox_is_refused(packages: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        with pytest.raises(SandboxError, match="UV_LINK_MODE=copy"):
            separate([str(packages)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert not list(packages.rglob(".newel-*"))
