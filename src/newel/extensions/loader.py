"""Loads extensions: each is imported and registered, or left out with its problem."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec

from newel.agent.ports import Tool
from newel.config.extension_files import EntryPoint
from newel.extensions.api import ExtensionAPI, ExtensionCommand, ExtensionProvider
from newel.extensions.errors import RegistrationError
from newel.hooks.function_hook import FunctionHook
from newel.hooks.user_function import failure_place

REGISTER: Final = "register"
NO_REGISTER: Final = "there is no function `register(newel)`"
NO_FILE: Final = "it is not a file"


class ExtensionProblem(msgspec.Struct, frozen=True):
    """Why an extension is left out: the place, the error and what to do."""

    file: str
    line: int
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message} {self.remedy}"


class Extension(msgspec.Struct, frozen=True):
    """``source`` is its file, or the package and entry point. One with a ``problem`` adds nothing."""

    name: str
    source: str
    added: ExtensionAPI
    problem: ExtensionProblem | None = None


class LoadedExtensions(msgspec.Struct, frozen=True):
    """All extensions, in the order in which they were loaded."""

    extensions: Sequence[Extension] = ()

    def _added(self) -> Iterator[ExtensionAPI]:
        return (each.added for each in self.extensions if each.problem is None)

    @property
    def problems(self) -> list[ExtensionProblem]:
        return [each.problem for each in self.extensions if each.problem is not None]

    @property
    def tools(self) -> list[tuple[Tool, str]]:
        """The tools, each with the file of its extension."""
        return [(tool, added.file) for added in self._added() for tool in added.tools.values()]

    @property
    def hooks(self) -> list[FunctionHook]:
        return [hook for added in self._added() for hook in added.hooks]

    @property
    def commands(self) -> dict[str, ExtensionCommand]:
        return {name: command for added in self._added() for name, command in added.commands.items()}

    @property
    def providers(self) -> dict[str, ExtensionProvider]:
        return {name: provider for added in self._added() for name, provider in added.providers.items()}


def load_extensions(
    files: Sequence[Path], points: Sequence[EntryPoint], *, own_tools: Collection[str]
) -> LoadedExtensions:
    """Load files and entry points. ``own_tools`` are the names of Newel's tools. Never raises but for ``KeyboardInterrupt``.

    What an extension prints meanwhile goes to standard error: standard output may be a protocol.
    """
    taken = {("tool", name): "Newel" for name in own_tools}
    extensions: list[Extension] = []
    with contextlib.redirect_stdout(sys.stderr):
        extensions += [
            _load(file.stem, str(file), str(file), partial(_register_of_file, file), taken) for file in files
        ]
        extensions += [
            _load(point.name, point.where, point.metadata, partial(_register_of_point, point), taken)
            for point in points
        ]
    return LoadedExtensions(extensions)


def _load(
    name: str,
    source: str,
    file: str,
    find_register: Callable[[], Callable[[ExtensionAPI], object]],
    taken: dict[tuple[str, str], str],
) -> Extension:
    added = ExtensionAPI(name, file)
    try:
        find_register()(added)
        _claim(added, source, taken)
    except (Exception, SystemExit) as error:  # noqa: BLE001 — of the user's code
        return Extension(name, source, added, _problem(error, file))
    return Extension(name, source, added)


def _claim(added: ExtensionAPI, source: str, taken: dict[tuple[str, str], str]) -> None:
    """Take the names of what an extension adds. Raises ``RegistrationError`` if another has one of them."""
    names = [
        *(("tool", name) for name in added.tools),
        *(("command", name) for name in added.commands),
        *(("provider", name) for name in added.providers),
    ]
    for kind, name in names:
        if owner := taken.get((kind, name)):
            raise RegistrationError(f"{owner} has a {kind} named {name} already; rename this one")
    taken |= dict.fromkeys(names, source)


def _register_of_file(file: Path) -> Callable[[ExtensionAPI], object]:
    if not file.is_file():  # reading a pipe would wait
        raise RegistrationError(NO_FILE)
    name = f"newel_extension_{file.stem.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise RegistrationError(NO_FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # types in its annotations are looked up there
    vars(module)["print"] = partial(print, file=sys.stderr)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return _register_in(module)


def _register_of_point(point: EntryPoint) -> Callable[[ExtensionAPI], object]:
    found: object = importlib.import_module(point.module)
    for part in filter(None, point.attribute.split(".")):
        found = getattr(found, part)
    if isinstance(found, ModuleType):
        return _register_in(found)
    if not callable(found):
        raise RegistrationError(f"{point.module}:{point.attribute} is not a function `register(newel)`")
    return found


def _register_in(module: ModuleType) -> Callable[[ExtensionAPI], object]:
    register = getattr(module, REGISTER, None)
    if not callable(register):
        raise RegistrationError(NO_REGISTER)
    if iscoroutinefunction(register):
        raise RegistrationError(f"`{REGISTER}` is `async`, and has to be a plain function")
    return register


def _problem(error: BaseException, file: str) -> ExtensionProblem:
    where, line = failure_place(error, file)
    said = str(error) or "no message"
    match error:
        case RegistrationError():
            message = f"{said[:1].upper()}{said[1:]}."
        case SyntaxError():
            message = f"SyntaxError: {error.msg}."
        case _:
            message = f"{type(error).__name__}: {said.rstrip('.')}."
    if isinstance(error, ModuleNotFoundError) and error.name:
        remedy = f"Install the package of `{error.name.partition('.')[0]}` for Newel's Python, {os.path.abspath(sys.executable)}."  # noqa: PTH100
    else:
        remedy = "Correct it, then run `newel extensions check`."
    return ExtensionProblem(where, line, message, remedy)
