"""Print figures of the source: its size, the length of functions, import cycles, and names with two meanings.

./run python scripts/house.py           the figures
./run python scripts/house.py --list    also the modules, functions and names behind them
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCES: Final = ROOT / "src"
LONGEST_MODULE: Final = 500
SHORTEST_MODULE: Final = 40
LONGEST_FUNCTION: Final = 50
"""Lines; longer ones are listed."""
LAYOUT: Final = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


class Module(NamedTuple):
    name: str
    tree: ast.Module
    lines: int
    code_lines: int
    comment_lines: int
    is_package: bool


def read(path: Path) -> Module:
    text = path.read_text()
    parts = path.relative_to(SOURCES).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    tree = ast.parse(text)
    code, comments = count_lines(text, tree)
    return Module(
        ".".join(parts[: -1 if is_package else None]), tree, text.count("\n"), code, comments, is_package
    )


def count_lines(text: str, tree: ast.Module) -> tuple[int, int]:
    """Count the lines with code, without docstrings, and the lines with comments."""
    documentation: set[int] = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            documentation.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - documentation), len(comments)


def imports(module: Module, names: set[str]) -> Iterator[str]:
    """The modules of the source that a module imports, at its top or in a function."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in names or node.module in names:
                    yield inner if inner in names else node.module


def import_cycle(modules: Iterable[Module]) -> list[str]:
    """The modules of one import cycle; empty if there is none."""
    modules = list(modules)
    names = {module.name for module in modules}
    graph = {
        module.name: {name for name in imports(module, names) if name != module.name} for module in modules
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


def functions(modules: Iterable[Module]) -> list[tuple[int, str]]:
    """The functions' lengths in lines, with their names."""
    return [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{module.name}.{node.name}")
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def repeated(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that occur more than once, and where."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, place in pairs:
        places[name].append(place)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="also list the modules, functions and names")
    listed = parser.parse_args().list
    everything = sorted(map(read, SOURCES.rglob("*.py")), key=lambda module: module.name)
    modules = [module for module in everything if not module.is_package]
    code, comments = (
        sum(column) for column in zip(*((m.code_lines, m.comment_lines) for m in everything), strict=True)
    )
    lengths = sorted(functions(everything))
    cycle = import_cycle(everything)
    long = [f"{m.lines:4} {m.name}" for m in modules if m.lines > LONGEST_MODULE]
    short = [f"{m.lines:4} {m.name}" for m in modules if m.lines < SHORTEST_MODULE]
    classes = repeated(
        (node.name, module.name)
        for module in everything
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    )
    names = repeated((module.name.rpartition(".")[2], module.name) for module in modules)
    print(f"modules                 {len(modules)}")
    print(f"code lines              {code}, comment lines {comments} ({comments / code:.1%})")
    middle, high = statistics.median(length for length, _ in lengths), lengths[int(len(lengths) * 0.99)][0]
    print(
        f"functions               {len(lengths)}: median {middle:.0f} lines, p99 {high}, longest {lengths[-1][0]}"
    )
    print(f"import cycle            {' > '.join(cycle) or 'none'}")
    print(f"modules over {LONGEST_MODULE} lines  {len(long)}")
    print(f"modules under {SHORTEST_MODULE} lines  {len(short)}")
    print(f"class names twice       {len(classes)}")
    print(f"module names twice      {len(names)}")
    if listed:
        slow = [f"{length:4} {name}" for length, name in reversed(lengths) if length > LONGEST_FUNCTION]
        twice = [f"     {name}: {', '.join(where)}" for name, where in (classes | names).items()]
        for title, lines in (
            ("Long functions", slow),
            ("Long modules", long),
            ("Short modules", short),
            ("Names", twice),
        ):
            print("", f"{title}:", *lines, sep="\n")


if __name__ == "__main__":
    main()
