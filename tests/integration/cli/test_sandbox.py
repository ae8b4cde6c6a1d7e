"""If these fail, a user who trusts the sandbox with a repository loses what is outside of it."""

from __future__ import annotations

import http.server
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from newel.app.network_questions import MAX_QUESTIONS
from tests.driver import Driver
from tests.hook_scripts import group, hook, of_project, users
from tests.ordinary_user import run_as_user
from tests.processes import pids_with
from tests.requirements import require_program
from tests.served import wait_until
from tests.support import BIN, Newel, bash, scenario

require_program("bwrap", "bubblewrap")

WithModel = Callable[..., Newel]

DONE = {"content": "Done."}
FETCH = "python3 -c 'import urllib.request as u; u.urlopen(\"http://nowhere.invalid/\", timeout=9)'"


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def results(newel: Newel) -> list[str]:
    return [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool"]


BREAK_OUT = "touch ~/x ../beside /etc/newel-test; cat ~/.ssh/key ~/.newel/config.toml; echo made > made.txt"


@pytest.mark.parametrize("user", ["root", "ordinary"])
def test_commands_change_the_folder_and_see_no_key(with_model: WithModel, user: str) -> None:
    newel = with_model(scenario("go", bash(BREAK_OUT), bash("cat made.txt; env"), DONE))
    (newel.home / ".ssh").mkdir()
    (newel.home / ".ssh/key").write_text("very secret\n")
    words = ("--sandbox", "workspace", "go")
    result = newel(*words) if user == "root" else run_as_user(newel, *words)
    assert result.returncode == 0, result.stderr
    first, second = results(newel)
    assert "very secret" not in first
    assert second.startswith("stdout:\nmade\n"), second
    assert "sk-test" not in second
    assert not (newel.home / "x").exists()
    if user == "root":
        assert newel("undo", "--yes").returncode == 0  # what it may change is recorded as ever
        assert not (newel.project / "made.txt").exists()


def test_a_file_that_the_project_shares_with_newels_installation_changes_alone(
    with_model: WithModel, tmp_path: Path
) -> None:
    """Uv installs hard links to its cache, so the same file may be in the project's environment and in Newel's."""
    newel = with_model(scenario("go", bash("echo planted >> module.py"), DONE))
    (newel.project / "module.py").write_text("code\n")
    installed = tmp_path / "site-packages" / "module.py"
    installed.parent.mkdir()
    installed.hardlink_to(newel.project / "module.py")
    start = [str(BIN / "newel"), "--sandbox", "workspace", "go"]
    environ = {**newel.environ, "PYTHONPATH": str(installed.parent)}
    done = subprocess.run(
        start,
        cwd=newel.project,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert (newel.project / "module.py").read_text() == "code\nplanted\n"
    assert installed.read_text() == "code\n"


def test_the_file_tools_have_the_same_limits(with_model: WithModel) -> None:
    newel = with_model(
        scenario(
            "go",
            tool("write", file_path="../beside.txt", content="x"),
            tool("write", file_path=".git/hooks/pre-commit", content="x"),
            tool("write", file_path=".vscode/tasks.json", content="x"),
            tool("write", file_path="inside.txt", content="x"),
            DONE,
        )
    )
    newel("--sandbox", "workspace", "go")
    assert [path.name for path in newel.project.iterdir()] == ["inside.txt"]
    assert not (newel.project.parent / "beside.txt").exists()
    assert ["sandbox" in result for result in results(newel)] == [True, True, True, False]


@pytest.mark.parametrize(
    "name",
    [
        "mise.toml",
        ".config/mise/config.toml",
        "lefthook.yml",
        ".vimrc",
        ".devcontainer/devcontainer.json",
        ".qwen/settings.json",
    ],
)
def test_what_runs_when_a_user_enters_or_opens_the_project_stays(with_model: WithModel, name: str) -> None:
    """A shell obeys mise.toml at its next prompt, and git lefthook.yml at the next commit."""
    newel = with_model(
        scenario("go", bash(f"echo evil >> {name}"), tool("write", file_path=name, content="evil\n"), DONE)
    )
    (newel.project / name).parent.mkdir(parents=True, exist_ok=True)
    (newel.project / name).write_text("mine\n")
    newel("--sandbox", "workspace", "go")
    assert (newel.project / name).read_text() == "mine\n"


def test_a_link_of_the_project_shows_nothing_of_the_home(with_model: WithModel) -> None:
    """A protected name in a hostile repository may be a link."""
    newel = with_model(scenario("go", bash("cat ~/papers/a.txt .vscode/a.txt"), DONE))
    (newel.home / "papers").mkdir()
    (newel.home / "papers/a.txt").write_text("very secret\n")
    (newel.project / ".vscode").symlink_to(newel.home / "papers")
    newel("--sandbox", "workspace", "go")
    assert "very secret" not in results(newel)[0]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("local", ".githooks"),
        ("local", "./.githooks/"),
        ("local", "{project}/.githooks"),
        ("global", ".githooks"),
    ],
)
def test_the_hooks_that_git_is_told_of_stay(with_model: WithModel, where: str, value: str) -> None:
    """The user's next commit runs them, outside."""
    change = bash("echo evil >> .githooks/pre-commit; echo evil >> clean.py; echo x > ordinary.txt")
    newel = with_model(
        scenario("go", change, tool("write", file_path=".githooks/pre-push", content="evil"), DONE)
    )
    hook = newel.project / ".githooks/pre-commit"
    hook.parent.mkdir()
    hook.write_text("mine\n")
    subprocess.run(["git", "init", "-q"], cwd=newel.project, check=True)
    words = ["git", "config", f"--{where}", "core.hooksPath", value.format(project=newel.project)]
    environ = {**newel.environ, "HOME": str(newel.home)}
    subprocess.run(words, cwd=newel.project, check=True, env=environ)
    (newel.project / "clean.py").write_text("mine\n")
    words[3:] = ["filter.strip.clean", "python3 clean.py %f"]  # which `git status` starts
    subprocess.run(words, cwd=newel.project, check=True, env=environ)
    newel("--sandbox", "workspace", "go")
    assert hook.read_text() == (newel.project / "clean.py").read_text() == "mine\n"
    assert not (newel.project / ".githooks/pre-push").exists()
    assert (newel.project / "ordinary.txt").exists()


