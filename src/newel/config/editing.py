"""The user's ``config.toml`` by the names of its settings: what applies and why, and changes that are checked before they are written."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple, cast, get_args, get_origin

import msgspec

from newel.agent.errors import ConfigError, UsageError
from newel.config.endpoint import Place, choose_endpoint
from newel.config.review_settings import ReviewSettings
from newel.config.settings import ConfigFile, Settings, mask_secret, parse_config
from newel.config.themes import no_theme, theme_names
from newel.storage.files import read_regular
from newel.text.sanitize import redact_url
from newel.text.toml import line_of_key
from newel.text.toml_edit import join_name, split_name, toml_value, with_value, without_value
from newel.workspace.disk.state_file import rewrite

FILE: Final = "config.toml"
UNSET: Final = "not set"

Name = tuple[str, ...]


class EffectiveValue(NamedTuple):
    """``shown`` has no secrets. ``origin`` is ``default`` if nobody has set the value."""

    name: str
    shown: str
    origin: str


def check_config(file: Path, data: bytes) -> dict[str, Any]:
    """The values of the file with this content. Raises ``ConfigError``, which names the line, for content with which Newel would not
    start.
    """
    settings, written = parse_config(file, data)
    try:
        settings.permissions.parse(lambda: data.decode(errors="replace"), "permissions")
    except ConfigError as error:
        raise ConfigError(f"{file}, {error}") from error
    choose_endpoint([Place("", {}), Place(str(file), msgspec.structs.asdict(settings))])
    return written


def read_name(text: str) -> Name:
    """The parts of a setting's name, such as ``limits.maxCost``. Raises ``UsageError`` for what is none."""
    path = split_name(text)
    if path is None or not _exists(path):
        names = setting_names()
        near = [name for name in names if _last_part(name) == _last_part(text)]
        near = near or get_close_matches(text, names, n=1, cutoff=0.6)
        listed = " or ".join(f"`{name}`" for name in near[:3])
        hint = f" Did you mean {listed}?" if near else " `newel docs settings` lists all."
        raise UsageError(f"There is no setting {text[:80]}.{hint}")
    return path


def _last_part(name: str) -> str:
    """The name of a setting without its table, however other tools write it."""
    return name.rpartition(".")[2].replace("_", "").replace("-", "").casefold()


def setting_names() -> list[str]:
    """The names of all settings, but for those of single models and routines."""
    return [join_name(path) for path in _leaves(ConfigFile(), ())]


def set_value(home: Path, path: Name, text: str) -> None:
    """Set a setting to what the user typed: a word, or a value in TOML. Raises ``ConfigError`` for an invalid one; then the file stays as
    it is.
    """
    if path in _tables():
        raise UsageError(f"{join_name(path)} is a table: set one of its settings.")
    file = home / FILE
    values = _readings(text)
    errors: list[ConfigError] = []
    before = _read(file)
    for value in values:
        try:
            check_config(file, _changed(file, before, {path: value}))
            _check_theme(home, path, str(value))
        except ConfigError as error:
            errors.append(error)
            continue
        save(home, {path: value})
        return
    raise _invalid(file, path, errors[0])


def _check_theme(home: Path, path: Name, value: str) -> None:
    """A missing theme stops no start, so ``check_config`` says nothing about it."""
    if path == ("terminal", "theme") and value not in theme_names(home):
        raise ConfigError(f"{join_name(path)}: {no_theme(value, home)}")


def save(home: Path, changes: Mapping[Name, object]) -> None:
    """Set these settings, or remove those that are None, in one step. Raises ``ConfigError``."""
    file = home / FILE

    def change(before: bytes) -> bytes:
        after = _changed(file, before, changes)
        check_config(file, after)
        return after

    rewrite(file, change)


def has_value(home: Path, path: Name) -> bool:
    """Whether the file sets this setting or table."""
    return _find(_values(home / FILE), path) is not None


