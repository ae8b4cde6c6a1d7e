"""Write the types of docs/review-api.md, from those that encode and decode them.

python scripts/review_api_doc.py            write them
python scripts/review_api_doc.py --check    exit 1 if the file is out of date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
from protocol_doc import prose, referenced_structs, schema_of, table

from newel.tools.review import ProposedEdit
from newel.web.api.review import KINDS

TARGET = Path(__file__).resolve().parent.parent / "docs" / "review-api.md"
MARK = "<!-- Written by scripts/review_api_doc.py from the types: change these, then run it. -->\n"


def main() -> int:
    """Write or check the file; returns the exit code."""
    found = TARGET.read_text()
    text = document(found)
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text)
    elif found != text:
        print(f"{TARGET} is not what the types say. Run: python scripts/review_api_doc.py", file=sys.stderr)
        return 1
    return 0


def document(found: str) -> str:
    """The content of the file, with its last part regenerated."""
    kinds = sorted(referenced_structs((*KINDS, ProposedEdit)), key=lambda kind: kind.__name__)
    return f"{found.partition(MARK)[0]}{MARK}\n" + "\n".join(map(section, kinds)).rstrip() + "\n"


def section(kind: type[msgspec.Struct]) -> str:
    schema = schema_of(kind)
    text = re.sub(r"\bNone\b", "null", prose(schema.get("description", "")))
    told = [text, ""] if text else []
    return "\n".join([f"### {kind.__name__}", "", *told, *table(kind, schema)])


if __name__ == "__main__":
    sys.exit(main())
