"""If these fail, a user's own command says something else to the model than they wrote."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newel.agent.errors import WorkspaceError
from newel.context.file_reader import WorkspaceFolder
from newel.context.prompt_templates import MAX_TEMPLATES, Template, load_templates
from newel.workspace.local import LocalWorkspace


def template(body: str) -> Template:
    return Template("t", "", body, "t.md")


def load_from(*folders: Path) -> dict[str, Template]:
    machine = LocalWorkspace("/")
    return anyio.run(load_templates, [WorkspaceFolder(machine, str(folder)) for folder in folders])


def test_a_file_is_a_command_and_a_project_cannot_override_the_users(tmp_path: Path) -> None:
    project, user = tmp_path / "project", tmp_path / "user"
    project.mkdir()
    user.mkdir()
    (project / "review.md").write_text("---\ndescription: 'Look closely'\n---\n\nReview $1.\n")
    (user / "review.md").write_text("The user's.")
    (user / "commit.md").write_text("# Write a commit message\n\nfor the staged changes")
    found = load_from(user, project, tmp_path / "missing")
    assert list(found) == ["commit", "project.review", "review"]
    theirs = Template("project.review", "Look closely", "Review $1.", str(project / "review.md"))
    assert found["project.review"] == theirs
    assert found["review"].body == "The user's."
    assert found["review"].description == "The user's. (the project's own: /project.review)"
    assert found["commit"].description == "Write a commit message"


@pytest.mark.parametrize(
    ("text", "description", "body"),
    [
        ("---\r\ndescription: Windows\r\n---\r\nBody\r\n", "Windows", "Body"),
        ("---\nname: x\n---\nBody", "Body", "Body"),
        ("---\nno end of this", "---", "---\nno end of this"),
        ("---\ndescription: only\n---", "only", ""),
        ("before\n---\ndescription: no\n---\n", "before", "before\n---\ndescription: no\n---"),
        ("\ufeff---\ndescription: mark\n---\nBody", "mark", "Body"),
        ("", "", ""),
    ],
)
def test_front_matter_is_optional(tmp_path: Path, text: str, description: str, body: str) -> None:
    (tmp_path / "t.md").write_bytes(text.encode())
    found = load_from(tmp_path)["t"]
    assert (found.description, found.body) == (description, body)


def test_invalid_templates_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("good")
    (tmp_path / "notes.txt").write_text("no")
    (tmp_path / "two words.md").write_text("no")
    (tmp_path / ".hidden.md").write_text("no")
    (tmp_path / "binary.md").write_bytes(b"\0\0")
    (tmp_path / "huge.md").write_text("x" * 300_000)
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "loop.md").symlink_to(tmp_path / "loop.md")
    os.mkfifo(tmp_path / "pipe.md")
    assert list(load_from(tmp_path)) == ["good"]


def test_a_cloned_project_cannot_send_a_file_of_the_user_by_a_link(tmp_path: Path) -> None:
    """Also if its whole folder is a link. Within a repository, links may lead anywhere."""
    key, shop = tmp_path / "id_rsa", tmp_path / "shop"
    key.write_text("PRIVATE KEY")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "diary.md").write_text("DEAR DIARY")
    for folder in ("api/.newel/prompts", "web/.newel", ".git"):
        (shop / folder).mkdir(parents=True)
    (shop / "review.md").write_text("Review.")
    (shop / "api/.newel/prompts/inside.md").symlink_to("../../../review.md")
    (shop / "api/.newel/prompts/outside.md").symlink_to(key)
    (shop / "web/.newel/prompts").symlink_to(tmp_path / "notes")

    def loaded(name: str) -> dict[str, Template]:
        project = LocalWorkspace(str(shop / name))
        return anyio.run(load_templates, [WorkspaceFolder(project, f"{project.root}/.newel/prompts")])

    api, web = loaded("api"), loaded("web")
    assert api["inside"].expand() == "Review."
    for refused in (api["outside"], web["diary"]):
        assert refused.body == ""
        assert "outside the project" in refused.description
        with pytest.raises(
            WorkspaceError, match=f"{refused.name}.md is a link to a file outside the project"
        ):
            refused.expand("now")


def test_the_users_own_templates_may_be_links(tmp_path: Path) -> None:
    """Users keep them with other settings."""
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings" / "mine.md").write_text("Mine.")
    (tmp_path / "prompts").symlink_to("settings")
    assert load_from(tmp_path / "prompts")["mine"].expand() == "Mine."


def test_thousands_of_templates_do_not_delay_the_start(tmp_path: Path) -> None:
    for number in range(MAX_TEMPLATES + 20):
        (tmp_path / f"a{number:04}.md").touch()
        (tmp_path / f"0{number:04}.txt").touch()
    assert list(load_from(tmp_path)) == [f"a{number:04}" for number in range(MAX_TEMPLATES)]


@pytest.mark.parametrize(
    ("body", "arguments", "prompt"),
    [
        ("Fix $1 in $2.", "a b", "Fix a in b."),
        ("Fix $1 in $2.", "a", "Fix a in ."),
        ("Fix $1.", "'two words' more", "Fix two words."),
        ("All: $@", "'two words'  more", "All: two words more"),
        ("Raw: $ARGUMENTS", " 'two words'  more ", "Raw: 'two words'  more"),
        ("Fix $1.", "it's here", "Fix it's."),
        ("$10 then $1", "a b c d e f g h i j", "j then a"),
        ("It costs $100, \\$1 each; $HOME $0", "", "It costs $100, $1 each; $HOME $0"),
        ("$1", "'$2 $ARGUMENTS' secret", "$2 $ARGUMENTS"),
        ("Write a commit message.\n", "be brief", "Write a commit message.\n\nbe brief"),
        ("Print \\$1.", "be brief", "Print $1.\n\nbe brief"),
        ("No words.", "", "No words."),
    ],
)
def test_arguments_are_inserted_at_their_placeholders(body: str, arguments: str, prompt: str) -> None:
    assert template(body).expand(arguments) == prompt


@given(st.text(), st.text())
def test_a_template_expands_with_any_arguments(body: str, arguments: str) -> None:
    assert arguments.strip() in template(f"{body} $ARGUMENTS").expand(arguments)
    template(body).expand(arguments)
