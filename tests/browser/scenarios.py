"""What the model of the browser tests says."""

from __future__ import annotations

from typing import Any

from tests.support import bash

MARKDOWN = """The flag is in place: `--dry-run` prints what **would** be written.

## What changed

1. `cli.py` takes the flag
2. so does [the test](https://example.org/test)

```python
def run(source, *, dry_run=False):
    return 0 if dry_run else write(source)
```

| file | lines |
|---|---:|
| cli.py | 14 |
"""
LONG = "echo " + "a very long command " * 10


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def verdict(why: str, *, satisfied: bool, missing: str = "") -> dict[str, Any]:
    return call("verdict", satisfied=satisfied, why=why, missing=missing)


def scenarios(*given: dict[str, Any]) -> dict[str, Any]:
    return {"scenarios": list(given), "default_response": {"content": "Yes."}}


def answering(trigger: str, *steps: dict[str, Any]) -> dict[str, Any]:
    whole = [step if "response" in step else {"response": step} for step in steps]
    return {"name": trigger, "trigger": trigger, "steps": whole}


WORK = answering(
    "add a flag",
    {
        "reasoning_content": "The file first, then the edit.",
        "content": "I look at the file.",
        **call("read", file_path="cli.py"),
    },
    call("edit", file_path="cli.py", old_string="run(source)", new_string="run(source, dry_run=True)"),
    bash("echo one; echo two"),
    bash(LONG),
    {"content": MARKDOWN},
)
SLOW = answering(
    "tell me slowly", {"token_delay_ms": 40, "response": {"content": "begin " + "word " * 60 + "end"}}
)
