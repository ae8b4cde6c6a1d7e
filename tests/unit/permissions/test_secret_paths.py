"""If these fail, a tool opens a secret file, or refuses an ordinary one of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.errors import ConfigError
from newel.permissions.rules import PathRule, RuleSet, parse_rule
from newel.permissions.secret_paths import SecretPaths, existing_moved_places, existing_secret_places
from newel.permissions.secret_values import PRIVATE, SECRET, SPELLED, VARIABLES, Row

PROJECT = "/home/ada/shop"


def places(*rules: str, project: str = PROJECT, home: str = "/home/ada", root: str = "") -> SecretPaths:
    allowed = RuleSet(allow=tuple(map(parse_rule, rules)))
    return SecretPaths(root or project, home=home, project=project, rules=lambda: allowed)


def level(path: str, *rules: str, writes: bool = False) -> str:
    return places(*rules).judge(path, writes=writes).level


def paths_of(pattern: str) -> list[str]:
    """Examples of a row's places."""
    name = pattern.replace("*", "1")
    if pattern.startswith("~"):
        return [
            f"/home/ada{name[1:]}",
            f"/home/ada{name[1:]}/inside/it",
            f"/root{name[1:]}",
            f"/Users/bob{name[1:]}",
        ]
    return (
        [name] if pattern.startswith("/") else [f"/home/ada/{name}", f"{PROJECT}/deep/{name}", f"/srv/{name}"]
    )


@pytest.mark.parametrize("row", SECRET, ids=lambda row: row.pattern)
@pytest.mark.parametrize("writes", [False, True], ids=["read", "write"])
def test_every_row_of_the_table_closes_its_places(row: Row, writes: bool) -> None:
    for path in paths_of(row.pattern):
        assert places().judge(path, writes=writes).level == "never", path


def test_the_table_is_consistent() -> None:
    """Lower case, each row once and with a reason."""
    patterns = [row.pattern for row in SECRET]
    assert len(set(patterns)) == len(patterns)
    assert all(row.pattern == row.pattern.lower() and row.reason for row in SECRET)
    assert all(row.pattern.replace("_", "").isalpha() for row in VARIABLES)
    assert {pattern.lower() for pattern in SPELLED} <= set(patterns)
    assert all(pattern != pattern.lower() for pattern in SPELLED)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PROJECT, "free"),
        (f"{PROJECT}/src/app.py", "free"),
        (f"{PROJECT}/.env.example", "free"),
        (f"{PROJECT}/.github/workflows/ci.yml", "free"),
        (f"{PROJECT}/.newel/prompts/review.md", "free"),
        (f"{PROJECT}/.npm/x", "free"),
        (f"{PROJECT}/keyboard.py", "free"),
        (f"{PROJECT}/id_rsa.pub", "free"),
        (f"{PROJECT}/.env", "ask"),
        (f"{PROJECT}/api/.env.local", "ask"),
        (f"{PROJECT}/server.pem", "ask"),
        ("/home/ada/shop2/app.py", "ask"),
        ("/home/ada", "ask"),
        ("/", "ask"),
        ("/etc/passwd", "ask"),
        ("/etc/shadow.d", "ask"),
        ("/home/ada/.sshfs/x", "ask"),
        ("/home/ada/.docker/daemon.json", "ask"),
        ("/proc/self/status", "ask"),
        ("/proc/17/task/18/environ", "never"),
        ("/PROC/1/ENVIRON", "never"),
        ("/home/ada/.SSH/config", "never"),
        ("/private/etc/master.passwd", "never"),
    ],
)
def test_paths_are_classified_by_place(path: str, expected: str) -> None:
    assert level(path) == expected


