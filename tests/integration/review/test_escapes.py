"""If these fail, a command changes something that nobody hears of: it is neither undone, nor named at the end of the run."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import pytest

from newel.agent.events import AgentEvent, ErrorEvent
from newel.agent.messages import AssistantMessage
from newel.agent.ports import ModelRequest
from newel.review.model.history import NothingToUndo
from newel.review.save_outcome import SaveFailed
from newel.workspace.local import LocalWorkspace
from tests.integration.review.recorded_agent import recorded_agent, recorder_of
from tests.processes import is_alive
from tests.review_bench import calls, says
from tests.scripted_provider import Answer
from tests.served import wait_until

pytestmark = pytest.mark.anyio


class Trick(NamedTuple):
    """Commands, one after another. What they leave behind that an undo does not restore must be ``named`` to the user."""

    commands: tuple[str, ...]
    named: tuple[str, ...] = ()


def trick(*commands: str, named: str = "") -> Trick:
    return Trick(commands, tuple(named.split()))


LINKS = {
    "through a link outside": trick("ln a.txt $OUT/x; echo evil >> $OUT/x; rm $OUT/x"),
    "through a link outside, later": trick("ln a.txt $OUT/x", "echo evil >> $OUT/x; rm $OUT/x"),
    "through a link outside that stays": trick("ln a.txt $OUT/x; echo evil >> $OUT/x", named="/x"),
    "through a link inside": trick("ln a.txt b; echo evil >> b; rm b"),
    "through a link inside that stays": trick("ln a.txt b; echo evil >> b"),
    "through a link inside, later": trick("ln a.txt b", "echo evil >> b"),
    "through a link inside that goes later": trick("ln src/deep/c.txt b", "echo evil >> b", "rm b"),
    "through a link of a link": trick("ln a.txt b; ln b d; rm b; echo evil >> d; rm d"),
    "through a link in another folder": trick("ln a.txt src/deep/b; echo evil > src/deep/b; rm src/deep/b"),
    "through a link, in place": trick("ln a.txt b; sed -i.bak s/one/evil/ b; cat b > a.txt; rm b b.bak"),
    "the mode through a link": trick("ln a.txt $OUT/x; chmod 600 $OUT/x; rm $OUT/x"),
    "through a link, with the old times": trick(
        "cp -p a.txt $OUT/t; ln a.txt $OUT/x; echo evil >> $OUT/x; touch -r $OUT/t $OUT/x; rm $OUT/x $OUT/t"
    ),
}

WAIT = "the model thinks"

LATER = {
    "in the background, before the next command": trick(
        "(sleep .2; echo evil >> a.txt; sleep 5) >/dev/null 2>&1 &", WAIT, "true"
    ),
    "in the background, by a process that has ended": trick(
        "(sleep .2; echo evil >> a.txt) >/dev/null 2>&1 &", WAIT, "true"
    ),
    "in the background, before the end": trick(
        "(sleep .2; echo evil >> a.txt; sleep 5) >/dev/null 2>&1 &", WAIT
    ),
    "a new file in the background": trick(
        "(sleep .2; echo evil > made.txt; sleep 5) >/dev/null 2>&1 &", WAIT, "true"
    ),
    "by a daemon": trick("setsid sh -c 'sleep .2; echo evil >> a.txt; sleep 5' >/dev/null 2>&1 &", WAIT),
    "by a daemon without environment": trick(
        "env -i setsid sh -c 'sleep .2; echo evil >> a.txt; sleep 5' >/dev/null 2>&1 &", WAIT
    ),
}

IGNORED = {
    "a new rule": trick("echo hidden.txt >> .gitignore; echo evil > hidden.txt"),
    "a new rule, later": trick("echo hidden.txt >> .gitignore", "echo evil > hidden.txt"),
    "a new rule, then the old ones again": trick(
        "cp .gitignore k; echo hidden.txt >> .gitignore", "echo evil > hidden.txt", "mv k .gitignore"
    ),
    "a rule for everything": trick("echo '*' > .gitignore; echo evil > hidden.txt; echo evil >> a.txt"),
    "a rule file that replaces the old": trick("echo hidden.txt > .gitignore; echo evil > hidden.txt"),
    "without an exception": trick("sed -i /!kept/d .gitignore; echo evil > kept.log"),
    "an exception before its rule": trick("printf '!kept.log\\n*.log\\n' > .gitignore; echo evil > kept.log"),
    "a new rule file": trick("echo '*' > src/.gitignore; echo evil > src/hidden.txt"),
    "a new folder with rules": trick("mkdir new; echo '*' > new/.gitignore; echo evil > new/hidden.txt"),
    "info/exclude": trick(
        "echo hidden.txt >> .git/info/exclude; echo evil > hidden.txt", named=".git/info/exclude"
    ),
    "info/exclude, later": trick(
        "echo hidden.txt >> .git/info/exclude", "echo evil > hidden.txt", named=".git/info/exclude"
    ),
    "core.excludesFile": trick(
        "echo hidden.txt > $OUT/rules; git config core.excludesFile $OUT/rules; echo evil > hidden.txt",
        named=".git/config /rules",
    ),
    "core.excludesFile, an old file": trick(
        "git config core.excludesFile $OUT/old-rules; echo evil > old-hidden.txt", named=".git/config"
    ),
    "a repository inside": trick(
        "git init -q sub; echo hidden.txt >> sub/.git/info/exclude; echo evil > sub/hidden.txt",
        named="sub/.git/",
    ),
    "a repository inside, around a file": trick(
        "git init -q src; echo '*' >> src/.git/info/exclude; echo evil > src/hidden.txt; echo evil >> src/deep/c.txt",
        named="src/.git/",
    ),
    "removed from the index": trick("git rm -q --cached a.txt; echo a.txt >> .gitignore; echo evil >> a.txt"),
    "assumed unchanged": trick("git update-index --assume-unchanged a.txt; echo evil >> a.txt"),
    "a link as rules": trick("ln -sf $OUT/old-rules .gitignore; echo evil > old-hidden.txt"),
}

NAMED = {
    "a repository elsewhere": trick(
        'git init -q $OUT/r; mkdir sub; echo "gitdir: $OUT/r/.git" > sub/.git', named="sub/.git Git /r"
    ),
    "a hook": trick(
        "printf '#!/bin/sh\\ntouch x\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        named=".git/hooks/pre-commit",
    ),
    "git's settings": trick("git config alias.st '!touch x'", named=".git/config"),
    "a commit": trick(
        "echo evil >> a.txt; git add -A; git -c user.name=n -c user.email=e commit -qm x", named=".git/"
    ),
    "a build folder": trick("mkdir -p target; echo evil > target/x", named="target/"),
    "in an old build folder": trick("echo evil > node_modules/deep/x", named="node_modules/"),
    "an ignored file": trick("echo evil >> debug.log", named="debug.log"),
    "an ignored file, deleted": trick("rm debug.log", named="debug.log"),
    "an ignored file, deleted by an earlier command": trick("rm debug.log", "true", named="debug.log"),
    "an ignored file, moved": trick("mv debug.log mine.txt", named="debug.log"),
    "an ignored file, deleted with its folder": trick("rm -r src", named="src/deep/c.log"),
    "an ignored file, deleted and made again": trick(
        "rm debug.log", "echo evil > debug.log", named="debug.log"
    ),
    "a build folder, deleted": trick("rm -r node_modules", named="node_modules"),
    "a new ignored file": trick("echo evil > new.log", named="new.log"),
    "an ignored file in a new folder": trick(
        "mkdir logs zlogs; echo evil > logs/x.log; echo evil > zlogs/x.log; echo evil >> a.txt; echo evil >> src/deep/c.txt",
        named="logs/x.log zlogs/x.log",
    ),
    "a name like Newel's": trick(
        "echo evil > .newel-0123456789abcdef.tmp", named=".newel-0123456789abcdef.tmp"
    ),
    "outside": trick("echo evil > $OUT/file", named="/file"),
    "outside, by a relative path": trick("echo evil > ../outside/file", named="/file"),
    "outside, after cd": trick("cd ../outside && echo evil > file", named="/file"),
    "outside, through a link to a folder": trick("ln -s $OUT way; echo evil > way/file", named="/file"),
    "a start-up file": trick("cat > s.sh <<'X'\necho evil >> ~/.bashrc\nX\nsh s.sh", named=".bashrc"),
    "an authorized key": trick(
        "cat > s.sh <<'X'\necho evil >> ~/.ssh/authorized_keys\nX\nsh s.sh", named="authorized_keys"
    ),
    "a socket": trick(
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s.sock\")'", named="s.sock"
    ),
}

KINDS = {
    "a file, then a folder": trick("rm a.txt; mkdir a.txt; echo evil > a.txt/x"),
    "a folder, then a file": trick("rm -r src; echo evil > src"),
    "a file, then a link": trick("ln -sf /etc/passwd a.txt"),
    "a folder, then a link": trick("mv src $OUT/src; ln -s $OUT/src src", named="/src"),
    "a file, then a pipe": trick("rm a.txt; mkfifo a.txt"),
    "the mode of a folder": trick("chmod 700 src"),
    "set-user-ID": trick("chmod u+s a.txt"),
    "an empty folder": trick("mkdir empty"),
    "an empty folder, removed": trick("rmdir vacant"),
    "the target of a link": trick("ln -sfn deep/c.txt link"),
    "with the old times": trick("touch -r a.txt $OUT/t; echo EVIL > a.txt; touch -r $OUT/t a.txt; rm $OUT/t"),
    "the same size and times": trick(
        "cp -p a.txt $OUT/t; printf 'ONE\\ntwo\\n' > a.txt; touch -r $OUT/t a.txt; rm $OUT/t"
    ),
    "through a mapping": trick(
        'python3 -c \'import mmap; f=open("a.txt","r+b"); m=mmap.mmap(f.fileno(),0); m[:3]=b"bad"; m.flush()\''
    ),
    "through /proc": trick("exec 9<>a.txt; echo evil > /proc/self/fd/9"),
    "through the real path": trick("echo evil >> $PWD/src/../a.txt"),
    "swapped": trick("mv a.txt k; mv src/deep/c.txt a.txt; mv k src/deep/c.txt"),
    "moved away": trick("mv src $OUT/gone", named="/gone"),
    "an odd name": trick("echo evil > $'a\\nb'; echo evil > -rf; echo evil > ' '"),
    "a case of .git": trick("mkdir .GIT; echo evil > .GIT/config"),
}

ROOM = {
    "a large new file": trick("head -c 40000000 /dev/zero > big"),
    "a known file that grows large": trick("head -c 40000000 /dev/zero >> a.txt"),
    "a known file that grows large, twice": trick(
        "head -c 40000000 /dev/zero >> a.txt", "head -c 40000000 /dev/zero >> a.txt"
    ),
    "a known file that grows large and small": trick(
        "head -c 40000000 /dev/zero >> a.txt", "echo evil > a.txt"
    ),
    "a known file when the room is full": trick(
        "for i in 1 2 3 4 5 6 7 8 9; do head -c 20000000 /dev/urandom > junk$i; done", "echo evil > a.txt"
    ),
    "large known files": trick("for i in 1 2 3; do head -c 20000000 /dev/urandom >> data$i.bin; done"),
    "large files, moved": trick("mkdir away; mv data* away"),
}

HEAVY = {
    "a known file that grows large, twice",
    "a known file when the room is full",
    "large files, moved",
    "large known files",
}
"""They write up to 180 MB: one to seven seconds of a core."""

TRICKS = LINKS | LATER | IGNORED | NAMED | KINDS | ROOM


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    home = tmp_path / "user"
    (home / ".ssh").mkdir(parents=True)
    (home / ".bashrc").write_text("# mine\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OUT", str(tmp_path / "outside"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    yield
    subprocess.run(["pkill", "-f", str(tmp_path)], check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "old-rules").write_text("old-hidden.txt\n")
    root = tmp_path / "project"
    (root / "src/deep").mkdir(parents=True)
    (root / "vacant").mkdir()
    (root / "node_modules/deep").mkdir(parents=True)
    (root / "node_modules/deep/m.js").write_text("m\n")
    (root / "a.txt").write_text("one\ntwo\n")
    (root / "src/deep/c.txt").write_text("c\n")
    (root / "debug.log").write_text("log\n")
    (root / "src/deep/c.log").write_text("log\n")
    (root / ".gitignore").write_text("node_modules/\ntarget/\n*.log\n!kept.log\n")
    for number in (1, 2, 3):
        (root / f"data{number}.bin").write_bytes(bytes([number, 0]) * 1_000_000)
    (root / "link").symlink_to("a.txt")
    git = "git init -q . && git add -A && git -c user.name=n -c user.email=e commit -qm one"
    subprocess.run(["bash", "-ec", git], cwd=root, check=True)
    time.sleep(0.15)  # so that the times of all files are to be trusted
    return root


def tree(root: Path) -> dict[str, Any]:
    """All that is covered or could be: kinds, modes and contents."""
    found: dict[str, Any] = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        for name in [*folders, *names]:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            content: object = None
            if stat.S_ISLNK(mode):
                content, mode = path.readlink(), 0
            elif stat.S_ISREG(mode):
                content = path.read_bytes()
            found[str(path.relative_to(root))] = (mode, content)
    return found


LEDGER_TRICKS = {
    "the folder of the records removed": ("rm -rf $RECORDS", "Further changes of this run are not recorded"),
    "the file of the records removed": (
        "rm $RECORDS/*/*.db*",
        "Further changes of this run are not recorded",
    ),
    "the file of the records replaced": (
        "for f in $RECORDS/*/*.db; do cp $f k; mv k $f; done",
        "Further changes of this run are not recorded",
    ),
    "checkpoints deleted": ("q 'DELETE FROM checkpoints'", "has deleted records"),
    "entries deleted": ("q 'DELETE FROM entries'", "has deleted records"),
    "files deleted": ("q 'DELETE FROM files'", "has deleted records"),
}
QUERY = (
    "q() { python3 -c 'import glob,os,sqlite3,sys; "
    'c = sqlite3.connect(glob.glob(os.environ["RECORDS"] + "/*/*.db")[0]); '
    'c.execute(sys.argv[1]); c.commit()\' "$1"; }; '
)


@pytest.mark.parametrize("name", LEDGER_TRICKS)
async def test_records_that_a_command_deletes_are_missed_at_once(
    name: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next run is recorded again."""
    monkeypatch.setenv("RECORDS", str(tmp_path / "home/review"))
    said: list[str] = []
    command, message = LEDGER_TRICKS[name]
    commands = [["echo good >> a.txt"], [QUERY + command, "echo evil >> a.txt"], ["echo later >> a.txt"]]
    script: list[Answer] = []
    for run in commands:
        script += [calls("bash", command=each) for each in run] + [says("done")]
    async with recorded_agent(LocalWorkspace(str(project)), tmp_path / "home", script) as agent:
        agent.subscribe(lambda event: said.append(event.message) if isinstance(event, ErrorEvent) else None)
        await agent.prompt("first")
        assert not said
        await agent.prompt("second")
        assert message in "\n".join(said)
        before = tree(project)
        await agent.prompt("third")
        review = (await recorder_of(agent)).project
        await review.apply(await review.undo())
    assert tree(project) == before


