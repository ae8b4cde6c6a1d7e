"""If these fail, an agent that works on a host knows less, or something else, of the project than one beside the files."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from PIL import Image

from newel.agent.errors import HostUnavailable
from newel.context.attachments import AttachableFiles
from newel.context.file_reader import WorkspaceFolder
from newel.context.instructions import find_instructions
from newel.context.mentions import Expansion, expand_mentions
from newel.context.prompt_templates import load_templates
from newel.workspace.local import LocalWorkspace
from newel.workspace.ssh.target import Target
from tests.opened_host import open_host
from tests.sshd import Sshd, served

pytestmark = pytest.mark.anyio

PROMPT = """\
Look at @src/app.py, @"two words.txt", @src/ and @../README.md.
@none.py, @loop and @pipe are not there; a.bin.png is no image, shot.png is, ~nobody/x.png is not.
"""


def told(expanded: Expansion) -> tuple[object, ...]:
    """Everything but the ids of the attachments."""
    attachments = [msgspec.structs.replace(attachment, id="") for attachment in expanded.attachments]
    return expanded.text, attachments, expanded.notes


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of a repository with all that a project may contain."""
    whole = tmp_path / "shop"
    here = whole / "api" / "v1"
    (here / "src").mkdir(parents=True)
    (whole / ".git").write_text("gitdir: elsewhere")
    (whole / "AGENTS.md").write_text("Use tabs.\n" * 4_000)
    (whole / "api" / "AGENTS.md").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("PRIVATE KEY")
    (here / "AGENTS.md").symlink_to("loop")
    (here / "loop").symlink_to("loop")
    os.mkfifo(here / "pipe")
    (here / "src" / "app.py").write_text("print('app')\n")
    (here / "src" / "lib").mkdir()
    (here / "src" / "link").symlink_to("lib")
    (here / "src" / os.fsdecode(b"bad\xff")).touch()
    (here / "two words.txt").write_text("two")
    (whole / "api" / "README.md").write_text("# Shop\n")
    (here / "a.bin.png").write_bytes(b"\0\1\2")
    Image.effect_noise((900, 900), 80).save(here / "shot.png")
    prompts = here / ".newel" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "review.md").write_text("---\ndescription: Look closely\n---\nReview $1.\n")
    (prompts / "linked.md").symlink_to("review.md")
    (prompts / "loop.md").symlink_to("loop.md")
    (prompts / "stolen.md").symlink_to(tmp_path / "secret")
    (prompts / "folder.md").mkdir()
    (prompts / "huge.md").write_text("x" * 300_000)
    return here


async def test_a_projects_context_is_the_same_over_ssh(project: Path, tmp_path: Path, sshd: Sshd) -> None:
    (tmp_path / "AGENTS.md").write_text("Answer in French.")
    near = LocalWorkspace(str(project))
    home = WorkspaceFolder(LocalWorkspace("/"), str(tmp_path))
    async with open_host(Target("own", path=str(project)), config=str(sshd.config)) as far:
        said = await find_instructions(far, home=home)
        assert said == await find_instructions(near, home=home)
        templates = await load_templates([WorkspaceFolder(far, f"{far.root}/.newel/prompts")])
        assert templates == await load_templates([WorkspaceFolder(near, f"{near.root}/.newel/prompts")])
        expanded = await expand_mentions(PROMPT, AttachableFiles(far))
        assert told(expanded) == told(await expand_mentions(PROMPT, AttachableFiles(near)))
    assert [(each.text[:9], bool(each.cut), bool(each.problem)) for each in said] == [
        ("Answer in", False, False),
        ("Use tabs.", True, False),
        ("", False, True),
        ("", False, True),
    ]
    problems = {name: bool(template.problem) for name, template in templates.items()}
    assert problems == {"linked": False, "review": False, "stolen": True}
    names = [attachment.file_name for attachment in expanded.attachments]
    assert names == ["app.py", "two words.txt", "src", "README.md", "shot.png"]


async def test_a_lost_host_is_reported_and_no_instruction_is_skipped(project: Path) -> None:
    with served() as server:
        target = Target("own", path=str(project))
        async with open_host(target, config=str(server.config), reconnect_timeout=0.2) as far:
            server.stop()
            expanded = await expand_mentions(PROMPT, AttachableFiles(far))
            with pytest.raises(HostUnavailable):
                await find_instructions(far, home=None)
            with pytest.raises(HostUnavailable):
                await load_templates([WorkspaceFolder(far, far.root)])
    assert (expanded.text, expanded.attachments) == (PROMPT, [])
    [note] = expanded.notes
    assert "Not all files that the prompt names were attached." in note
