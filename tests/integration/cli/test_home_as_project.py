"""If these fail, an agent started in a home folder copies its keys into Newel's records."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.cli.stored_data import is_stored
from tests.requirements import require_program
from tests.support import BIN, Newel, bash, scenario
from tests.tmux import Tmux

WithModel = Callable[..., Newel]

SECRET = "private-" + "k3Y" * 30
PLACES = (
    *(".ssh/id_ed25519", ".aws/credentials", ".netrc", ".bash_history", ".config/gh/hosts.yml"),
    *(".config/BraveSoftware/Cookies", "work/kube"),
)


def test_secret_places_are_not_recorded(with_model: WithModel) -> None:
    newel = start_in_home(with_model, "echo more >> notes.txt")
    assert newel("--cwd", str(newel.home), "go").returncode == 0
    assert is_stored(newel, "public-notes")
    assert not is_stored(newel, SECRET)
    assert newel("undo", "--yes", "--cwd", str(newel.home)).returncode == 0
    assert (newel.home / "notes.txt").read_text() == "public-notes\n"


def test_the_sandbox_hides_secret_places_in_it(with_model: WithModel) -> None:
    require_program("bwrap", "bubblewrap")
    newel = start_in_home(
        with_model, "cat .ssh/* .aws/* .netrc .config/*/* work/*; echo > .newel/new || echo more >> notes.txt"
    )
    (newel.home / ".newel").mkdir()
    (newel.home / ".newel/config.toml").write_text(
        '[permissions]\ndeny = ["read(~/.ssh/id_*)", "read(~/.ssh/**)"]\n'
    )
    done = newel("--cwd", str(newel.home), "go", NEWEL_SANDBOX="workspace")
    assert done.returncode == 0, done.stderr
    assert SECRET not in str(newel.requests)
    assert not (newel.home / ".newel/new").exists()
    assert (newel.home / "notes.txt").read_text() == "public-notes\nmore\n"


@pytest.mark.parametrize("answer", ["n", "", "y"])
def test_work_in_the_home_folder_has_to_be_meant(with_model: WithModel, answer: str) -> None:
    """A new terminal starts there, and an agent could change everything in it."""
    newel = with_model(scenario("", {"content": "Good morning."}))
    with Tmux([str(BIN / "newel")], newel.home, newel.environ | {"TERM": "xterm-256color"}) as terminal:
        terminal.wait_for("Work here? [y/N]")
        terminal.answer(answer, "Enter")
        terminal.wait_for("newel 0." if answer == "y" else "Nothing was started.")
    assert newel.requests == []


def start_in_home(with_model: WithModel, command: str) -> Newel:
    newel = with_model(scenario("go", bash(command), {"content": "Done."}))
    newel.environ["KUBECONFIG"] = str(newel.home / "work/kube")
    for name in PLACES:
        path = newel.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{SECRET}\n")
    (newel.home / "notes.txt").write_text("public-notes\n")
    return newel