def script_of(trick: Trick, project: Path) -> list[Answer]:
    """The model's answers: it calls ``bash`` with each command, and thinks before the answer that follows a ``WAIT``: until the
    background process has written.
    """
    script: list[Answer] = []
    waits = False
    for command in (*trick.commands, ""):
        if command == WAIT:
            waits = True
            continue

        async def answer(_: ModelRequest, command: str = command, waits: bool = waits) -> AssistantMessage:
            if waits:
                await until_written(project)
            return calls("bash", command=command) if command else says("done")

        script.append(answer)
        waits = False
    return script


async def until_written(project: Path) -> None:
    def has_written() -> bool:
        return any(b"evil" in file.read_bytes() for file in project.glob("*.txt"))

    await anyio.to_thread.run_sync(wait_until, has_written, "what the process writes")
    await anyio.sleep(0.1)  # for the process to end


@pytest.mark.timeout(120)  # one of them writes 180 MB
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in HEAVY else ()) for name in TRICKS]
)
async def test_nothing_escapes_without_a_word(name: str, project: Path, tmp_path: Path) -> None:
    before = tree(project)
    said: list[str] = []

    def on_event(event: AgentEvent) -> None:
        if isinstance(event, ErrorEvent):
            said.append(event.message)

    async with recorded_agent(
        LocalWorkspace(str(project)), tmp_path / "home", script_of(TRICKS[name], project)
    ) as agent:
        agent.subscribe(on_event)
        await agent.prompt("go")
        review = (await recorder_of(agent)).project
        if review.ledger.checkpoints():
            try:
                await review.apply(await review.undo())
            except SaveFailed as error:  # a folder of the run has something else in it, and is named
                said.append(str(error))
    words = "\n".join(said)
    for place in TRICKS[name].named:
        assert place in words
    left = {
        path: (before.get(path), now.get(path))
        for now in [tree(project)]
        for path in {*before, *now}
        if before.get(path) != now.get(path)
    }
    unnamed = {
        path: change
        for path, change in left.items()
        if not any(
            f"{parent}/" in words or f"not restore it: {parent}." in words  # changed, or deleted
            for parent in Path(path).parents
            if parent != Path()
        )
        and path not in words
    }
    assert not unnamed, words
    shutil.rmtree(tmp_path / "outside")


