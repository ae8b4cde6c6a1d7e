"""Reports the user's decisions about an agent's changes to its model, in a message before the next prompt.

They are read from the ledger, so it makes no difference in which process the user decided, or what was killed in between. The id
of the message has the position up to which the ledger was read, so that each decision is reported once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from newel.agent.formatting import pluralize
from newel.agent.messages import AppMessage, UserMessage, new_id
from newel.diff.patience import diff
from newel.review.model.file_review import root_of, stems_from
from newel.review.undo_order import UndoOrder

if TYPE_CHECKING:
    from newel.review.model.history import HistoryEntry
    from newel.review.store.ledger import Checkpoint, Ledger
    from newel.session.message_tree import TreeEntry

_ID: Final = r"decided_(?P<n>\d+)_[0-9a-f]+"

MAX_EDIT: Final = 2000
"""Characters of the user's edits of a file that the model gets; it reads the file for the rest."""

MOST_NAMED: Final = 50
"""Files in a list for the model."""

KINDS: Final = ("rollback", "save", "reject")


def undo_notice(
    ledger: Ledger, session: str, messages: Sequence[AppMessage], tree: Sequence[TreeEntry] = ()
) -> UserMessage | None:
    """The decisions about the runs of a session since the last such message among its ``messages``; None if there are none. Blocks.
    Undone runs of branches of the ``tree`` that are not active are left out: the model does not know of them. Raises ``LedgerError``.
    """
    reported, since = _last_report(messages)
    last = ledger.last_entry()
    if last == reported:
        return None
    order = UndoOrder(ledger.checkpoints())
    prompts = [
        (message.timestamp, each.active) for each in tree if isinstance(message := each.said(), UserMessage)
    ]
    checkpoints = {
        checkpoint.run: checkpoint
        for checkpoint in order.checkpoints
        if checkpoint.session == session and not _is_left(order.root(checkpoint), prompts)
    }
    if not checkpoints:
        return None
    # A purge may have removed the last entries: then only the time tells which are new.
    entries = ledger.entries_between(reported if reported <= last else 0, last, KINDS)
    text = _describe_decisions(
        ledger,
        [checkpoint for checkpoint in entries if checkpoint.ts > since or reported <= last],
        checkpoints,
    )
    return UserMessage(content=text, id=f"decided_{last}_{new_id()[:16]}") if text else None


def _is_left(run: Checkpoint, prompts: Sequence[tuple[str, bool]]) -> bool:
    """Whether a run belongs to a prompt that the conversation has gone back before. Prompts have a time, and whether they are active."""
    asked = [prompt for prompt in prompts if prompt[0] <= run.created]
    return bool(asked) and not max(asked, key=lambda prompt: prompt[0])[1]


def _last_report(messages: Sequence[AppMessage]) -> tuple[int, str]:
    for message in reversed(messages):
        if isinstance(message, UserMessage) and (match := re.fullmatch(_ID, message.id)):
            return int(match["n"]), message.timestamp
    return 0, ""


def _describe_decisions(
    ledger: Ledger, entries: Sequence[HistoryEntry], checkpoints: Mapping[str, Checkpoint]
) -> str:
    back: dict[str, str] = {}
    kept_counts: Counter[str] = Counter()
    rejected: dict[str, set[str]] = {}
    reasons: dict[str, dict[str, None]] = {}
    edits: dict[str, str] = {}
    for entry in entries:
        match entry.kind:
            case "rollback" if entry.run in checkpoints:
                checkpoint = checkpoints[entry.run]
                verb = "Brought back" if checkpoint.is_redo else "Undone"
                back.pop(entry.path, None)  # the latest decision counts
                back[entry.path] = f"{verb}: what the run “{checkpoint.about or checkpoint.title}” changed"
            case "save":
                fresh = {hunk.id for hunk in entry.forward.applied.old}
                kept_counts[entry.path] += sum(
                    hunk.run in checkpoints and hunk.id not in fresh for hunk in entry.forward.applied.new
                )
                if edited := _describe_edits(entry, checkpoints):
                    edits[entry.path] = edits.get(entry.path, "") + edited
            case "reject":
                roots = {root_of(name) for name in entry.hunks}
                rejected.setdefault(entry.path, set()).update(roots)
                if entry.reason and _still_rejected(ledger, entry.path, roots, checkpoints):
                    reasons.setdefault(entry.path, {})[entry.reason] = None
            case _:
                pass
    dropped = {path: _still_rejected(ledger, path, roots, checkpoints) for path, roots in rejected.items()}
    parts = [
        *(
            _format_list(f"{title}, in", [path for path in back if back[path] == title])
            for title in dict.fromkeys(back.values())
        ),
        _format_list("Kept, and in the files now", _count_lines(kept_counts)),
        _format_list("Edited by me before I kept them", _cut_edits(edits)),
        _format_list("Rejected, and not in the files", _count_lines(dropped, reasons)),
    ]
    paragraphs = [part for part in parts if part]
    if not paragraphs:
        return ""
    return "\n".join(
        ["I have reviewed your changes.", *paragraphs, "Read these files again before you change them."]
    )


def _describe_edits(entry: HistoryEntry, runs: Collection[str]) -> str:
    """What the user changed in the saved hunks of runs: lines with ``-`` and ``+``."""
    lines: list[str] = []
    for hunk in entry.forward.hunks.old:
        proposed = next((layer for layer in reversed(hunk.layers) if layer.origin == "agent"), None)
        if hunk.id in entry.hunks and hunk.top.origin == "user" and proposed and proposed.run in runs:
            for span in diff(proposed.lines, hunk.top.lines):
                lines += [f"\n-{line.rstrip()}" for line in proposed.lines[span.a0 : span.a1]]
                lines += [f"\n+{line.rstrip()}" for line in hunk.top.lines[span.b0 : span.b1]]
    return "".join(lines)


def _cut_edits(edits: Mapping[str, str]) -> list[str]:
    return [
        f"{path}:{edit}" if len(edit) <= MAX_EDIT else f"{path}:{edit[:MAX_EDIT].rpartition(chr(10))[0]}\n…"
        for path, edit in edits.items()
    ]


def _still_rejected(
    ledger: Ledger, path: str, roots: Collection[str], checkpoints: Mapping[str, Checkpoint]
) -> int:
    return sum(
        hunk.state == "rejected"
        and stems_from(hunk.id, roots)
        and any(layer.run in checkpoints for layer in hunk.layers)
        for hunk in ledger.get(path).hunks
    )


def _count_lines(counts: Mapping[str, int], reasons: Mapping[str, Iterable[str]] = {}) -> list[str]:
    """``reasons`` are the user's, by file."""
    return [
        ": ".join(
            [
                f"{path} ({pluralize(number, 'hunk')})",
                *(["; ".join(reasons[path])] if path in reasons else []),
            ]
        )
        for path, number in counts.items()
        if number
    ]


def _format_list(head: str, rows: Sequence[str]) -> str:
    """The first ``MOST_NAMED``: thousands of names would fill the window of the model, in each request from now on."""
    if not rows:
        return ""
    more = [f"{len(rows) - MOST_NAMED:,} more"] if len(rows) > MOST_NAMED else []
    return f"{head}:" + "".join(f"\n- {row}" for row in [*rows[:MOST_NAMED], *more])
