"""API keys that the user has stored: ``<home>/keys.json``, readable by its owner only, or the keyring of the system.

A key belongs to a vendor (``anthropic``), whose address it selects if nothing else does, or to a server's address, and is sent to
no other. A damaged file holds no key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from newel.agent.errors import ConfigError, UsageError
from newel.config.endpoint import Place
from newel.providers.families import FAMILIES, Family
from newel.providers.http.urls import server_address
from newel.workspace.disk.state_file import load_state, update_state

FILE: Final = "keys.json"
ORIGIN: Final = "newel keys"
SERVICE: Final = "newel"
"""The name of the entries in the system's keyring."""
MAX_KEY: Final = 16_384
"""Characters; the tokens of some gateways are long."""


class StoredKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``name`` is that of a vendor or the address of a server. ``key`` is empty if the system's keyring has it."""

    name: str
    key: str = ""
    in_keyring: bool = False
    since: str = ""


class _KeyFile(msgspec.Struct):
    version: int = 1
    keys: list[StoredKey] = []


def vendors() -> dict[str, Family]:
    """The vendors whose keys can be stored by name."""
    return {family.name.lower(): family for family in FAMILIES if family.base_url}


def key_name(text: str) -> str:
    """The name under which a key is stored: a vendor, or a server's address. Raises ``UsageError``."""
    name = text.strip()
    if name.lower() in vendors():
        return name.lower()
    if "://" not in name:
        names = ", ".join(vendors())
        raise UsageError(f"'{name[:80]}' is neither a vendor ({names}) nor an address like https://host/v1.")
    try:
        return server_address(name)
    except ConfigError as error:
        raise UsageError(str(error)) from error


def check_key(key: str) -> None:
    """Raises ``UsageError`` for what is no key."""
    if not key or not key.isascii() or not key.isprintable() or len(key) > MAX_KEY:
        raise UsageError("This is not an API key: it is empty, too long, or has characters that no key has.")


class KeyStore:
    """The stored keys, read from the file each time, because other processes may change it."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    def all(self) -> list[StoredKey]:
        return load_state(self._path, _KeyFile).keys

    def set(self, name: str, key: str, *, in_keyring: bool = False) -> None:
        """Store a key, in place of an earlier one of the same name. Raises ``ConfigError``, and ``UsageError`` for what is no
        key.
        """
        from newel.agent.messages import now

        key = key.strip()
        check_key(key)
        if in_keyring:
            _keyring().set_password(SERVICE, name, key)
        stored = StoredKey(name=name, key="" if in_keyring else key, in_keyring=in_keyring, since=now())

        def change(file: _KeyFile) -> None:
            file.keys = [entry for entry in file.keys if entry.name != name] + [stored]

        update_state(self._path, _KeyFile, change)

    def remove(self, name: str) -> bool:
        """Remove a key; False if there is none. Raises ``ConfigError``."""
        stored = next((entry for entry in self.all() if entry.name == name), None)
        if stored is None:
            return False
        if stored.in_keyring:
            _keyring().delete_password(SERVICE, name)

        def change(file: _KeyFile) -> None:
            file.keys = [entry for entry in file.keys if entry.name != name]

        update_state(self._path, _KeyFile, change)
        return True

    def places(self) -> list[Place]:
        """The stored keys as settings. Raises ``ConfigError`` if the system's keyring refuses one."""
        known = vendors()
        places: list[Place] = []
        for entry in self.all():
            key = _keyring().get_password(SERVICE, entry.name) if entry.in_keyring else entry.key
            family = known.get(entry.name)
            if not key:
                continue
            if family is None:
                places.append(Place(ORIGIN, {"api_key": key}, address=entry.name))
            else:
                values = {"api_key": key, "base_url": family.base_url}
                places.append(Place(f"{ORIGIN}: {entry.name}", values, family, is_vendors=True))
        return places


class _Keyring:
    """The system's keyring, by the package ``keyring``. Its errors are ``ConfigError``."""

    def set_password(self, service: str, name: str, key: str) -> None:
        self._call("set_password", service, name, key)

    def get_password(self, service: str, name: str) -> str | None:
        return self._call("get_password", service, name)

    def delete_password(self, service: str, name: str) -> None:
        self._call("delete_password", service, name)

    def _call(self, method: str, *arguments: str) -> str | None:
        import keyring
        from keyring.errors import KeyringError

        try:
            return getattr(keyring, method)(*arguments)
        except KeyringError as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise ConfigError(
                f"The system's keyring failed: {reason.rstrip('.')}. Store the key in a file instead: "
                f"`newel keys set {arguments[1]}`."
            ) from error


def _keyring() -> _Keyring:
    from importlib.util import find_spec

    if find_spec("keyring") is None:
        raise ConfigError(
            "The package 'keyring' is missing. Install Newel with its extra `keyring`, or store the key without --keyring."
        )
    return _Keyring()
