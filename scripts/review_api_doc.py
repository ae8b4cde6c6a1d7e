"""Write the structures of docs/review-api.md, from the types that read and write them.

python scripts/review_api_doc.py            write them
python scripts/review_api_doc.py --check    exit 1 if they are not what would be written
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
from protocol_doc import prose, reachable, schema_of, table

from newel.tools.review import ProposedEdit
from newel.web.api.review import KINDS

TARGET = Path(__file__).resolve().parent.parent / "docs" / "review-api.md"
MARK = "<!-- Written by scripts/review_api_doc.py from the types: change these, then run it. -->\n"


def main() -> int:
    """Write or check; returns the exit code."""
    found = TARGET.read_text()
    text = document(found)
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text)
    elif found != text:
        print(f"{TARGET} is not what the types say. Run: python scripts/review_api_doc.py", file=sys.stderr)
        return 1
    return 0


def document(found: str) -> str:
    """The page, with its last part written anew."""
    kinds = sorted(reachable((*KINDS, ProposedEdit)), key=lambda kind: kind.__name__)
    return f"{found.partition(MARK)[0]}{MARK}\n" + "\n".join(map(section, kinds)).rstrip() + "\n"


def section(kind: type[msgspec.Struct]) -> str:
    schema = schema_of(kind)
    text = re.sub(r"\bNone\b", "null", prose(schema.get("description", "")))
    told = [text, ""] if text else []
    return "\n".join([f"### {kind.__name__}", "", *told, *table(kind, schema)])


if __name__ == "__main__":
    sys.exit(main())