NAMED_BY: Final = {
    "an included file": {
        "~/.gitconfig": "[include]\n\tpath = ~/.gitconfig.work\n",
        "~/.gitconfig.work": "HOOKS",
    },
    "beside it": {"~/.gitconfig": "[include] path = work\n", "~/work": "HOOKS"},
    "of an included one": {
        "~/.gitconfig": "[include] path = a\n",
        "~/a": '[includeIf "onbranch:other"]\npath = b\n',
        "~/b": "HOOKS",
    },
    "XDG_CONFIG_HOME": {"~/settings/git/config": "HOOKS"},
    "GIT_CONFIG_GLOBAL": {"~/global": "HOOKS"},
    "GIT_CONFIG_SYSTEM": {"~/system": "HOOKS"},
    "GIT_CONFIG_COUNT": {},
    "an unusual text": {"~/.gitconfig": "[core]\n\thooksPath = .git\\\nhooks\n"},
}


@pytest.mark.parametrize("by", NAMED_BY)
def test_the_hooks_that_git_finds_by_other_files_stay(with_model: WithModel, by: str) -> None:
    """Many keep the settings of their work in a file that the others include."""
    newel = with_model(scenario("go", bash("echo evil >> .githooks/pre-commit; echo x > ordinary.txt"), DONE))
    hook = newel.project / ".githooks/pre-commit"
    hook.parent.mkdir()
    hook.write_text("mine\n")
    subprocess.run(["git", "init", "-q"], cwd=newel.project, check=True)
    for name, text in NAMED_BY[by].items():
        file = newel.home / name.removeprefix("~/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("HOOKS", "[core]\n\thooksPath = .githooks\n"))
    variables = {
        "XDG_CONFIG_HOME": {"XDG_CONFIG_HOME": f"{newel.home}/settings"},
        "GIT_CONFIG_GLOBAL": {"GIT_CONFIG_GLOBAL": f"{newel.home}/global"},
        "GIT_CONFIG_SYSTEM": {"GIT_CONFIG_SYSTEM": f"{newel.home}/system"},
        "GIT_CONFIG_COUNT": {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.hooksPath",
            "GIT_CONFIG_VALUE_0": ".githooks",
        },
    }
    newel("--sandbox", "workspace", "go", **variables.get(by, {}))
    assert hook.read_text() == "mine\n"
    assert (newel.project / "ordinary.txt").exists()


def test_settings_of_git_in_the_project_that_others_include_stay(with_model: WithModel) -> None:
    """The user's next `git status` would start what they name."""
    newel = with_model(scenario("go", bash("echo evil >> git-settings; echo x > ordinary.txt"), DONE))
    (newel.project / "git-settings").write_text("[user]\n")
    subprocess.run(["git", "init", "-q"], cwd=newel.project, check=True)
    subprocess.run(["git", "config", "include.path", "../git-settings"], cwd=newel.project, check=True)
    newel("--sandbox", "workspace", "go")
    assert (newel.project / "git-settings").read_text() == "[user]\n"
    assert (newel.project / "ordinary.txt").exists()


@pytest.mark.parametrize("name", [".venv", "node_modules/.bin", ".venv/bin"])
def test_a_link_of_the_project_on_the_path_shows_nothing_of_the_home(
    with_model: WithModel, name: str
) -> None:
    """A command may have put it in place of an environment, for the next session."""
    newel = with_model(scenario("go", bash(f"cat ~/papers/a.txt {name}/a.txt"), DONE))
    (newel.home / "papers").mkdir()
    (newel.home / "papers/a.txt").write_text("very secret\n")
    (newel.project / name).parent.mkdir(exist_ok=True)
    (newel.project / name).symlink_to(newel.home / "papers")
    newel.environ |= {
        "PATH": f"{newel.project / name}:{newel.environ['PATH']}",
        "VIRTUAL_ENV": str(newel.project / name),
    }
    newel("--sandbox", "workspace", "go")
    assert "very secret" not in results(newel)[0]


def test_an_environment_that_the_project_links_to_is_shown(with_model: WithModel) -> None:
    newel = with_model(scenario("go", bash("cat .venv/pyvenv.cfg; tool"), DONE))
    environment = newel.home / "environments/x"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (environment / "bin/tool").write_text("#!/bin/sh\necho tool runs\n")
    (environment / "bin/tool").chmod(0o755)
    (newel.project / ".venv").symlink_to(environment)
    newel.environ |= {
        "PATH": f"{newel.project}/.venv/bin:{newel.environ['PATH']}",
        "VIRTUAL_ENV": f"{newel.project}/.venv",
    }
    newel("--sandbox", "workspace", "go")
    assert results(newel)[0].startswith("stdout:\nhome = /usr/bin\ntool runs\n")


def test_settings_of_tools_are_protected_behind_links(with_model: WithModel) -> None:
    """A hostile repository has them in a folder that commands may change."""
    commands = [
        "echo evil >> .vscode/tasks.json; echo evil >> cfg/vscode/tasks.json; mv cfg/vscode cfg/v; echo evil >> .envrc; cat cfg/vscode/tasks.json",
        "rm .vscode; mkdir .vscode; echo evil > .vscode/tasks.json",
    ]
    newel = with_model(
        scenario(
            "go", *map(bash, commands), tool("write", file_path="cfg/vscode/tasks.json", content="evil"), DONE
        )
    )
    (newel.project / "cfg/vscode").mkdir(parents=True)
    (newel.project / ".vscode").symlink_to("cfg/vscode")
    (newel.project / ".envrc").symlink_to("cfg/rc")
    for name in (".idea", ".claude", "AGENTS.md"):
        (newel.project / name).symlink_to("/proc/1/root/x")  # which only root may follow
    for name in ("cfg/vscode/tasks.json", "cfg/rc"):
        (newel.project / name).write_text("mine\n")
    done = newel("--sandbox", "workspace", "go")
    for name in ("cfg/vscode/tasks.json", "cfg/rc"):
        assert (newel.project / name).read_text() == "mine\n"
    assert "Changed in the project: .vscode" in done.stderr
    assert "sandbox" in results(newel)[2]


@pytest.mark.parametrize("repository", ["own", "above"])
def test_no_folder_around_a_protected_file_is_replaced(with_model: WithModel, repository: str) -> None:
    """What is mounted on a file moves away with the folder that it is in, and leaves room for another file of its name."""
    names = (".github/workflows/ci.yml", "config/live/main.toml", "cfg/rc", "checks/run.sh", "mcp/serve.py")
    commands = [
        f"mv {folder} away{at}; mkdir -p {folder}; mkdir -p $(dirname {name}); echo evil > {name}"
        for at, (folder, name) in enumerate((name.split("/")[0], name) for name in names)
    ]
    commands.append(
        "mv config/live l; mkdir config/live; echo evil > config/live/main.toml; echo x > config/new"
    )
    commands.append("git init -q lib; mv lib away; git init -q lib")  # git obeys the settings of a submodule
    newel = with_model(scenario("go", *map(bash, commands), DONE))
    git = require_program("git")
    place = newel.project.parent if repository == "above" else newel.project  # the one above is only read
    subprocess.run([git, "init", "-q"], cwd=place, check=True)
    submodule = f"160000,{'1' * 40},lib"
    subprocess.run([git, "update-index", "--add", "--cacheinfo", submodule], cwd=place, check=True)
    (newel.project / "lib").mkdir()
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel/config.toml").write_text('[permissions]\ndeny = ["write(config/live/main.toml)"]\n')
    (newel.project / ".envrc").symlink_to("cfg/rc")
    for name in names:
        (newel.project / name).parent.mkdir(parents=True)
        (newel.project / name).write_text("mine\n")
    of_project(newel, Stop=[group(hook("sh checks/run.sh"))])  # a script that runs outside of the sandbox
    assert newel("hooks", "trust", "--yes").returncode == 0
    server = {
        "command": "python3",
        "args": ["${workspaceFolder}/mcp/serve.py"],
        "disabled": True,
    }  # so does one of the user
    (newel.home / ".newel/mcp_config.json").write_text(json.dumps({"mcpServers": {"mine": server}}))
    newel("--sandbox", "workspace", "go")
    assert [(newel.project / name).read_text() for name in names] == ["mine\n"] * 5
    assert (newel.project / "config/new").read_text() == "x\n"
    assert (newel.project / "lib/.git").exists() == (repository == "above")


def test_what_is_hidden_is_not_found_elsewhere_by_the_next_sandbox(with_model: WithModel) -> None:
    """A command can end a sandbox, and the next one hides by paths."""
    commands = [
        "mv conf c || mv conf/live c; kill -9 $PPID",
        "true",
        "cat c/live/private/key c/private/key; echo looked",
    ]
    newel = with_model(scenario("go", *map(bash, commands), DONE))
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel/config.toml").write_text('[permissions]\ndeny = ["read(conf/live/private/**)"]\n')
    (newel.project / "conf/live/private").mkdir(parents=True)
    (newel.project / "conf/live/private/key").write_text("very secret\n")
    newel("--sandbox", "workspace", "go")
    assert "looked" in results(newel)[2]
    assert "very secret" not in str(results(newel))


def test_places_of_secrets_that_variables_name_are_hidden(with_model: WithModel) -> None:
    """Keys outside of the home folder would be files like others, such as those that a container mounts."""
    newel = with_model(
        scenario("go", bash("cd ../data; cat kube gpg/key plain named; env > /dev/null && echo ran"), DONE)
    )
    data = newel.project.parent / "data"
    (newel.home / ".newel").mkdir()
    paths = f'["{data}", "{data}/named"]'
    (newel.home / ".newel/config.toml").write_text(f"[sandbox]\nreadable = {paths}\n")
    (data / "gpg").mkdir(parents=True)
    for name in ("kube", "gpg/key", "plain", "named"):
        (data / name).write_text(f"the text of {name}\n")
    newel.environ |= {
        "KUBECONFIG": f"{data}/none:{data}/kube",
        "GNUPGHOME": f"{data}/gpg",
        "PGPASSFILE": f"{data}/named",
        "NETRC": "/dev/null",  # as it is written to have none
        "AZURE_CONFIG_DIR": str(newel.project.parent),  # hidden, it would hide the project
    }
    newel("--sandbox", "workspace", "go")
    (said,) = results(newel)
    for name in ("plain", "named"):
        assert f"the text of {name}\n" in said
    assert "the text of kube" not in said
    assert "the text of gpg" not in said
    assert "ran\n" in said


@pytest.mark.parametrize("setting", ["writable", "readable"])
@pytest.mark.parametrize("name", ["new", "config/live", "config/live/new"])
def test_no_link_of_the_project_widens_what_the_settings_open(
    with_model: WithModel, setting: str, name: str
) -> None:
    """Else a command makes a folder of the user its own, by a link in the place of a path that is in the settings."""
    commands = [
        f"mkdir -p $(dirname {name}); rm -rf {name}; ln -sT ~/mine {name} || {{ mv config c; mkdir config; ln -sT ~/mine {name}; }}; kill -9 $PPID",
        "true",
        "echo evil >> ~/mine/rc; cat ~/mine/rc; echo looked",
    ]
    newel = with_model(scenario("go", *map(bash, commands), DONE))
    (newel.home / ".newel").mkdir()
    path = newel.project / name
    (newel.home / ".newel/config.toml").write_text(f'[sandbox]\n{setting} = ["{path}"]\n')
    (newel.project / "config/live").mkdir(parents=True)
    (newel.home / "mine").mkdir()
    (newel.home / "mine/rc").write_text("private words\n")
    newel("--sandbox", "workspace", "go")
    assert "looked" in results(newel)[2]
    assert (newel.home / "mine/rc").read_text() == "private words\n"
    assert "private words" not in str(results(newel))


@pytest.mark.parametrize(
    "name",
    [".opencode/plugin/x.js", "opencode.json", ".pi/extensions/x.ts", ".helix/languages.toml", ".exrc"],
)
def test_settings_of_other_agents_and_editors_are_protected(with_model: WithModel, name: str) -> None:
    newel = with_model(scenario("go", bash(f"echo evil >> {name}"), DONE))
    file = newel.project / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("mine\n")
    newel("--sandbox", "workspace", "go")
    assert file.read_text() == "mine\n"


@pytest.mark.slow  # seconds of waiting
def test_limits_of_the_settings_hold(with_model: WithModel) -> None:
    """A command that forks without end, or fills the disk, would take the machine with it."""
    commands = [
        "for i in $(seq 60); do sleep 1 & done; wait",
        "head -c 3000000 /dev/zero > big; stat -c %s big",
        'python3 -c "bytes([1]) * (3 << 30)"',
        "ulimit -c; ulimit -u unlimited; ulimit -f unlimited",
    ]
    newel = with_model(scenario("go", *map(bash, commands), DONE))
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel/config.toml").write_text(
        "[sandbox]\nmax_processes = 40\nmax_memory = 2\nmax_file = 0.001\n"
    )
    result = run_as_user(newel, "--ephemeral", "--sandbox", "workspace", "go")
    assert result.returncode == 0, result.stderr
    processes, file, memory, raised = results(newel)
    assert "fork: retry: Resource temporarily unavailable" in processes
    assert "\n1073741\n" in file or "\n1073742\n" in file
    # Of the sandbox as a whole, where this user may have a control group; else of each process.
    assert "limit of 2 GiB of memory" in memory or "MemoryError" in memory
    assert raised.startswith("stdout:\n0\n")
    assert raised.count("cannot modify limit") == (1 if "limit of 2 GiB" in memory else 2)


def test_doctor_names_paths_of_the_settings_that_show_nothing(with_model: WithModel) -> None:
    """A slip in a path, or a folder that stays hidden, would look like a fault of the sandbox."""
    newel = with_model(scenario("go", DONE))
    for name in (".newel", ".ssh", "notes"):
        (newel.home / name).mkdir()
    (newel.home / ".ssh/known_hosts").write_text("")
    (newel.project / "docs").symlink_to(newel.home / "notes")
    paths = f'["~/notez", "~/.ssh", "~/.ssh/known_hosts", "~/notes", "{newel.project}/docs"]'
    (newel.home / ".newel/config.toml").write_text(f"[sandbox]\nreadable = {paths}\n")
    said = newel("doctor", NEWEL_SANDBOX="workspace").stdout
    assert "readable: ~/notez does not exist" in said
    assert "readable: ~/.ssh holds secrets and stays hidden" in said
    assert "readable: ~/notes " not in said
    assert f"docs leads to {newel.home}/notes through a link in a project" in said
    assert "known_hosts" not in said


def test_doctor_says_which_limits_a_sandbox_has(with_model: WithModel) -> None:
    """A limit that the user believes in, and that is not there, is worse than none."""
    newel = with_model(scenario("go", DONE))
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel/config.toml").write_text("[sandbox]\nmax_memory = 2\nmax_processes = 40\n")
    newel.environ["NEWEL_SANDBOX"] = "workspace"
    (line,) = [each for each in newel("doctor").stdout.splitlines() if each.split()[:1] == ["limits"]]
    held, said = (
        "2 GiB of memory and 40 processes for all commands together",
        "none for all commands together: ",
    )
    assert held in line or said in line
    newel.environ["NEWEL_SANDBOX"] = "off"
    assert "all commands together" not in newel("doctor").stdout


def test_read_only_changes_nothing(with_model: WithModel) -> None:
    newel = with_model(
        scenario("go", bash("cat a.txt; touch b.txt"), tool("write", file_path="c.txt", content="x"), DONE)
    )
    (newel.project / "a.txt").write_text("here\n")
    newel("--sandbox", "read-only", "go")
    assert "here" in results(newel)[0]
    assert [path.name for path in newel.project.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("sandbox", ["workspace", "read-only"])
@pytest.mark.parametrize("approve", ["plan", "read-only"])
def test_commands_that_only_read_run_where_nothing_may_change(
    with_model: WithModel, approve: str, sandbox: str
) -> None:
    commands = [bash("cat a.txt"), bash("git status --short"), bash("cat a.txt; touch b.txt")]
    newel = with_model(scenario("go", *commands, DONE))
    (newel.project / "a.txt").write_text("here\n")
    subprocess.run(["git", "init", "-q"], cwd=newel.project, env=newel.environ, check=True)
    newel("--sandbox", sandbox, "--approve", approve, "go")
    cat, status, touch = results(newel)
    assert "here" in cat
    assert "?? a.txt" in status
    assert touch.startswith("Not run: ")
    assert sorted(path.name for path in newel.project.iterdir()) == [".git", "a.txt"]


@pytest.mark.parametrize("approve", ["auto", "review"])
@pytest.mark.parametrize("user", ["root", "ordinary"])
def test_a_commit_needs_no_question(with_model: WithModel, approve: str, user: str) -> None:
    command = "echo two > b.txt && git add b.txt && git commit -q -m Second && git log --format=%s; git config x.y z"
    newel = with_model(scenario("go", bash(command), DONE))
    for words in (
        "init -q",
        "config user.name A",
        "config user.email a@b",
        "commit -q --allow-empty -m First",
    ):
        subprocess.run(["git", *words.split()], cwd=newel.project, env=newel.environ, check=True)
    words = ("--sandbox", "workspace", "--approve", approve, "go")
    result = newel(*words) if user == "root" else run_as_user(newel, *words)
    assert result.returncode == 0, result.stderr
    (output,) = results(newel)
    assert "stdout:\nSecond\nFirst\n" in output
    assert "could not lock config file" in output
    if user == "root":
        log = ["git", "log", "--format=%s"]
        done = subprocess.run(log, cwd=newel.project, capture_output=True, text=True, check=True)
        assert done.stdout == (
            "First\n" if approve == "review" else "Second\nFirst\n"
        )  # a copy has its own commits


def test_a_kill_while_git_writes_files_leaves_no_lock(with_model: WithModel) -> None:
    """The user's next git command would refuse to work."""
    newel = with_model(scenario("go", bash("git reset -q --hard"), DONE))

    def git(*words: str, stdin: str = "") -> str:
        run = subprocess.run(
            ["git", *words],
            cwd=newel.project,
            env=newel.environ,
            input=stdin,
            check=True,
            text=True,
            stdout=-1,
        )
        return run.stdout.strip()

    for words in ("init -q", "config user.name A", "config user.email a@b"):
        git(*words.split())
    blob = git("hash-object", "-w", "--stdin", stdin="one\n")
    git("update-index", "--index-info", stdin="".join(f"100644 {blob} 0\tf{n}\n" for n in range(40_000)))
    git("commit", "-qm", "First")
    lock = newel.project / ".git/index.lock"
    with newel.start("--sandbox", "workspace", "go") as process:
        wait_until(lock.exists, "the lock")
        time.sleep(0.3)  # git prepares to remove a lock just after it has made it
        process.kill()
    wait_until(lambda: not pids_with("reset -q --hard"), "the end of git")
    assert not lock.exists()
    assert 0 < len(list(newel.project.glob("f*"))) < 40_000


def test_a_kill_in_the_middle_of_an_addition_leaves_no_lock(with_model: WithModel) -> None:
    newel = with_model(scenario("go", bash("mkfifo p; exec 3<>p; git add --pathspec-from-file=- <&3"), DONE))
    subprocess.run(["git", "init", "-q"], cwd=newel.project, env=newel.environ, check=True)
    (newel.project / "a.txt").write_text("one\n")
    folder = newel.project / ".git"
    with newel.start("--sandbox", "workspace", "go") as process:
        wait_until(lambda: bool([*folder.glob("newel-index-*/index.lock")]), "the lock of the copy")
        process.kill()
    wait_until(lambda: not pids_with("add --pathspec-from-file"), "the end of git")
    subprocess.run(["git", "add", "a.txt"], cwd=newel.project, env=newel.environ, check=True)


def test_an_agent_with_a_worktree_commits_there(with_model: WithModel) -> None:
    newel = with_model(scenario("Make", bash("echo x > x.txt && git add x.txt && git commit -qm Made"), DONE))
    for words in (
        "init -q",
        "config user.name A",
        "config user.email a@b",
        "commit -q --allow-empty -m First",
    ):
        subprocess.run(["git", *words.split()], cwd=newel.project, env=newel.environ, check=True)
    done = newel("agent", "Make it", "--worktree", "--name", "maker", "--sandbox", "workspace")
    log = ["git", "log", "--format=%s", "newel/maker"]
    found = subprocess.run(log, cwd=newel.project, capture_output=True, text=True, check=True).stdout
    assert found == "Made\nFirst\n", done.stderr
    assert not (newel.project / "x.txt").exists()


def test_new_settings_of_other_programs_are_named(with_model: WithModel) -> None:
    """The user would open the project in an editor, which runs them."""
    newel = with_model(
        scenario("go", bash("mkdir .vscode; echo '{}' > .vscode/tasks.json; git init -q"), bash("true"), DONE)
    )
    result = newel("--sandbox", "workspace", "go")
    first, second = results(newel)
    assert "New in the project: .git, .vscode/tasks.json." in first
    assert "New in the project" not in second
    assert "New in the project: .git, .vscode/tasks.json." in result.stderr + result.stdout


def test_review_works_on_a_copy_in_the_sandbox(with_model: WithModel) -> None:
    escape = "mv checks away; mkdir checks; echo 'touch ~/x' > checks/run.sh"
    newel = with_model(
        scenario(
            "go",
            bash(f"pwd; echo made > made.txt; echo x > a.txt; touch ~/x; {escape}"),
            tool("write", file_path="checks/run.sh", content="touch ~/x"),
            DONE,
        )
    )
    (newel.project / "a.txt").write_text("here\n")
    (newel.project / "checks").mkdir()
    (newel.project / "checks/run.sh").write_text("echo ran >> ~/ran\n")
    users(newel, Stop=[group(hook("sh checks/run.sh"))])  # runs in the copy, outside of the sandbox
    result = newel("--sandbox", "workspace", "--approve", "review", "go")
    assert result.returncode == 0, result.stderr
    assert (newel.project / "a.txt").read_text() == "here\n"
    assert newel("keep", "--all", "--yes").returncode == 0
    assert (newel.project / "made.txt").read_text() == "made\n"
    assert not (newel.home / "x").exists()
    assert (newel.home / "ran").read_text() == "ran\n"
    assert "a program outside of it may obey or run this file" in results(newel)[1]


def test_only_allowed_servers_are_reached_and_never_this_machine(with_model: WithModel) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        fetch = "import urllib.request as u; print(u.urlopen({!r}, timeout=5).status)"
        own = f"http://127.0.0.1:{server.server_port}/"
        commands = [
            f'python3 -c "{fetch.format(own)}"',
            'python3 -c "' + fetch.format("http://denied.test/") + '"',
            f"curl -sS --noproxy '' -x $HTTP_PROXY {own}",
        ]
        newel = with_model(scenario("go", *map(bash, commands), DONE))
        home = newel.home / ".newel"
        home.mkdir()
        (home / "config.toml").write_text('[sandbox]\nmode = "workspace"\ndomains = ["*"]\n')
        newel("go", NEWEL_SANDBOX="")
        direct, denied, through = results(newel)
        server.shutdown()
    assert "refused" in direct
    assert "502" in denied or "403" in denied
    assert "cannot be reached" in through or "own network" in through or "not allowed" in through


@pytest.mark.parametrize(("decision", "answer"), [("no", "Not allowed by the sandbox"), ("once", "502")])
def test_the_user_is_asked_about_a_server(
    with_model: WithModel, drive: Callable[..., Driver], decision: str, answer: str
) -> None:
    """Also in `auto`: it is about the limits of the sandbox, not about the call."""
    newel = with_model(scenario("go", bash(f"{FETCH}; {FETCH}"), DONE))
    driver = drive(newel, "--sandbox", "workspace")
    driver.send(type="message", content="go")
    asked = driver.until("approval_request")
    assert asked["preview"].startswith("nowhere.invalid\n")
    assert (asked["kind"], asked["args"], asked["rule"]) == (
        "server",
        {"server": "nowhere.invalid"},
        "the server nowhere.invalid",
    )
    driver.answer(asked, decision)
    driver.until("agent_end")
    assert results(newel)[0].count(answer) == 2


def test_stopping_a_run_withdraws_its_question(with_model: WithModel, drive: Callable[..., Driver]) -> None:
    """It would take the next prompt for an answer, and the next command would wait for it."""
    newel = with_model(scenario("go", bash(FETCH), DONE))
    driver = drive(newel, "--sandbox", "workspace")
    driver.send(type="message", content="go")
    withdrawn = driver.until("approval_request")
    driver.send(type="interrupt")
    driver.until("agent_end")
    driver.answer(withdrawn, "once")
    assert "is waiting for approval" in driver.until("error")["message"]
    driver.send(type="message", content="go")
    driver.answer(driver.until("approval_request"), "no")
    driver.until("agent_end")
    assert "Not allowed by the sandbox" in results(newel)[-1]


@pytest.mark.parametrize("kept", ["now", "earlier"])
def test_a_server_that_is_revoked_meanwhile_is_asked_about_again(
    with_model: WithModel, drive: Callable[..., Driver], kept: str
) -> None:
    """Also within one command, and in one session."""
    wait = "touch first; while [ ! -e go ]; do sleep 0.05; done"
    newel = with_model(scenario("go", bash(f"{FETCH}; {wait}; {FETCH}"), DONE))
    if kept == "earlier":
        (newel.home / ".newel").mkdir()
        servers = json.dumps({str(newel.project): ["nowhere.invalid"]})
        (newel.home / ".newel" / "sandbox_servers.json").write_text(servers)
    driver = drive(newel, "--sandbox", "workspace")
    driver.send(type="message", content="go")
    if kept == "now":
        driver.answer(driver.until("approval_request"), "rule")
    wait_until((newel.project / "first").exists, "the first request")
    assert "server nowhere.invalid" in newel("permissions").stdout
    assert newel("permissions", "revoke", "nowhere.invalid").returncode == 0
    (newel.project / "go").touch()
    driver.answer(driver.until("approval_request"), "no")
    driver.until("agent_end")
    (said,) = results(newel)
    assert (said.count("Error 502"), said.count("Not allowed by the sandbox")) == (1, 1)


def test_a_server_that_cannot_be_kept_is_named_and_allowed_for_the_session(
    with_model: WithModel, drive: Callable[..., Driver]
) -> None:
    newel = with_model(scenario("go", bash(f"{FETCH}; {FETCH}"), DONE))
    path = newel.home / ".newel" / "sandbox_servers.json"
    path.mkdir(parents=True)
    driver = drive(newel, "--sandbox", "workspace")
    driver.send(type="message", content="go")
    driver.answer(driver.until("approval_request"), "rule")
    said = driver.until("error")
    assert said["code"] == "answer_not_saved"
    assert said["message"].startswith(f"Not saved for this project: the server nowhere.invalid. {path} ")
    driver.until("agent_end")
    assert results(newel)[0].count("Error 502") == 2


def test_a_command_that_asks_for_many_servers_at_once_is_one_question_at_a_time(
    with_model: WithModel, drive: Callable[..., Driver]
) -> None:
    names = "seq -f n%g.invalid 120 | xargs -P 60 -I{} curl -s -o /dev/null -m 60 http://{}/; true"
    newel = with_model(scenario("go", bash(names), DONE))
    driver = drive(newel, "--sandbox", "workspace")
    driver.send(type="message", content="go")
    asked = 0
    while (event := driver.until_one_of("approval_request", "agent_end"))["type"] != "agent_end":
        asked += 1
        driver.answer(event, "no")
    assert asked == MAX_QUESTIONS


def test_what_rules_deny_is_out_of_reach_of_commands(with_model: WithModel) -> None:
    """Outside of a sandbox, such rules bind Newel's own tools only."""
    tried = "cat private/key notes/*.key ~/diary; echo x >> locked/file; cat locked/file; echo ok > open"
    newel = with_model(scenario("go", bash(tried), DONE))
    for name in ("private/key", "notes/a.key", "locked/file", "../home/diary"):
        path = newel.project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"content of {path.name}\n")
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel" / "config.toml").write_text(
        '[permissions]\ndeny = ["read(private/**)", "read(notes/*.key)", "read(~/diary)", "write(locked/**)"]\n'
        '[sandbox]\nreadable = ["~/diary"]\n'
    )
    newel("--sandbox", "workspace", "go")
    (said,) = results(newel)
    assert "content of file" in said
    assert said.count("content of") == 1
    assert (newel.project / "locked/file").read_text() == "content of file\n"
    assert (newel.project / "open").read_text() == "ok\n"