async def test_what_a_server_or_the_user_changes_after_the_run_is_recorded_apart(
    project: Path, tmp_path: Path
) -> None:
    """It may be the user's work: no undo that does not name it takes it back, whatever the next run does."""
    script: list[Answer] = [
        calls("bash", command="sleep 20 >/dev/null 2>&1 & echo run >> a.txt"),
        says("done"),
        calls("bash", command="true"),
        says("done"),
    ]
    async with recorded_agent(LocalWorkspace(str(project)), tmp_path / "home", script) as agent:
        said: list[str] = []
        agent.subscribe(lambda event: said.append(event.message) if isinstance(event, ErrorEvent) else None)
        await agent.prompt("start it")
        assert any(message.startswith("Still running: sleep 20") for message in said)
        (project / "src/deep/c.txt").write_text("by the user\n")
        await agent.prompt("do nothing")
        assert len([message for message in said if message.startswith("Still running")]) == 1
        review = (await recorder_of(agent)).project
        between, first = review.ledger.checkpoints()
        assert between.title.startswith("While sleep 20 (pid ")
        assert [file.path for file in between.files] == ["src/deep/c.txt"]
        with pytest.raises(NothingToUndo, match="do nothing"):
            await review.undo()
        await review.apply(await review.undo(first))
        assert (project / "a.txt").read_text() == "one\ntwo\n"
        assert (project / "src/deep/c.txt").read_text() == "by the user\n"
        await review.apply(await review.undo(between))
    assert (project / "src/deep/c.txt").read_text() == "c\n"