@pytest.mark.parametrize(
    ("rule", "path", "writes", "expected"),
    [
        ("read(~/.ssh/known_hosts)", "/home/ada/.ssh/known_hosts", False, "free"),
        ("read(~/.ssh/known_hosts)", "/home/ada/.ssh/known_hosts", True, "never"),
        ("read(~/.ssh/known_hosts)", "/home/ada/.ssh/known_hosts2", False, "never"),
        ("write(~/.ssh/known_hosts)", "/home/ada/.ssh/known_hosts", True, "free"),
        ("write(~/.ssh/known_hosts)", "/home/ada/.ssh/known_hosts", False, "free"),
        ("read(~/.ssh/*.pub)", "/home/ada/.ssh/me.pub", False, "free"),
        ("read(~/.ssh/*.pub)", "/home/ada/.ssh/deep/me.pub", False, "never"),
        ("read(~/.kube)", "/home/ada/.kube/config", False, "free"),
        ("read(**/id_rsa)", f"{PROJECT}/fixtures/id_rsa", False, "free"),
        ("read(**/.env)", f"{PROJECT}/.env", False, "free"),
        ("read(/usr/include/**)", "/usr/include/stdio.h", False, "free"),
        ("read(/usr/include/**)", "/usr/included", False, "ask"),
        ("read(/home/ada/docs)", "/home/ada/docs/a/b", False, "free"),
        ("read(~/a.b)", "/home/ada/axb", False, "ask"),
    ],
)
def test_a_rule_allows_exactly_what_it_names(rule: str, path: str, writes: bool, expected: str) -> None:
    assert level(path, rule, writes=writes) == expected


@given(st.text(max_size=40))
def test_an_invalid_rule_is_refused_without_side_effects(text: str) -> None:
    try:
        rule = parse_rule(text)
    except ConfigError:
        return
    if not isinstance(rule, PathRule):
        assert level("/home/ada/.ssh/id_rsa", text) == "never"


def test_in_a_home_that_is_the_project_the_secret_places_stay_closed() -> None:
    home = SecretPaths("/home/ada", home="/home/ada")
    assert home.judge("/home/ada/.ssh/config").level == "never"
    assert home.judge("/home/ada/.newel/config.toml").level == "never"
    assert home.judge("/home/ada/notes.txt").level == "free"


@pytest.mark.parametrize(
    ("path", "reading", "writing"),
    [
        ("/home/ada/.claude/skills/pdf/forms.md", "free", "ask"),
        ("/home/ada/.newel/skills/pdf/forms.md", "free", "never"),
        ("/home/ada/.newel/skills/pdf/id_rsa", "never", "never"),
        ("/home/ada/.claude/skills/pdf/.env", "ask", "ask"),
        ("/home/ada/.newel/sessions/x.jsonl", "never", "never"),
        ("/home/ada/.newel/skills2/x.md", "never", "never"),
        ("/home/ada/.claude/history.jsonl", "ask", "ask"),
    ],
)
def test_the_users_skills_can_be_read_and_nothing_beside_them(path: str, reading: str, writing: str) -> None:
    own = "/home/ada/.newel"
    skills = [f"{own}/skills", "/home/ada/.claude/skills"]
    judging = SecretPaths(PROJECT, home="/home/ada", newel=own, skills=skills)
    assert (judging.judge(path).level, judging.judge(path, writes=True).level) == (reading, writing)


def test_a_reviews_copy_is_judged_like_its_project() -> None:
    copy = places(root="/home/ada/.newel/copies/shop-1")
    assert copy.judge("/home/ada/.newel/copies/shop-1/src/app.py").level == "free"
    assert copy.judge("/home/ada/.newel/copies/shop-1/.env").level == "ask"
    assert copy.judge("/home/ada/.newel/copies/other/src/app.py").level == "never"
    assert copy.judge(f"{PROJECT}/src/app.py").level == "free"


def test_a_worktree_in_newels_home_is_a_project() -> None:
    here = SecretPaths("/home/ada/.newel/worktrees/a", home="/home/ada")
    assert here.judge("/home/ada/.newel/worktrees/a/src/app.py").level == "free"
    assert here.judge("/home/ada/.newel/worktrees/b/src/app.py").level == "never"
    assert here.judge("/home/ada/.newel/config.toml").level == "never"


