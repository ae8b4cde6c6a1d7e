"""Runs git for the commands in a sandbox, whose ``.git`` is read-only.

    git, a script inside ─> git_client_main ── socket ──> launcher_main ── connection ──> GitBroker, outside
                            GitBroker ─> bubblewrap ─> git_confined_main ─> git

git gets a sandbox of its own, with the same limits and without a network, in which two things differ. The repository's folder can
be written, but for its settings and hooks, and has a place that nobody can guess: a command may put a link into the project
while git writes there. And only git's own programs can be executed: what a filter, a hook or a nested repository names does not run.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn, cast

import msgspec

from newel.agent.errors import WorkspaceError
from newel.storage.file_lock import lock, unlock
from newel.workspace.git import run_git
from newel.workspace.process.environment import child_env
from newel.workspace.process.launcher import DirectLauncher
from newel.workspace.process.process_tree import ProcessTree
from newel.workspace.process.python_program import in_memory
from newel.workspace.sandbox.bubblewrap import bubblewrap, find_mounted, mount_sources
from newel.workspace.sandbox.git_client_main import PASSED
from newel.workspace.sandbox.git_confined_main import CANNOT, REPLACED
from newel.workspace.sandbox.git_confinement import confined_git
from newel.workspace.sandbox.git_rules import ADDING, GitCall, GitRefused, find_instructions, judge_call
from newel.workspace.sandbox.git_submodules import refuse_new_submodules
from newel.workspace.sandbox.index_copy import IndexCopy
from newel.workspace.sandbox.policy import SandboxPolicy, is_below
from newel.workspace.sandbox.repository import SandboxRepository
from newel.workspace.sandbox.seccomp import seccomp_filter

REQUEST_S: Final = 10.0
"""Seconds for a request to arrive, and for an answer to be read."""

MAX_REQUEST: Final = 4 << 20
MAX_OUTPUT: Final = 8 << 20
"""Bytes of each output that are passed back."""

MAX_CALLS: Final = 8
"""Requests at a time; git runs for one after the other."""

TURN_S: Final = 60.0
PAUSE_S: Final = 0.02
"""Seconds to wait for the calls of other sandboxes, and between two looks."""

GIT_PROGRAMS: Final = "/usr/bin:/usr/local/bin:/bin"

_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "merge.verifySignatures=false",
    "branch.autoSetupMerge=false",
    "submodule.recurse=false",
    "rebase.instructionFormat=%s",
    "rebase.missingCommitsCheck=ignore",
)
"""Settings that would only make git try to run something, or write its settings, and fail."""

_HOOKS: Final = {
    "commit": ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"),
    "merge": ("pre-merge-commit", "commit-msg", "post-merge"),
    "rebase": ("pre-rebase", "post-rewrite"),
    "checkout": ("post-checkout",),
    "switch": ("post-checkout",),
}

PROTECTED: Final = "note: files that are read-only in the sandbox were kept as they were, so they differ from the commit. Do not commit them; leave them to the user."

NO_LANDLOCK: Final = (
    "this kernel cannot confine git (it has no Landlock). `.git` stays read-only. Leave commits to the user."
)


SWAPPED: Final = "a folder of the project was replaced while git started. Try again."


class GitBroker:
    """Answers the calls of one sandbox. ``theirs`` goes to its launcher, and is closed here after that."""

    def __init__(self, find_policy: Callable[[], SandboxPolicy], bubblewrap_path: str, python: str) -> None:
        self._find_policy = find_policy
        self._bubblewrap = bubblewrap_path
        self._python = python
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._free = threading.Semaphore(MAX_CALLS)
        self._turn = threading.Lock()
        self._serving: set[socket.socket] = set()
        threading.Thread(target=self._accept, name="git broker", daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self.theirs.close()

    def is_busy(self) -> bool:
        """Whether a call is answered just now."""
        return bool(self._serving)

    def _accept(self) -> None:
        with self._ours:
            while True:
                try:
                    packet, descriptors, _, _ = socket.recv_fds(self._ours, 16, 1)
                except OSError:
                    return
                if not packet:
                    return
                for descriptor in descriptors:
                    connection = socket.socket(fileno=descriptor)
                    if self._free.acquire(blocking=False):
                        self._serving.add(connection)
                        threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
                    else:
                        connection.close()

    def _serve(self, connection: socket.socket) -> None:
        """Answer one request. What comes from inside is hostile: any of it may be missing, or of another kind."""
        try:
            with connection:
                connection.settimeout(REQUEST_S)
                with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                    request, stdin = _receive(connection)
                    try:
                        answer = self._answer(request, stdin, connection)
                    finally:
                        os.close(stdin)
                    connection.settimeout(REQUEST_S)
                    for part in answer:
                        connection.sendall(part)
        finally:
            self._serving.discard(connection)
            self._free.release()

    def _answer(self, received: Mapping[str, Any], stdin: int, connection: socket.socket) -> list[bytes]:
        try:
            policy = self._find_policy()
            repository = policy.repository or _refuse(
                "the repository cannot be changed from here. Leave it to the user."
            )
            request = _parse(received, repository, stdin)
            with self._turn, _turn_among_sandboxes(repository.common):
                code, out, err = self._run_in_turn(request, policy, repository, connection)
        except (GitRefused, WorkspaceError) as error:
            return [json.dumps({"refused": str(error)}).encode() + b"\n"]
        return [json.dumps({"exit": code, "stdout": len(out), "stderr": len(err)}).encode() + b"\n", out, err]

    def _run_in_turn(
        self,
        request: GitRequest,
        policy: SandboxPolicy,
        repository: SandboxRepository,
        connection: socket.socket,
    ) -> tuple[int, bytes, bytes]:
        refuse_new_submodules(repository.top, request.call.words)
        added = added_err = b""
        if request.call.adds_changes:
            adding = msgspec.structs.replace(request.call, words=["add", "--update"])
            first = msgspec.structs.replace(request, call=adding)
            code, added, added_err = self._add(first, policy, repository, connection)
            if code:
                return code, added, added_err
        if request.call.words[0] in ADDING:
            return self._add(request, policy, repository, connection)
        code, out, err = self._run(request, policy, repository, connection)
        return code, added + out, added_err + err

    def _add(
        self,
        request: GitRequest,
        policy: SandboxPolicy,
        repository: SandboxRepository,
        connection: socket.socket,
    ) -> tuple[int, bytes, bytes]:
        with IndexCopy(repository) as index:
            code, out, err = self._run(request, policy, repository, connection, index)
            notes = index.take_out_repositories()
            index.publish()
        return code, out, err + "".join(f"{note}\n" for note in notes).encode()

    def _run(
        self,
        request: GitRequest,
        policy: SandboxPolicy,
        repository: SandboxRepository,
        connection: socket.socket,
        index: IndexCopy | None = None,
    ) -> tuple[int, bytes, bytes]:
        if found := find_instructions(repository.folder):
            _refuse(f"{found[0]} runs programs. Leave this rebase to the user.")
        git = find_git()
        place = f"/run/newel-{secrets.token_hex(16)}"
        settings = _read_settings(repository.top)
        sources = mount_sources(policy)
        alive, alive_end = os.pipe2(os.O_CLOEXEC)
        with (
            in_memory(seccomp_filter()) as seccomp,
            os.fdopen(alive),
            os.fdopen(alive_end, "wb") as waiting,
        ):
            mounts = _mounts(repository, place)
            environment = _environment(repository, place, settings, request.variables)
            if index is not None:
                environment["GIT_INDEX_FILE"] = place + str(index.path).removeprefix(repository.common)
            processes = ProcessTree(environment)
            confining = bubblewrap(
                self._bubblewrap,
                policy,
                seccomp.fileno(),
                more=mounts,
                chdir=request.cwd,
                ends_itself=True,
            )
            mounted = find_mounted(confining, policy, sources)
            if mounted is None:
                _refuse(SWAPPED)
            words = [
                *(word for each in (*request.call.settings, *_SETTINGS) for word in ("-c", each)),
                *request.call.words,
            ]
            process = processes.launch(
                DirectLauncher((seccomp.fileno(), alive)),
                [*confining, *confined_git(self._python, git, words, alive=alive, mounted=mounted)],
                cwd="/",
                streams=(request.stdin, subprocess.PIPE, subprocess.PIPE),
            )
            code, out, err = _run_to_the_end(process, processes, connection, waiting)
        if code in {CANNOT, REPLACED} and not out and not err:
            _refuse(NO_LANDLOCK if code == CANNOT else SWAPPED)
        notes = _remove_instructions(repository) + _notes(request.call, repository, settings, code, err)
        out, err = (text.replace(place.encode(), os.fsencode(repository.common)) for text in (out, err))
        return code, out, err + "".join(f"{note}\n" for note in notes).encode()


@contextlib.contextmanager
def _turn_among_sandboxes(folder: str) -> Generator[None]:
    """Wait until no other sandbox, of any process, runs git for this folder of git: one of two that add at once would find the index
    changed. Raises ``GitRefused``.
    """
    until = time.monotonic() + TURN_S
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            try:
                lock(descriptor, wait=False)
            except BlockingIOError:  # a command may hold it, too, which only delays calls
                if time.monotonic() > until:
                    _refuse("git is at work for another sandbox in this repository. Try again later.")
                time.sleep(PAUSE_S)
            except OSError:  # a file system without locks
                break
            else:
                break
        yield
    finally:
        with contextlib.suppress(OSError):
            unlock(descriptor)  # a child process that is just starting has it, too
        os.close(descriptor)


class GitRequest(msgspec.Struct, frozen=True):
    """A call, the folder that it is made in, variables for it, and the descriptor of its standard input."""

    call: GitCall
    cwd: str
    variables: Mapping[str, str]
    stdin: int


def _refuse(why: str) -> NoReturn:
    raise GitRefused(why)


def _parse(received: Mapping[str, Any], repository: SandboxRepository, stdin: int) -> GitRequest:
    """Raises ``GitRefused``, and ``ValueError`` for what the client would not send."""
    call = judge_call(_texts(received["argv"]))
    cwd = os.path.normpath(os.path.join("/", *_texts([received["cwd"]]), *call.folder))  # noqa: PTH118 — texts
    if not is_below(cwd, [repository.top]):
        _refuse(f"{cwd[:200]} is not in the project's repository. Leave it to the user.")
    given: object = received["env"]
    if not isinstance(given, dict):
        raise ValueError("not variables")  # noqa: TRY004 — as for all that is malformed
    variables = {name: value for name, value in cast("dict[str, Any]", given).items() if name in PASSED}
    _texts(list(variables.values()))
    return GitRequest(call, cwd, variables, stdin)


def find_git() -> str:
    """The path of git. Raises ``GitRefused``."""
    if program := shutil.which("git", path=GIT_PROGRAMS):
        return program
    raise GitRefused("git is not installed outside the sandbox.")


def _receive(connection: socket.socket) -> tuple[dict[str, Any], int]:
    """A request, and the descriptor of its standard input, which is the caller's to close. Raises ``ValueError`` and ``OSError``."""
    head, descriptors, _, _ = socket.recv_fds(connection, 8, 1)
    length = int.from_bytes(head, "big")
    request: object = None
    if len(head) == 8 and len(descriptors) == 1 and length <= MAX_REQUEST:
        with contextlib.suppress(OSError, ValueError), connection.makefile("rb") as source:
            request = json.loads(source.read(length))
    if isinstance(request, dict):
        return cast("dict[str, Any]", request), descriptors[0]
    for descriptor in descriptors:
        os.close(descriptor)
    raise ValueError("not a request")


