"""Hints for the commands of other tools' conversations, which Newel lacks or has under another name."""

from __future__ import annotations

from typing import Final

HINTS: Final = {
    name: hint
    for names, hint in (
        ("plan", "`/approve plan` looks around, changes nothing and ends with a plan."),
        (
            "sandbox",
            "`newel --sandbox workspace|read-only|partial|off` starts with another sandbox; the first line of the conversation names this one.",
        ),
        (
            "approvals mode yolo auto ask",
            "`/approve auto|ask|review|plan|read-only` sets the approval mode: what runs without asking.",
        ),
        (
            "allowed-tools allow rules",
            "`/permissions` lists the rules and revokes them; `newel permissions add RULE` in a shell adds one.",
        ),
        (
            "add-dir",
            'writable = ["/path"] under [sandbox] in ~/.newel/config.toml lets commands change another folder.',
        ),
        (
            "status doctor",
            "`newel doctor` in a shell shows the settings and where they come from.",
        ),
        ("config settings", "`newel config` in a shell shows the settings and changes them."),
        (
            "login setup connect",
            "`newel setup` in a shell asks for a server, its key and a model; `/model` shows the models of this server.",
        ),
        ("diff log changes", "`/review` shows what agents changed."),
        (
            "restore revert checkpoint checkpoints",
            "`/undo` undoes the last run, `/undo 2` another one that `/review` lists; `/rewind` goes back to before a prompt.",
        ),
        ("new reset", "`/clear` starts a new conversation."),
        ("memory", "Put instructions for agents into AGENTS.md; `/init` writes one."),
        ("usage context tokens stats", "`/cost` shows the tokens and the cost."),
        ("history sessions continue", "`/resume` lists the sessions of this folder and resumes one."),
        ("mcp", "`newel mcp` in a shell lists, adds and tests tool servers; `/tools` lists their tools."),
        ("forget", "`newel forget` in a shell deletes what Newel has stored."),
    )
    for name in names.split()
}