def test_the_model_knows_its_limits(with_model: WithModel) -> None:
    newel = with_model(scenario("go", DONE))
    newel("--sandbox", "workspace", "go")
    assert "Commands run in a sandbox" in newel.requests[0]["messages"][0]["content"]
    newel("go")
    assert "sandbox" not in newel.requests[-1]["messages"][0]["content"]


def test_a_command_that_the_sandbox_stops_is_explained_once(with_model: WithModel) -> None:
    """The words of the kernel, "Read-only file system", look like a fault of the machine: the model tries again, or gives up."""
    stopped = {
        "touch /etc/newel-test": "writable",
        "ssh -o BatchMode=yes git@nowhere.invalid 2>&1 | tail -1": "domains",
        "cat ~/.config/thing/settings": "readable",
        "echo kept > ~/notes.txt; cp made.txt ~/src/project/; cat ~/notes.txt": "Lost when the sandbox ends: ~/notes.txt, ~/src/project/",
        "echo Cannot connect to the Docker daemon >&2; false": "no service of this machine",
        "git config x.y z || git fetch origin": '[sandbox] writable = ["{project}/.git"]',
        "curl -sS http://localhost:9": "those of this machine",
    }
    fine = (
        "grep -n x made.txt; echo fine > made.txt; cp made.txt ../project/b.txt; cat ~/.gitconfig 2>/dev/null"
    )
    newel = with_model(scenario("go", bash(fine), *map(bash, stopped), *map(bash, stopped), DONE))
    subprocess.run(["git", "init", "-q"], cwd=newel.project, check=True)
    assert newel("--sandbox", "workspace", "go").returncode == 0
    first, *others = results(newel)
    assert "sandbox" not in first
    for hint, result in zip(stopped.values(), others[: len(stopped)], strict=True):
        assert hint.format(project=newel.project) in result
        assert result.count("--sandbox off") == 1
    assert not any("--sandbox off" in result for result in others[len(stopped) :])