def _texts(words: object) -> list[str]:
    """Words that may be arguments of a program. Raises ``ValueError``."""
    if not isinstance(words, list):
        raise ValueError("not words")  # noqa: TRY004 — as for all that is malformed
    texts = [word for word in cast("list[object]", words) if isinstance(word, str) and "\0" not in word]
    if len(texts) < len(cast("list[object]", words)):
        raise ValueError("not words")
    return texts


def _mounts(repository: SandboxRepository, place: str) -> list[str]:
    """The repository, writable, at ``place``. The processes of the sandbox are not shown: ``/proc`` leads to open folders."""
    mounts = ["--tmpfs", "/proc", "--bind", repository.common, place]
    for name in ("config", "config.worktree", "hooks", "modules", "info/attributes"):
        path = f"{repository.common}/{name}"
        if os.path.lexists(path) and os.path.realpath(path) == path:
            mounts += ["--ro-bind", path, f"{place}/{name}"]
    return mounts


def _environment(
    repository: SandboxRepository,
    place: str,
    settings: Iterable[tuple[str, str]],
    variables: Mapping[str, str],
) -> dict[str, str]:
    own = {
        name: value
        for name, value in child_env(os.environ).items()
        if name in {"HOME", "XDG_CONFIG_HOME", "LANG", "TZ"}
    }
    filters = {name.split(".", 1)[1].rpartition(".")[0] for name, _ in settings if name.startswith("filter.")}
    required = {
        f"GIT_CONFIG_KEY_{index}": f"filter.{name}.required" for index, name in enumerate(sorted(filters))
    }
    return {
        **own,
        **variables,
        **required,
        **{name.replace("KEY", "VALUE"): "true" for name in required},
        "GIT_CONFIG_COUNT": str(len(required)),
        "PATH": GIT_PROGRAMS,
        "GIT_DIR": place + repository.folder.removeprefix(repository.common),
        "GIT_WORK_TREE": repository.top,
        "GIT_EDITOR": ":",
        "GIT_SEQUENCE_EDITOR": ":",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_LAZY_FETCH": "1",
    }