def effective_values(settings: Settings, *, only: Name | None = None) -> list[EffectiveValue]:
    """The settings that apply, and where each is from: one, those of a table, or all."""
    file = settings.home / FILE
    written = _values(file)
    paths = list(dict.fromkeys([*_leaves(ConfigFile(), ()), *_written(written, ())]))
    if only is not None:
        paths = [path for path in paths if path[: len(only)] == only] or [only]
    text = _read(file).decode(errors="replace")
    found: list[EffectiveValue] = []
    for path in paths:
        value, origin = _effective(settings, written, path)
        is_unset = value is None or (origin == "default" and value in ([], ()))
        if origin == str(file):
            origin = f"{file}, line {line_of_key(text, path)}"
        found.append(EffectiveValue(join_name(path), UNSET if is_unset else _shown(path, value), origin))
    return found


def _effective(settings: Settings, written: Mapping[str, Any], path: Name) -> tuple[object, str]:
    name = ".".join(path)
    endpoint = settings.endpoint
    if path in {("base_url",), ("api_key",)} and endpoint is not None:
        is_key = path == ("api_key",)
        value = endpoint.api_key if is_key else endpoint.base_url
        return value, (endpoint.key_origin if is_key else endpoint.origin) or "default"
    if path == ("sandbox", "mode"):
        return settings.sandbox.mode, settings.origins.get("sandbox", "default")
    if path[0] == "review" and path[-1] in ReviewSettings.__struct_fields__:
        return getattr(settings.review, path[-1]), settings.origins.get(name, "default")
    if len(path) == 1 and path[0] in Settings.__struct_fields__ and name not in {"models", "local", "retry"}:
        return getattr(settings, name), settings.origins.get(name, "default")
    value = _find(written, path)
    if value is not None:
        return value, str(settings.home / FILE)
    return _find(msgspec.to_builtins(ConfigFile()), path), "default"


def _shown(path: Name, value: object) -> str:
    if path[-1] == "api_key":
        return mask_secret(str(value))
    if path[-1] == "base_url":
        return redact_url(str(value))
    if isinstance(value, tuple):
        value = [*cast("tuple[object, ...]", value)]
    return value if isinstance(value, str) else toml_value(value)


def _readings(text: str) -> list[object]:
    """What a typed value may mean: a value in TOML, or just this text."""
    try:
        return [tomllib.loads(f"x = {text}\n")["x"], text]
    except tomllib.TOMLDecodeError:
        return [text]


def _changed(file: Path, before: bytes, changes: Mapping[Name, object]) -> bytes:
    from newel.config.toml_file import TomlError, parse_toml

    try:
        _, text = parse_toml(before)
    except TomlError as error:
        raise ConfigError(f"{file}, line {error.line}: {error}. Correct it: newel config edit") from error
    for path, value in changes.items():
        text = without_value(text, path) if value is None else with_value(text, path, value)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{file} was not changed: the value is not valid Unicode.") from error


def _invalid(file: Path, path: Name, error: ConfigError) -> ConfigError:
    """The error of a value that was refused: its line is that of a text which nobody will see."""
    reason = str(error).partition(f"{join_name(path)}: ")[2].partition(". Correct the file")[0]
    return ConfigError(f"{join_name(path)}: {reason}. {file} was not changed.") if reason else error


def _values(file: Path) -> dict[str, Any]:
    return check_config(file, _read(file))


def _read(file: Path) -> bytes:
    try:
        return read_regular(file)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from error


def _find(table: Any, path: Name) -> Any:
    for part in path:
        if not isinstance(table, dict) or part not in table:
            return None
        table = cast("dict[str, Any]", table)[part]
    return table


def _leaves(struct: msgspec.Struct, at: Name) -> Iterator[Name]:
    for field in msgspec.structs.fields(struct):
        value, path = getattr(struct, field.name), (*at, field.encode_name)
        if isinstance(value, msgspec.Struct):
            yield from _leaves(value, path)
        elif not isinstance(value, dict):
            yield path


def _tables() -> set[Name]:
    return {path[:length] for path in _leaves(ConfigFile(), ()) for length in range(1, len(path))}


def _written(table: Mapping[str, Any], at: Name) -> Iterator[Name]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _written(cast("dict[str, Any]", value), (*at, key))
        else:
            yield (*at, key)


def _exists(path: Name) -> bool:
    """Whether a setting or a table has this name. Those of models and routines are named by the user."""
    kind: Any = ConfigFile
    for part in path:
        if get_origin(kind) is dict:
            kind = get_args(kind)[1]
            continue
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            return False
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        if part not in fields:
            return False
        kind = fields[part]
    return True
