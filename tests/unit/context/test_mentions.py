"""If these fail, a file that the user named does not reach the model, or one they did not name does."""

from __future__ import annotations

import base64
import io
import os
import tempfile
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from newel.agent.errors import WorkspaceError
from newel.agent.messages import Attachment
from newel.context.attachments import MAX_ENTRIES, AttachableFiles, load_attachment
from newel.context.mentions import MAX_ATTACHMENTS, Expansion, expand_mentions
from newel.workspace.local import LocalWorkspace

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("print('app')\n")
    (tmp_path / "two words.txt").write_text("two")
    (tmp_path / "shot.png").write_bytes(PNG)
    (tmp_path / "my shot.PNG").write_bytes(PNG)
    return tmp_path


def expanded(text: str, folder: Path) -> Expansion:
    return anyio.run(expand_mentions, text, AttachableFiles(LocalWorkspace(str(folder))))


def attached(path: Path) -> Attachment:
    return anyio.run(load_attachment, LocalWorkspace("/"), str(path))


def names(text: str, folder: Path) -> list[str]:
    return [attachment.file_name for attachment in expanded(text, folder).attachments]


def test_a_mentioned_file_is_attached_and_the_prompt_names_it(folder: Path) -> None:
    text, [attachment], notes = expanded("Look at @src/app.py, please.", folder)
    assert text == "Look at src/app.py, please."
    assert attachment.type == "document"
    assert attachment.extracted_text == "Content of the file src/app.py:\nprint('app')\n"
    assert base64.b64decode(attachment.content) == b"print('app')\n"
    assert attachment.size == 13
    assert notes == []


def test_a_long_text_that_only_looks_like_names_of_images_is_read_at_once(folder: Path) -> None:
    assert names("see shot.png " + "<tool_call>" * 20_000, folder) == ["shot.png"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('@"two words.txt"', ["two words.txt"]),
        ("(@src/app.py)!", ["app.py"]),
        ("@src/app.py?!", ["app.py"]),
        ("**@src/app.py**", ["app.py"]),
        ("@src/app.py....................", ["app.py"]),
        ("@src", ["src"]),
        ("@src/", ["src"]),
        ("@src/app.py and @./src/app.py", ["app.py"]),
        ("@src/app.py:1", ["app.py"]),
        ("@src/app.py:1-9, @src/app.py:1:5", ["app.py"]),
        ("(@src/app.py#L1-L9).", ["app.py"]),
        ("@src/app.py#1-9", ["app.py"]),
        ("@two\\ words.txt", ["two words.txt"]),
        ("@localhost:80", []),
        ("@shot.png", ["shot.png"]),
        ("what is in shot.png?", ["shot.png"]),
        ("what is in (shot.png).", ["shot.png"]),
        ("see 'my shot.PNG' and \"shot.png\"", ["my shot.PNG", "shot.png"]),
        ("see my\\ shot.PNG", ["my shot.PNG"]),
        ('"look at shot.png, please"', ["shot.png"]),
        ("it's shot.png, isn't it", ["shot.png"]),
        ("shot.png.bak and shot.pngx", []),
        ("mail me@src and src/app.py", []),
        ("@property", []),
        ("a @ b, @, @... and @", []),
    ],
)
def test_words_that_are_mentions(folder: Path, text: str, expected: list[str]) -> None:
    result = expanded(text, folder)
    assert [attachment.file_name for attachment in result.attachments] == expected
    assert result.notes == []


def test_the_model_learns_which_lines_are_meant(folder: Path) -> None:
    """Else it reads of the whole file, though the user has pointed at a line, as compilers and other agents write it."""
    assert expanded("fix @src/app.py:1-9", folder).text == "fix src/app.py:1-9"
    (folder / "log:7").touch()
    assert names("@log:7", folder) == ["log:7"]
    assert expanded("@src/gone.py:7", folder).notes == [
        "@src/gone.py was not attached: there is no such file."
    ]


def test_absolute_paths_and_files_elsewhere_can_be_mentioned(folder: Path) -> None:
    assert names(f"@{folder}/src/app.py", Path("/")) == ["app.py"]
    assert names("@../shot.png", folder / "src") == ["shot.png"]
    assert names("see ../shot.png and @../src/app.py/", folder / "src") == ["app.py", "shot.png"]


def test_a_file_of_the_home_can_be_mentioned_from_anywhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    result = expanded("@~/src/app.py and ~/shot.png", folder / "src")
    assert result.text == "~/src/app.py and ~/shot.png"
    assert [attachment.file_name for attachment in result.attachments] == ["app.py", "shot.png"]


def test_two_names_of_a_file_attach_it_once(folder: Path) -> None:
    (folder / "link.png").symlink_to("shot.png")
    assert names("@link.png, shot.png and src/../shot.png", folder) == ["shot.png"]


@pytest.mark.parametrize(
    "text", ["@src/none.py", "see @none.md.", '@"no such"', "@~nobody-of-this-name/x.py"]
)
def test_a_missing_file_leaves_the_text_unchanged_and_is_reported(folder: Path, text: str) -> None:
    result = expanded(text, folder)
    assert result.text == text
    assert result.attachments == []
    assert ["there is no such file" in note for note in result.notes] == [True]


