"""What the users of other tools type in a conversation: other names of commands, words that leave or help, and hints for what Newel does
differently.
"""

from __future__ import annotations

from typing import Final

from newel.version import UPDATE_HINT

ALIASES: Final = {
    alias: name
    for aliases, name in (
        ("exit q", "quit"),
        ("new reset", "clear"),
        ("commands", "help"),
        ("models", "model"),
        ("effort reasoning", "thinking"),
        ("status", "session"),
        ("context usage tokens stats", "cost"),
        ("compress summarize", "compact"),
        ("continue sessions history", "resume"),
        ("mode approvals", "approve"),
        ("themes colors colours", "theme"),
        ("keymap keybindings shortcuts hotkeys", "keys"),
        ("diff changes", "review"),
        ("fork tree", "branch"),
        ("tasks ps", "bashes"),
    )
    for alias in aliases.split()
}
"""Other names of commands."""

WORDS: Final = {
    word: name
    for words, name in (("exit quit :q :q! :wq", "quit"), ("help ?", "help"))
    for word in words.split()
}
"""What leaves or helps elsewhere, without a slash: alone it is no prompt."""

NOT_SENT: Final[dict[str, str]] = dict.fromkeys(
    ("clear", "cls", "reset"),
    "This was not sent: Ctrl+L clears the screen, and `/clear` starts a new conversation.",
)
"""A word with two meanings, the one of which would drop the conversation."""

NOTE_HINT: Final = "# the agent notes this in AGENTS.md, for all later conversations"

HINTS: Final = {
    name: hint
    for names, hint in (
        ("plan", "`/approve plan` looks around, changes nothing and ends with a plan."),
        (
            "sandbox",
            "`newel --sandbox workspace|read-only|partial|off` starts with another sandbox; the first line of the conversation names this one.",
        ),
        (
            "yolo auto ask code architect",
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
        ("doctor bug feedback", "`newel doctor` in a shell checks the settings and the model server."),
        ("config settings experimental", "`newel config` in a shell shows the settings and changes them."),
        (
            "login setup connect",
            "`newel setup` in a shell asks for a server, its key and a model; `/model` shows the models of this server.",
        ),
        ("logout", "`newel keys remove NAME` in a shell removes a key."),
        ("log", "`/review` shows what agents changed."),
        (
            "restore revert checkpoint checkpoints",
            "`/undo` undoes the last run, `/undo 2` another one that `/review` lists; `/rewind` goes back to before a prompt.",
        ),
        ("rename name", "`/session name WORDS` names this session."),
        ("save share", "The session is saved as it goes; `/export FILE.html` writes it as a page."),
        ("skills", "`newel skills` in a shell lists skills; `/help` names those that you can call."),
        (
            "memory",
            "`/remember WORDS`, or `# WORDS`, has the agent note something in AGENTS.md; `/init` writes one.",
        ),
        (
            "add read file attach mention paste",
            "`@path` in a message attaches a file, {paste} the image in the clipboard.",
        ),
        (
            "drop",
            "What was attached stays in the conversation: `/rewind` goes back to before it, `/compact` frees the context.",
        ),
        ("run shell test lint git ls", "`!command` runs a command and shows it to the model."),
        ("commit", "Ask the agent to commit, or run `!git commit`."),
        ("cd cwd workspace", "`newel --cwd DIR` in a shell starts a conversation in another folder."),
        ("edit editor", "{editor} opens the draft in $EDITOR."),
        (
            "vim vi emacs",
            "`newel config set terminal.editing vi` in a shell makes the keys those of vi, from the next start on.",
        ),
        (
            "statusline",
            "[terminal] status_line in ~/.newel/config.toml names a program that writes the status line.",
        ),
        (
            "terminal-setup",
            "Ctrl+J makes a new line in every terminal, Shift+Enter where the terminal reports it.",
        ),
        (
            "agent agents collab subagents",
            "The model starts subagents by itself; `newel agents` in a shell lists the agents that work on a contract.",
        ),
        ("todo todos", "The model keeps its list of steps by itself, and shows it while it works."),
        ("ide", "`newel acp` serves an editor: Zed, JetBrains, Neovim, Emacs or VS Code."),
        (
            "security-review pr-comments pr_comments review-pr",
            "Ask for it in a prompt; a prompt that you use often can be a command of yours, in ~/.newel/prompts/NAME.md.",
        ),
        (
            "output-style personality",
            "Put into AGENTS.md how answers should be; `newel --system-prompt TEXT` replaces Newel's own words about it.",
        ),
        ("release-notes changelog upgrade update", UPDATE_HINT),
        (
            "reload",
            "Settings, AGENTS.md and prompts are read at the start: `/quit`, and then `newel -c` in a shell.",
        ),
        ("web fetch", "Name the address in a prompt: the model reads pages of the web by itself."),
        ("details verbose", "{transcript} shows the whole transcript, with each call unfolded."),
        (
            "plugin plugins extensions",
            "`newel extensions` in a shell lists extensions in Python, `newel skills` skills.",
        ),
        (
            "privacy privacy-settings",
            "Newel sends no telemetry; `newel forget` in a shell deletes what it has stored.",
        ),
        ("mcp", "`newel mcp` in a shell lists, adds and tests tool servers; `/tools` lists their tools."),
        ("forget", "`newel forget` in a shell deletes what Newel has stored."),
    )
    for name in names.split()
}
