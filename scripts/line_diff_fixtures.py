"""Write tests/fixtures/line_diffs.json: texts and their differences, for the differs in Python and JavaScript.

    python scripts/line_diff_fixtures.py            write it
    python scripts/line_diff_fixtures.py --check    exit 1 if the file is out of date

The file is ``{"cases": [{"name", "a", "b", "spans"}, …]}``. ``a`` and ``b`` are lists of lines, in which ``[line,
count]`` is a line that occurs ``count`` times in a row; a span is ``[a0, a1, b0, b1]`` as in ``newel.diff.patience``.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from newel.diff.patience import MAX_DEPTH, MAX_EDITS, diff

TARGET = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "line_diffs.json"

Lines = list[str]
Case = tuple[str, Lines, Lines]

FUNCTIONS = [
    [
        f"def part_{name}(values):\n",
        "    for value in values:\n",
        f"        yield {name}(value)\n",
        "\n",
        "\n",
    ]
    for name in ("one", "two", "three", "four")
]


def main() -> int:
    """Write or check the file; returns the exit code."""
    text = document()
    if "--check" not in sys.argv[1:]:
        TARGET.parent.mkdir(exist_ok=True)
        TARGET.write_text(text, encoding="utf-8", newline="\n")
        return 0
    if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET} is not what the differ says. Run: python scripts/line_diff_fixtures.py", file=sys.stderr)
    return 1


def document() -> str:
    """The content of the file, with one case per line."""
    cases = [
        json.dumps({"name": name, "a": compress_runs(a), "b": compress_runs(b), "spans": diff(a, b)})
        for name, a, b in (*edge_cases(), *limit_cases(), *random_cases())
    ]
    return '{"cases": [\n' + ",\n".join(cases) + "\n]}\n"


def compress_runs(lines: Lines) -> list[str | tuple[str, int]]:
    """Replace more than three equal lines in a row by the line and its count."""
    short: list[str | tuple[str, int]] = []
    for line, group in groupby(lines):
        count = len(list(group))
        short += [(line, count)] if count > 3 else [line] * count
    return short


def edge_cases() -> Iterator[Case]:
    """Known edge cases."""
    text = ["# Notes\n", "\n", "first\n", "second\n", "\n", "third\n"]
    one, two, three, four = FUNCTIONS
    yield "both empty", [], []
    yield "created", [], text
    yield "deleted", text, []
    yield "equal", text, list(text)
    yield "all different", [f"old {i}\n" for i in range(7)], [f"new {i}\n" for i in range(5)]
    yield "one line changed", text, [*text[:2], "1st\n", *text[3:]]
    yield "first line gone", text, text[1:]
    yield "last line gone", text, text[:-1]
    yield "put before", text, ["new\n", *text]
    yield "put behind", text, [*text, "new\n"]
    yield "no final newline any more", text, [*text[:-1], "third"]
    yield "a final newline now", [*text[:-1], "third"], text
    yield "LF becomes CRLF", text, [line.replace("\n", "\r\n") for line in text]
    yield "mixed ends", ["a\n", "b\r\n", "c\n", "d\r\n"], ["a\r\n", "b\r\n", "c\r\n", "d\n"]
    yield "a lone carriage return", ["a\rb\n", "c\n"], ["a\n", "b\n", "c\n"]
    yield "BOM taken away", ["\ufeffa\n", "b\n"], ["a\n", "b\n"]
    yield "line separators that end no line", ["a\u2028b\n", "c\x0cd\n", "e\x85f\n"], ["a\u2028b\n", "c\n"]
    yield "emoji", ["👩‍👩‍👧 one\n", "two 🙂\n", "two 🙂\n"], ["two 🙂\n", "👩‍👩‍👧 one\n", "two 🙃\n"]
    yield "composed and decomposed", ["caf\u00e9\n", "x\n"], ["cafe\u0301\n", "x\n"]
    yield (
        "names that objects have",
        ["__proto__\n", "constructor\n", "__proto__"],
        ["constructor\n", "__proto__"],
    )
    yield "numbers that are texts", ["1", "01", "1.0", "1"], ["01", "1", "1", "1.0"]
    yield "an empty line and no line", [""], []
    yield "the head of a file", ["\x00644\n", "a\n"], ["\x00755\n", "a\n"]
    yield "a block moved down", [*one, *two, *three], [*two, *three, *one]
    yield "a block moved up", [*one, *two, *three, *four], [*four, *one, *two, *three]
    yield "blocks turned round", [*one, *two, *three, *four], [*four, *three, *two, *one]
    yield "two blocks swapped", [*one, *two, *three, *four], [*one, *three, *two, *four]
    yield "a block like its neighbours put in", [*one, *three], [*one, *two, *three]
    yield "a block twice", [*one, *two], [*one, *one, *two]
    yield "repeats fewer", ["x\n"] * 9, ["x\n"] * 5
    yield "repeats more", ["x\n"] * 5, ["x\n"] * 9
    yield "repeats and one other", ["x\n"] * 9, [*["x\n"] * 4, "y\n", *["x\n"] * 4]
    yield "two in turn", ["x\n", "y\n"] * 6, ["y\n", "x\n"] * 6
    yield "a single line moved over repeats", ["u\n", *["x\n"] * 5], [*["x\n"] * 5, "u\n"]
    yield "once only between the anchors", list("aPbQa"), list("aQbPa")
    yield "ties in the longest series", list("abcdef"), list("fedcba")
    yield "ties in the shortest script", list("xyxyzz"), list("yxzzyx")


def limit_cases() -> Iterator[Case]:
    """Cases at the limits of the comparison, and just beyond."""
    for name, more in (("as many lines as are given up for a match", 0), ("one line more than that", 1)):
        a = [*["p\n"] * (MAX_EDITS // 2), *["x\n"] * 2, *["p\n"] * 9]
        b = [*["q\n"] * (MAX_EDITS // 2 + more), *["x\n"] * 2, *["q\n"] * 9]
        yield name, a, b
        yield f"{name}, between anchors", ["top\n", *a, "end\n", "z\n"], ["top\n", *b, "end\n", "y\n"]
    for name, words, size in (("records", 150, 400), ("a log", 6, 900), ("two words", 2, 900)):
        rng = seeded_random(size)
        a = [f"w{random_below(rng, words)}\n" for _ in range(size)]
        yield f"{name}, in several pieces", a, random_edits(rng, a, words, size // 6)
    rng = seeded_random(1986)
    a = [f"w{random_below(rng, 150)}\n" for _ in range(600)]
    yield "nothing to do with each other", a, [f"w{random_below(rng, 150)}\n" for _ in range(600)]
    yield (
        "much on one side alone",
        [*["p\n"] * 5, "x\n", "x\n"],
        [*["q\n"] * 190, "x\n", "x\n", *["q\n"] * 300],
    )
    a = ["q\n", "x\n", *["q\n"] * 190, "x\n", *["q\n"] * 300]
    yield "much on the old side alone", a, ["p\n", "x\n", "x\n", "p\n"]
    for levels in (2 * MAX_DEPTH, 2 * MAX_DEPTH + 6):  # each depth adds two levels
        a, b = nested_anchors(levels, ["x\n"] * MAX_EDITS), nested_anchors(levels, ["y\n"] * MAX_EDITS)
        yield f"anchors between anchors, {levels} levels", a, b
    rng = seeded_random(3_000)
    a, b = ["same\n"] * 3_000, ["same\n"] * 3_000
    for _ in range(40):
        a[random_below(rng, len(a))] = "old\n"
        b[random_below(rng, len(b))] = "new\n"
    yield "3,000 equal lines with changes", a, b
    a, b = costly_texts(40)
    yield "fewer steps than are taken", a, b
    long = ["same\n"] * 200_000  # matches count as steps, too
    yield (
        "more steps than are taken",
        [*a, *["old\n"] * 2, *long, *["old\n"] * 2],
        [*b, *["new\n"] * 2, *long, *["new\n"] * 2],
    )


def costly_texts(gaps: int) -> tuple[Lines, Lines]:
    """The most expensive texts to compare: gaps in which every line differs and none is an anchor."""
    a, b = list[str](), list[str]()
    for gap in range(gaps):
        a += [*["r\n"] * 2, *["s\n"] * 2, f"{gap}\n", *["old\n"] * 101, f"{gap}.5\n"]
        b += [*["s\n"] * 2, *["r\n"] * 2, f"{gap}\n", *["new\n"] * 101, f"{gap}.5\n"]
    return a, b


def nested_anchors(levels: int, odd: Lines) -> Lines:
    """Lines that become unique only within the gap between the lines around them."""
    lines: Lines = []
    for level in range(levels):
        lines += [f"u{level}\n", f"u{level - 1}\n", *odd]
    return lines


def random_cases(count: int = 360) -> Iterator[Case]:
    """Random texts, of few and of many words, and random edits of them."""
    rng = seeded_random(1986)
    for number in range(count):
        words = (1, 2, 3, 5, 12, 60)[number % 6]
        a = random_lines(rng, words, 40)
        b = (
            random_lines(rng, words, 40)
            if number % 4 == 0
            else random_edits(rng, a, words, 1 + random_below(rng, 6))
        )
        yield f"drawn {number}", a, b


def random_edits(rng: random.Random, lines: Sequence[str], words: int, edits: int) -> Lines:
    new = list(lines)
    for _ in range(edits):
        at = random_below(rng, len(new) + 1)
        new[at : at + random_below(rng, 4)] = random_lines(rng, words, 4)
    if random_below(rng, 5) == 0:
        at = random_below(rng, len(new) + 1)
        new = [*new[at:], *new[:at]]
    return new


def random_lines(rng: random.Random, words: int, most: int) -> Lines:
    return [f"w{random_below(rng, words)}\n" for _ in range(random_below(rng, most))]


def seeded_random(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - these are texts, not secrets


def random_below(rng: random.Random, end: int) -> int:
    """A random number in ``range(end)``. Of Python's random functions, only ``random()`` is the same in each version."""
    return int(rng.random() * end)


if __name__ == "__main__":
    sys.exit(main())