def test_linked_or_moved_places_are_closed_at_their_real_paths(
    tmp_path: Path,
) -> None:
    home, vault = tmp_path / "home", tmp_path / "vault"
    for folder in (home, vault / "ssh", vault / "gnupg", tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
    (home / ".ssh").symlink_to(vault / "ssh")
    environ = {
        "GNUPGHOME": str(vault / "gnupg"),
        "KUBECONFIG": f"{vault}/a:{vault}/b",
        "HISTFILE": "relative",
    }
    judge = SecretPaths(
        str(tmp_path / "project"),
        home=str(home),
        newel=str(tmp_path / "elsewhere"),
        environ=environ,
        rules=lambda: RuleSet(allow=(PathRule("read", "~/.ssh/known_hosts"),)),
    ).judge
    for closed in ("vault/ssh/work", "vault/gnupg/x", "vault/a", "vault/b", "elsewhere/config.toml"):
        assert judge(os.path.realpath(tmp_path / closed)).level == "never", closed
    assert judge(os.path.realpath(vault / "ssh" / "known_hosts")).level == "free"
    assert judge(os.path.realpath(vault / "other")).level == "ask"


def test_the_documentation_has_every_row_of_the_tables() -> None:
    told = (Path(__file__).parents[3] / "docs" / "permissions.md").read_text()
    for row in (*SECRET, *PRIVATE, *VARIABLES):
        assert f"`{row.pattern}`" in told, row.pattern


@pytest.mark.parametrize("name", ["src", "deep/src", "src/deep"])
@pytest.mark.parametrize("pattern", ["{name}/**", "{project}/{name}/**", "~/shop/{name}/**"])
def test_no_link_of_a_project_widens_a_rule_that_allows(tmp_path: Path, name: str, pattern: str) -> None:
    """Else "always edits in src/" opens the keys of a user who clones a repository whose `src` is a link to `~/.ssh`."""
    home = Path(os.path.realpath(tmp_path))
    project = home / "shop"
    (home / ".ssh").mkdir()
    (project / name).parent.mkdir(parents=True)
    (project / name).symlink_to(home / ".ssh")
    rule = f"write({pattern.format(name=name, project=project)})"
    rules = RuleSet(allow=(parse_rule(rule),))
    judged = SecretPaths(str(project), home=str(home), environ={}, rules=lambda: rules)
    for writes in (False, True):
        assert judged.judge(f"{home}/.ssh/id_ed25519", writes=writes).level == "never"


def test_a_rule_about_another_repository_is_not_widened_by_a_link_in_there(tmp_path: Path) -> None:
    """A command that worked there may have made it."""
    home = Path(os.path.realpath(tmp_path))
    (home / "other/.git").mkdir(parents=True)
    (home / ".ssh").mkdir()
    (home / "other/docs").symlink_to(home / ".ssh")
    rules = RuleSet(allow=(parse_rule("read(~/other/docs/**)"),))
    judged = SecretPaths(f"{home}/shop", home=str(home), environ={}, rules=lambda: rules)
    assert judged.judge(f"{home}/.ssh/id_ed25519").level == "never"


def test_a_link_of_the_users_own_and_one_that_a_rule_denies_are_followed(tmp_path: Path) -> None:
    home = Path(os.path.realpath(tmp_path))
    project = home / "shop"
    for folder in (project / "src", home / ".git", home / "data"):
        folder.mkdir(parents=True)
    (home / "notes").symlink_to(home / "data")
    (project / "vault").symlink_to("src")
    rules = RuleSet(
        allow=(parse_rule("write(~/notes/**)"), parse_rule("write(src/**)")),
        deny=(parse_rule("read(vault/key)"),),
    )
    judged = SecretPaths(str(project), home=str(home), environ={}, rules=lambda: rules)
    assert judged.allows_changes(f"{home}/data/a.txt")
    assert judged.allows_changes(f"{project}/src/a.txt")
    assert judged.judge(f"{project}/src/key").level == "never"


@pytest.mark.parametrize("name", ["BraveSoftware/Cookies", "1Password/x", "gh/hosts.yml"])
def test_places_are_found_as_programs_spell_them_also_where_settings_are_elsewhere(
    tmp_path: Path, name: str
) -> None:
    """With the home folder as its project, the sandbox shows, and Newel records, what is not found."""
    home, elsewhere = (Path(os.path.realpath(tmp_path), each) for each in ("home", "elsewhere"))
    for place in (home / ".config", elsewhere):
        (place / name).parent.mkdir(parents=True)
        (place / name).write_text("secret\n")
    folder = name.partition("/")[0]
    assert f"{home}/.config/{folder}" in existing_secret_places(str(home), str(home / ".newel"))
    environ = {"XDG_CONFIG_HOME": str(elsewhere)}
    assert existing_moved_places(environ, [str(home)], [str(home)]) == [f"{elsewhere}/{folder}"]
