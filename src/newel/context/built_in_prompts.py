"""The prompts that come with Newel, as commands of every front end."""

from __future__ import annotations

from typing import Final

from newel.context.prompt_templates import Template

_INIT: Final = """\
Write AGENTS.md in the root of this project: the notes that a coding agent reads before each task here.

Look first, and write only what you have seen: the README and the contributing guide, the build files and their scripts, the CI, the folders, \
a few typical source and test files. Find out how the project is built, how all tests and a single one are run, and which linters and formatters \
there are. Run a command only to check that it works.

Write what an agent cannot guess and would otherwise get wrong: those commands, the layout in a few lines, the conventions of code, tests and commits \
that differ from the usual, and traps. No generalities, no list of all files, no secrets. At most about 60 lines.

If there is an AGENTS.md, keep what is right, correct what is wrong and add what is missing, by edits; do not replace it. If there are notes for \
other agents (CLAUDE.md, .cursorrules, .github/copilot-instructions.md), take over what holds.

End with a summary of what you wrote in two or three sentences, and of what you could not find out. $ARGUMENTS"""

_REMEMBER: Final = """\
Add this to the notes for agents in the root of this project: AGENTS.md, or CLAUDE.md if only that exists. If nothing follows, add what this \
conversation has shown that later ones cannot guess. Change nothing else, and keep to it from now on: $ARGUMENTS"""

REMEMBER: Final = "remember"

BUILT_IN: Final = (
    Template("init", "write AGENTS.md, or improve it: notes for agents on this project", _INIT, ""),
    Template(
        REMEMBER, "add something to AGENTS.md, for all later conversations", _REMEMBER, "", hint="[WORDS]"
    ),
)
