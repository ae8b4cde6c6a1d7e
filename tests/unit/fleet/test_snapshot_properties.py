"""If these fail, a job that moves to another machine finds other files there than those that it left."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from newel.fleet.git_store import GitStore
from newel.fleet.job_folder import JobFolder
from newel.fleet.object_store import folder_store
from tests.job_folders import GIT, git, git_state, make_source, seen
from tests.properties import examples

NAMES = st.one_of(
    st.sampled_from(
        [
            b"a",
            b"b",
            b"-f",
            b"--",
            b"x y",
            b"l\nf",
            b"\xff\xfe",
            b'"q"',
            b"a\\b",
            b"*",
            b":top",
            b"git~1",
            b".gitx",
        ]
    ),
    st.binary(min_size=1, max_size=12)
    .map(lambda name: name.replace(b"/", b"_").replace(b"\0", b"0"))
    .filter(
        lambda name: (
            name not in {b".", b".."} and name.lower() not in {b".git", b".gitignore", b".gitattributes"}
        )
    ),
)
CONTENTS = st.sampled_from(
    [b"", b"a\r\nb\n", b"a\nb\n", b"$Id$\n", b"\xff\xfea\0", b"\0\r\n", b"plain\r", "ünï".encode("utf-16")]
)
FILES = st.tuples(st.just("file"), CONTENTS, st.sampled_from([0o644, 0o755, 0o600, 0o444, 0o711]))
LINKS = st.tuples(st.just("link"), st.sampled_from([b"a", b"/etc/passwd", b"../../out", b"\xff"]), st.just(0))
FOLDERS = st.tuples(st.just("folder"), st.just(b""), st.sampled_from([0o755, 0o700, 0o1777]))
THINGS = st.lists(
    st.tuples(st.lists(NAMES, min_size=1, max_size=3), st.one_of(FILES, LINKS, FOLDERS)), max_size=8
)
Things = list[tuple[list[bytes], tuple[str, bytes, int]]]
ATTRIBUTES = b"* text=auto eol=crlf\n*.i ident\na filter=evil\nb working-tree-encoding=UTF-16LE\n[attr]odd text\n-f odd\n"


def put(work: Path, path: list[bytes], kind: str, content: bytes, mode: int) -> None:
    """Create something, unless there is something else in the way."""
    place = os.path.join(os.fsencode(work), *path)  # noqa: PTH118 — a path of any bytes
    try:
        if not os.path.realpath(os.path.dirname(place)).startswith(os.fsencode(work)):  # noqa: PTH120
            return  # a link leads out
        os.makedirs(place if kind == "folder" else os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120
        if kind == "link":
            os.symlink(content, place)  # noqa: PTH211
            return
        if kind == "file":
            new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(place, new), "wb") as file:
                file.write(content * 3000 if content == b"\0\r\n" else content)
        os.chmod(place, mode)  # noqa: PTH101
    except OSError:
        pass


@pytest.mark.slow  # a second of a core
@pytest.mark.parametrize("kind", ["bundles", "mirror"])
@settings(
    max_examples=examples(12),
    print_blob=False,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(committed=THINGS, staged=THINGS, later=THINGS, is_clone=st.booleans())
def test_a_folder_is_the_same_at_another_place(
    kind: str, committed: Things, staged: Things, later: Things, is_clone: bool
) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        job = JobFolder(root / "here", "job")
        if is_clone:
            job.clone(str(make_source(root / "source")))
            (job.work / ".gitattributes").write_bytes(ATTRIBUTES)
            git(job.work, "config", "filter.evil.clean", f"touch {root}/ran; cat")
            git(job.work, "config", "filter.evil.smudge", f"touch {root}/ran; cat")
            git(job.work, "config", "core.fsmonitor", f"touch {root}/ran")
            git(job.work, "config", "core.hooksPath", str(root))
            for path, thing in committed:
                put(job.work, path, *thing)
            add(job.work)
            git(job.work, "commit", "-qm", "More", "--allow-empty")
            git(job.work, "switch", "-qc", "other")
            for path, thing in staged:
                put(job.work, path, *thing)
            add(job.work)
            (root / "ran").unlink(missing_ok=True)
        else:
            job.create()
        store = folder_store(root / "store") if kind == "bundles" else GitStore(str(root / "store"))
        first = job.snapshot(1)
        store.put(1, first.commit, job.repository)
        for path, thing in later:
            put(job.work, path, *thing)
        taken = job.snapshot(2)
        assert not (root / "ran").exists()
        ref = store.put(2, taken.commit, job.repository)
        other = JobFolder(root / "there" / "deeper", "job")
        other.restore(ref, store)
        assert seen(other.work) == seen(job.work)
        if is_clone:
            git(job.work, "config", "--remove-section", "filter.evil")
            git(job.work, "config", "--unset", "core.fsmonitor")
            assert git_state(other.work) == git_state(job.work)
        else:
            assert not (job.work / ".git").exists()
        again = other.snapshot(3)
        assert again.report.files == taken.report.files


def add(work: Path) -> None:
    """Stage what git can hold, and can encode."""
    words = ("-c", "core.protectNTFS=false", "add", "-A", "--ignore-errors")
    subprocess.run([*GIT, *words], cwd=work, check=False, capture_output=True)