def test_a_refused_server_is_named_with_the_line_that_allows_it(with_model: WithModel) -> None:
    """Programs such as pip and curl do not print the refusal: the user would have to guess the name."""
    quiet = "curl -s https://{}.invalid/ https://{}.invalid:8443/"
    refused = [bash(quiet.format("a", "b")), bash(quiet.format("c", "a"))]
    newel = with_model(scenario("go", bash("curl -s https://z.invalid || true"), *refused, DONE))
    newel("--sandbox", "workspace", "go")
    fine, first, second = results(newel)
    assert "sandbox" not in fine  # what a command does without is not its failure
    assert "\nRefused by the sandbox: a.invalid, b.invalid:8443. Commands in" in first
    assert '[sandbox] domains = ["a.invalid", "b.invalid:8443"] in ~/.newel/config.toml' in first
    assert "Refused by the sandbox: c.invalid, a.invalid:8443." in second
    assert "--sandbox off" not in second


def test_nothing_is_left_after_the_end_and_after_a_kill(with_model: WithModel) -> None:
    """The next start removes temporary folders, with a sandbox or without."""
    first = scenario("go", bash("sleep 299 & echo begun > begun; wait"), DONE)
    newel = with_model({"scenarios": [*first["scenarios"], *scenario("next", DONE)["scenarios"]]})
    with tempfile.TemporaryDirectory() as temporary:  # a short path, for a socket
        newel.environ["TMPDIR"] = temporary
        with newel.start("--sandbox", "workspace", "go") as process:
            wait_until((newel.project / "begun").exists, "the command")
            process.kill()
        wait_until(lambda: not pids_with("sleep 299"), "the end of its processes")
        assert list(Path(temporary).glob("newel-run-*/proxy.sock"))
        assert newel("--sandbox", "off", "next").returncode == 0
        assert not list(Path(temporary).glob("newel-run-*"))


def test_a_wrong_variable_is_named(with_model: WithModel) -> None:
    done = with_model()("go", NEWEL_SANDBOX="yes")
    assert done.returncode == 1
    assert "NEWEL_SANDBOX is 'yes', but must be one of workspace, read-only, partial, off" in done.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('mode = "strict"', "sandbox.mode"),
        ('writable = ["relative"]', "is not an absolute path"),
        ('domains = ["http://x"]', "[sandbox] domains: 'http://x' is not a domain"),
    ],
)
def test_a_wrong_setting_is_named_and_nothing_runs(with_model: WithModel, text: str, problem: str) -> None:
    newel = with_model(scenario("go", DONE))
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel/config.toml").write_text(f"[sandbox]\n{text}\n")
    result = newel("--sandbox", "workspace", "go")
    assert result.returncode == 1
    assert problem in result.stderr
    assert newel.requests == []
