"""If these fail, a project that is set up for Claude Code needs changes before it works with Newel."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.requirements import require_program
from tests.support import BIN, Newel, scenario
from tests.tmux import Tmux

Make = Callable[..., Newel]

DONE = {"content": "Done."}

PROMPT = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"

PROTECT = (
    "python3 -c \"import json, sys; path = json.load(sys.stdin).get('tool_input', {}).get('file_path', ''); "
    "sys.exit(2 if any(each in path for each in ['.env', 'package-lock.json', '.git/']) else 0)\""
)
FORMAT = (
    "jq -r '.tool_input.file_path' | { read file_path; if echo \"$file_path\" | grep -q '\\.ts$'; "
    'then "$CLAUDE_PROJECT_DIR"/.claude/hooks/pretty.sh "$file_path"; fi; }'
)
LOG = (
    'jq -r \'"\\(.tool_input.command) - \\(.tool_input.description // "No description")"\' >> ~/commands.txt'
)

SKILL = """\
---
name: pdf-forms
description: Fill in PDF forms. Use when the user mentions a PDF or a form.
allowed-tools: Read, Grep, Bash(python3:*)
---

# PDF forms

Run `python3 scripts/fields.py FILE`. [reference.md](reference.md) lists the fields.
"""

COMMAND = """\
---
allowed-tools: Bash(git status:*), Bash(git commit:*)
argument-hint: [issue] [priority]
description: Commit the fix of an issue
model: claude-haiku-4-5
---

- Status: !`git status --short`
- Rules: @docs/style.md

Commit the fix of issue $1, priority $2.
"""


def entry(command: str, **more: str) -> dict[str, Any]:
    return {**more, "hooks": [{"type": "command", "command": command}]}


def write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": tool, "arguments": arguments}}]}


def set_hooks(newel: Newel, **hooks: Any) -> None:
    write(newel.project / ".claude/settings.json", json.dumps({"hooks": hooks}))
    assert newel("hooks", "check").returncode == 0
    assert newel("hooks", "trust", "--yes").returncode == 0


def results(newel: Newel) -> list[str]:
    return [each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "tool"]


def test_its_hooks_format_log_protect_and_notify(with_model: Make) -> None:
    require_program("jq")
    newel = with_model(
        scenario(
            "go",
            call("write", file_path="a.ts", content="let a=1\n"),
            call("bash", command="echo hello", description="Greet"),
            call("write", file_path=".env", content="KEY=1\n"),
            DONE,
        )
    )
    write(
        newel.project / ".claude/hooks/pretty.sh", '#!/bin/sh\nsed -i "s/=/ = /" "$1"\n', mode=0o755
    )  # in place of `npx prettier --write`
    set_hooks(
        newel,
        PreToolUse=[entry(LOG, matcher="Bash"), entry(PROTECT, matcher="Edit|Write")],
        PostToolUse=[entry(FORMAT, matcher="Edit|Write")],
        Notification=[entry("echo waiting >> ~/waiting.txt", matcher="")],
        Stop=[entry("jq -r .last_assistant_message >> ~/answers.txt")],
    )
    with Tmux([str(BIN / "newel"), "--approve", "ask", "go"], newel.project, newel.environ) as screen:
        screen.wait_for("Make this change?")
        screen.answer("y", "Enter")
        screen.wait_for("/review · /undo")
    assert (newel.project / "a.ts").read_text() == "let a = 1\n"
    assert not (newel.project / ".env").exists()
    assert (newel.home / "commands.txt").read_text() == "echo hello - Greet\n"
    assert (newel.home / "waiting.txt").read_text() == "waiting\n"
    assert (newel.home / "answers.txt").read_text() == "Done.\n"


def test_its_skill_is_read_and_its_script_runs(with_model: Make) -> None:
    newel = with_model(
        scenario(
            "fill in the form",
            call("skill", name="pdf-forms"),
            call("skill", name="pdf-forms", file="reference.md"),
            call("bash", command="python3 .claude/skills/pdf-forms/scripts/fields.py a.pdf"),
            DONE,
        )
    )
    folder = newel.project / ".claude/skills/pdf-forms"
    write(folder / "SKILL.md", SKILL)
    write(folder / "reference.md", "name, date")
    write(folder / "scripts/fields.py", "import sys\nprint('fields of', sys.argv[1])\n")
    assert newel("skills", "check").stdout == "1 checked, no problems.\n"
    assert newel("skills", "trust").returncode == 0
    done = newel("fill in the form")
    assert done.returncode == 0, done.stderr
    text, reference, ran = results(newel)
    assert "scripts/fields.py" in text
    assert str(folder) in text
    assert "name, date" in reference
    assert "fields of a.pdf" in ran


def test_its_command_fills_in_arguments_files_and_commands(with_model: Make) -> None:
    newel = with_model(scenario("Commit the fix", call("bash", command="git status --short"), DONE))
    write(newel.project / ".claude/commands/commit.md", COMMAND)
    write(newel.project / "docs/style.md", "Short subjects.")
    done = newel("/commit 12 high")
    assert done.returncode == 0, done.stderr
    said = next(each["content"] for each in newel.requests[-1]["messages"] if each["role"] == "user")
    prompt = "\n".join(part["text"] for part in said)
    assert "Commit the fix of issue 12, priority high." in prompt
    assert "Short subjects." in prompt
    assert "!`git status --short`" in prompt, "the model runs it, under the approval mode and the rules"
    assert len(results(newel)) == 1


def test_what_its_hooks_add_is_not_shown_as_the_users_words(with_model: Make) -> None:
    newel = with_model(scenario("Use Bun", DONE))
    set_hooks(newel, SessionStart=[entry("echo Use Bun, not npm.", matcher="startup")])
    with Tmux([str(BIN / "newel"), "go"], newel.project, newel.environ) as screen:
        screen.wait_for("Done.")
        marks = {line[2:]: line[:1] for line in screen.text.splitlines()}
        assert marks["go"] == PROMPT
        assert "Newel told the model: Use Bun, not npm." in screen.text.splitlines()