def test_a_folder_is_attached_as_its_listing(folder: Path) -> None:
    [attachment] = expanded("@.", folder).attachments
    assert attachment.extracted_text == "Entries of the folder .:\nmy shot.PNG\nshot.png\nsrc/\ntwo words.txt"


def test_the_listing_of_a_large_folder_is_cut_and_says_so(tmp_path: Path) -> None:
    for number in range(MAX_ENTRIES + 12):
        (tmp_path / f"{number:04}").touch()
    text = attached(tmp_path).extracted_text or ""
    assert text.count("\n") == MAX_ENTRIES + 1
    assert text.endswith("0499\n[12 more entries are omitted.]")


def test_a_name_that_is_not_text_can_be_listed(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"bad\xff")).touch()
    assert "bad?" in (attached(tmp_path).extracted_text or "")


def test_an_image_is_recognized_by_its_bytes_and_not_by_its_name(folder: Path) -> None:
    (folder / "text.png").write_text("not an image")
    image = attached(folder / "shot.png")
    assert (image.type, image.mime_type, image.size) == ("image", "image/png", len(PNG))
    assert base64.b64decode(image.content) == PNG
    assert names("see text.png", folder) == []
    assert names("see @text.png", folder) == ["text.png"]


@pytest.mark.parametrize("kind", ["jpeg", "gif", "webp"])
def test_other_image_formats_are_converted(tmp_path: Path, kind: str) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "x", kind)
    assert attached(tmp_path / "x").mime_type == f"image/{kind}"


def test_an_image_too_large_for_a_model_is_scaled_down(tmp_path: Path) -> None:
    Image.new("RGB", (4_000, 1_000)).save(tmp_path / "wide.png")
    attachment = attached(tmp_path / "wide.png")
    assert Image.open(io.BytesIO(base64.b64decode(attachment.content))).size == (2_000, 500)
    assert attachment.size == (tmp_path / "wide.png").stat().st_size


def test_a_large_text_is_cut_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a line of the log\n" * 20_000)
    attachment = attached(tmp_path / "log")
    text = attachment.extracted_text or ""
    assert len(text) < 263_000
    assert "a line of the log\n\n[Truncated: the last" in text
    assert "of 360,000 bytes are omitted" in text
    assert attachment.size == 360_000


def test_unsupported_files_are_refused_with_a_message(folder: Path) -> None:
    (folder / "a.bin").write_bytes(b"\0\1\2")
    with (folder / "big.png").open("wb") as file:
        file.write(PNG)
        file.truncate(21 * 1024 * 1024)
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 nothing more")
    os.mkfifo(folder / "pipe")
    with pytest.raises(WorkspaceError, match="cannot be decoded"):
        attached(folder / "broken.jpg")
    with pytest.raises(WorkspaceError, match="neither text nor an image"):
        attached(folder / "a.bin")
    with pytest.raises(WorkspaceError, match="Make it smaller"):
        attached(folder / "big.png")
    with pytest.raises(WorkspaceError, match="not a regular file"):
        attached(folder / "pipe")
    with pytest.raises(WorkspaceError, match="No such file"):
        attached(folder / "none")
    text, attachments, notes = expanded("@a.bin big.png @pipe", folder)
    assert (text, attachments, len(notes)) == ("@a.bin big.png @pipe", [], 3)


def test_a_prompt_attaches_a_limited_number_of_files(tmp_path: Path) -> None:
    for number in range(MAX_ATTACHMENTS + 3):
        (tmp_path / f"{number}.md").write_text("x")
    result = expanded(" ".join(f"@{number}.md" for number in range(MAX_ATTACHMENTS + 3)), tmp_path)
    assert len(result.attachments) == MAX_ATTACHMENTS
    assert f" {MAX_ATTACHMENTS - 1}.md @{MAX_ATTACHMENTS}.md @" in result.text
    [note] = result.notes
    assert f"{MAX_ATTACHMENTS}.md and the files named after it were not attached" in note


@given(
    st.lists(
        st.sampled_from(["@", '"', "'", "\\", " ", ".png", "x", "(", ")", "/", "~", "\0", "\ud800", "\n"])
    ).map("".join)
)
def test_any_prompt_is_handled(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = expanded(text, Path(folder))
    assert result.text.replace("@", "") == text.replace("@", "")  # only the marks are removed
    assert len(text) - len(result.text) >= len(result.attachments)


def test_a_forbidden_link_is_a_note(tmp_path: Path) -> None:
    """Such as another user's process in /proc."""
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "link").symlink_to(tmp_path)
    if os.geteuid() == 0 and not os.path.exists("/proc/1/root"):  # noqa: PTH110 — Path raises what is asked about
        name = "/proc/1/root/etc/hosts"
    elif os.geteuid() != 0:
        closed.chmod(0)
        name = str(closed / "link" / "x.txt")
    else:
        pytest.skip("root may look at everything here")
    try:
        assert expanded(f"@{name}", tmp_path).attachments == []
    finally:
        closed.chmod(0o755)
