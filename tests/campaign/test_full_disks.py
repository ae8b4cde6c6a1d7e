"""If these fail, a full disk costs the user files, a conversation, or an undo without a word."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mock_llm_server import running
from tests.campaign.scene import CHAT, OLD, Found, Scene
from tests.campaign.tally import CampaignTally
from tests.campaign.test_system_faults import ANNOUNCED
from tests.faults.test_full_disk import MOUNTS, needs_mounts

pytestmark = needs_mounts

NEWEL, PROJECT = "home/.newel", "project"
DISKS = {
    **{
        f"{size} for Newel's folder": ((NEWEL, size),)
        for size in ("4k", "16k", "64k", "150k", "200k", "280k")
    },
    **{f"{size} for the project": ((PROJECT, size),) for size in ("16k", "20k", "24k")},
    "both": ((NEWEL, "150k"), (PROJECT, "20k")),
    "Newel's folder, in review": ((NEWEL, "100k"),),
}
FULL = ("disk is full", "No space left", "Not enough space")

SCRIPT = """
mount_all() { for disk in $DISKS; do
  mkdir -p "$FOLDER/${disk%=*}"; mount -t tmpfs -o "$1size=${disk#*=}" none "$FOLDER/${disk%=*}"
done; }
mount_all "" || exit 9
cp -a "$FOLDER/saved/." "$FOLDER/project" || exit 9
cd "$FOLDER/project"
newel --approve "$APPROVE" "$PROMPT" > "$FOLDER/run" 2>&1; echo $? >> "$FOLDER/run"
cp -a . "$FOLDER/after-run"
DISKS=$(echo "$DISKS" | sed 's/=[0-9]*k/=64m/g'); mount_all remount,
newel "go on" > "$FOLDER/later" 2>&1 || echo "the next run failed" >> "$FOLDER/later"
[ "$APPROVE" = auto ] || newel keep --all --yes >> "$FOLDER/later" 2>&1
for point in $(newel checkpoints --json | tr ',{' '\\n\\n' | sed -n 's/.*"checkpoint_id": *"\\([^"]*\\)".*/\\1/p'); do
  newel undo "$point" --yes >> "$FOLDER/later" 2>&1
done
cp -a . "$FOLDER/after-undo"
"""


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def run(scene: Scene, name: str) -> tuple[Found, bool, bool]:
    """Run on small disks, and again with room; returns what is wrong, whether the undo was exact, and
    whether a disk was full.
    """
    folder = scene.folder
    scene.newel.project.rename(folder / "saved")
    scene.newel.project.mkdir()
    environ = {
        "FOLDER": str(folder),
        "PROMPT": scene.prompt,
        "APPROVE": "review" if "review" in name else "auto",
        "DISKS": " ".join(f"{path}={size}" for path, size in DISKS[name]),
    }
    done = subprocess.run(
        [*MOUNTS, "sh", "-c", SCRIPT],
        env=scene.newel.environ | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = (folder / "run").read_text() + str(scene.requests[-1:])
    later = (folder / "later").read_text()
    ran, undone = contents(folder / "after-run"), contents(folder / "after-undo")
    found: Found = [("torn", f"{each}: {ran.get(each)!r:.60}") for each in scene.torn_in(ran)]
    found += [("lost", text[-1500:]) for text in (said, later) if "Traceback" in text]
    if "the next run failed" in later:
        found.append(("lost", later))
    exact = undone == OLD
    if not exact and not any(words in said for words in ANNOUNCED):
        found.append(
            ("lost", f"the undo is not exact, and nothing said so: {sorted(undone)}\n{said}\n{later}")
        )
    return found + scene.orphans(), exact, any(words in said for words in FULL)


def test_full_disks(tmp_path: Path, tally: CampaignTally) -> None:
    row, exact = tally.row("full disk"), 0
    full = 0
    with running(CHAT, strict=True) as server:
        for number, name in enumerate(DISKS):
            scene = Scene(tmp_path / f"{number}", server, number)
            with tally.attempt(row, name) as found:
                problems, was_exact, was_full = run(scene, name)
                full += was_full
                exact += was_exact
                found.extend(problems)
    assert full >= len(DISKS) // 2, full
    row.note = f"{full} were full; {exact} undone exactly, {row.tried - exact} said that they are not"