async def test_the_users_own_changes_between_commands_are_not_the_runs(project: Path, tmp_path: Path) -> None:
    """As long as no process of a command is left."""

    async def meanwhile(_: ModelRequest) -> AssistantMessage:
        (project / "src/deep/c.txt").write_text("by the user\n")
        return says("done")

    script: list[Answer] = [calls("bash", command="echo run >> a.txt"), meanwhile]
    async with recorded_agent(LocalWorkspace(str(project)), tmp_path / "home", script) as agent:
        await agent.prompt("go")
        review = (await recorder_of(agent)).project
        await review.apply(await review.undo())
    assert (project / "a.txt").read_text() == "one\ntwo\n"
    assert (project / "src/deep/c.txt").read_text() == "by the user\n"


class BusyWorkspace(LocalWorkspace):
    """On a machine so busy that its ``number``-th look at what runs in the background comes after the process has ended."""

    number = 0
    looks = 0

    async def background(self) -> Sequence[str]:
        self.looks += 1
        if self.looks == self.number:
            await anyio.to_thread.run_sync(wait_until, self.is_over, "the end of the process")
        return await super().background()

    def is_over(self) -> bool:
        return not is_alive(int((Path(self.root) / "pid").read_text()))


@pytest.mark.parametrize(
    ("commands", "number"),
    [*((1, number) for number in range(1, 4)), *((2, number) for number in range(1, 6))],
)
async def test_what_a_process_writes_while_its_command_is_recorded_is_undone(
    commands: int, number: int, project: Path, tmp_path: Path
) -> None:
    """It may have ended when Newel looks at what still runs, having written after the last scan."""
    before = tree(project)
    workspace = BusyWorkspace(str(project))
    workspace.number = number
    later = (
        "(echo $BASHPID > pid; sleep .3; echo evil >> a.txt) >/dev/null 2>&1 & until test -s pid; do :; done"
    )
    script: list[Answer] = [calls("bash", command=each) for each in [later, "true"][:commands]]
    async with recorded_agent(workspace, tmp_path / "home", [*script, says("done")]) as agent:
        await agent.prompt("go")
        assert workspace.looks >= number
        review = (await recorder_of(agent)).project
        while tree(project) != before:
            try:
                await review.apply(await review.undo())
            except NothingToUndo:
                break
    assert tree(project) == before
