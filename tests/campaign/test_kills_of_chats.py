"""If these fail, the workbench loses what it has acknowledged, or runs a command again, when it is killed."""

from __future__ import annotations

import random
import time
from pathlib import Path

from mock_llm_server import running
from newel.session.reader import read_session
from tests.campaign.scene import Found, Scene
from tests.campaign.tally import CampaignTally
from tests.campaign.test_kills import share
from tests.served import served
from tests.support import Newel, bash, scenario

LIVES = 4
"""How often the server of one project is killed."""

NOTES = scenario("note", bash("echo '{{ user }}' >> notes; sleep 0.05"), {"content": "Noted."})


def live(newel: Newel, tab: str, words: list[str], seconds: float) -> str:
    """Start the server, send messages, and kill it; returns the tab."""
    with served(newel) as server, server.page() as page:
        tab = tab or page.ask("openChat")["tab"]
        for each in words:
            page.ask("send", tab=tab, messageId=each, text=f"note {each}")
        time.sleep(seconds)
        server.kill()
    return tab


def problems(newel: Newel, acknowledged: list[str]) -> Found:
    with served(newel) as server, server.page() as page:
        page.until_tabs(lambda tabs: tabs[0]["status"] != "running")
    (path,) = newel.sessions
    stored = read_session(path)
    found: Found = [("lost", f"the session is damaged: {stored.damage}")] if stored.damage else []
    said = [each.id for each in stored.history.active() if each.__struct_config__.tag == "user"]
    if said != acknowledged:
        found.append(("lost", f"{acknowledged} were acknowledged, {said} are in the session"))
    file = newel.project / "notes"
    notes = file.read_text().splitlines() if file.exists() else []
    return found + [("twice", f"{notes}")] * (len(notes) != len(set(notes)))


def test_chats(tmp_path: Path, tally: CampaignTally, dice: random.Random, kills: int) -> None:
    row, ran = tally.row("kill -9: `newel web` in chats"), 0
    with running(NOTES, strict=True) as model:
        for number in range(max(1, share(kills, 11) // LIVES)):
            scene = Scene(tmp_path / f"{number}", model, number)
            acknowledged: list[str] = []
            tab = ""
            for life in range(LIVES):
                words = [f"m{len(acknowledged) + more}" for more in range(2)]
                moment = dice.uniform(0, 0.4)
                with tally.attempt(row, f"project {number}, life {life}, {moment:.3f} s") as found:
                    tab = live(scene.newel, tab, words, moment)
                    acknowledged += words
                    found.extend(scene.orphans())
                    if life == LIVES - 1:
                        found.extend(problems(scene.newel, acknowledged) + scene.litter())
            notes = scene.newel.project / "notes"
            ran += len(notes.read_text().splitlines()) if notes.exists() else 0
    row.note = f"{ran} commands ran, {row.tried * 2} messages"