def _read_settings(top: str) -> list[tuple[str, str]]:
    """What is set for a repository, without the values that ``run_git`` sets itself."""
    listed = (run_git(top, "config", "--list", "-z") or b"").decode(errors="surrogateescape").split("\0")[:-4]
    pairs = [text.partition("\n") for text in listed]
    return [(name, value) for name, _, value in pairs]


def _run_to_the_end(
    process: subprocess.Popen[bytes], processes: ProcessTree, connection: socket.socket, waiting: BinaryIO
) -> tuple[int, bytes, bytes]:
    """Wait for bubblewrap; returns the exit code and both outputs, when all that it has started has ended. Raises ``OSError``."""
    try:
        return _collect(process, processes, connection, waiting)
    except BaseException:
        process.kill()
        process.wait()
        processes.signal(signal.SIGKILL)
        raise
    finally:
        processes.forget()


def _collect(
    process: subprocess.Popen[bytes], processes: ProcessTree, connection: socket.socket, waiting: BinaryIO
) -> tuple[int, bytes, bytes]:
    """Its exit code and outputs; it ends when the caller inside does."""
    out, err = cast("BinaryIO", process.stdout), cast("BinaryIO", process.stderr)
    outputs = {out: bytearray(), err: bytearray()}
    with (
        selectors.DefaultSelector() as selector,
        out,
        err,
        os.fdopen(os.pidfd_open(process.pid), "rb", buffering=0) as ended,
    ):
        for source in (connection, ended, *outputs):
            selector.register(source, selectors.EVENT_READ)
        is_open = len(outputs)
        while is_open:
            for key, _ in selector.select():
                if key.fileobj is connection:
                    selector.unregister(connection)  # it has ended, or says more than it should
                    waiting.close()
                    continue
                if key.fileobj is ended:
                    selector.unregister(ended)
                    processes.signal(signal.SIGKILL)  # see `Sandbox`: its second process may wait for ever
                    continue
                source = cast("BinaryIO", key.fileobj)
                data = os.read(source.fileno(), 65_536)
                kept = outputs[source]
                kept += data[: MAX_OUTPUT - len(kept)]
                if not data:
                    selector.unregister(source)
                    is_open -= 1
    code = process.wait()
    return code if code >= 0 else 128 - code, bytes(outputs[out]), bytes(outputs[err])


def _remove_instructions(repository: SandboxRepository) -> list[str]:
    """Remove what would make the user's git run a program; ``judge_call`` should have refused the call that wrote it."""
    found = find_instructions(repository.folder)
    if repository.folder == repository.common and os.path.lexists(f"{repository.common}/commondir"):
        found.append(f"{repository.common}/commondir")
    for path in found:
        with contextlib.suppress(OSError):
            Path(path).unlink()
    return [f"git in the sandbox: {path} was removed: it would run programs." for path in found]


def _notes(
    call: GitCall, repository: SandboxRepository, settings: list[tuple[str, str]], code: int, err: bytes
) -> list[str]:
    """What git did not do here, and would do outside."""
    if b"unable to unlink old '" in err:
        return [PROTECTED]
    if code:
        return ["git in the sandbox: filters do not run here. Leave this file to the user."] * (
            b" filter '" in err
        )
    folder = next(
        (value for name, value in reversed(settings) if name == "core.hookspath"),
        f"{repository.common}/hooks",
    )
    hooks = Path(repository.top, os.path.expanduser(folder))  # noqa: PTH111 — a text
    skipped = [name for name in _HOOKS.get(call.words[0], ()) if os.access(hooks / name, os.X_OK)]
    notes = [f"note: hooks did not run in the sandbox: {', '.join(skipped)}"] if skipped else []
    signs = call.words[0] in {"commit", "merge"} and ("commit.gpgsign", "true") in settings
    return [
        *notes,
        *(["note: the commit is not signed, because keys are not in the sandbox"] if signs else []),
    ]
