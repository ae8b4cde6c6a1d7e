"""The model server: which one the settings select, the API it speaks, and the key that may be sent to it.

A *place* is where settings stand: the command line, a family of environment variables, the same family in a project's ``.env``,
the user's file. The first place with an address selects the server; the key is that of the same place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast, get_args

import msgspec

from newel.agent.errors import ConfigError
from newel.providers.families import FAMILIES, OPENAI_URL, Api, Family, find_api, is_address_of
from newel.providers.http.urls import (
    HTTP,
    LLAMACPP,
    OLLAMA,
    extension_provider,
    model_file_path,
    pulled_model,
    server_address,
)
from newel.storage.files import read_regular
from newel.text.sanitize import redact_url

MODELS: Final = "models"
"""The folder of pulled models, in Newel's home."""


class EndpointSettings(msgspec.Struct, frozen=True):
    """A server and its key, each with its origin. ``api`` is the API it is said to speak; None if its address decides.
    ``found_as`` describes a server that was found on a port of this machine; it is empty for a configured one.
    """

    base_url: str
    origin: str
    api_key: str | None = None
    key_origin: str | None = None
    found_as: str = ""
    api: Api | None = None


class Place(msgspec.Struct, frozen=True):
    """Settings and their origin. ``family`` is that of variables. ``is_vendors`` tells that the address is the vendor's own, which
    only follows from a key. ``is_users`` is false for what a project sets. With an ``address``, the key is for that server only.
    """

    origin: str
    values: Mapping[str, object]
    family: Family | None = None
    is_vendors: bool = False
    is_users: bool = True
    address: str = ""

    @property
    def vendor(self) -> Family | None:
        """The family, if it is a vendor's."""
        return self.family if self.family and self.family.base_url else None


def read_variables(origin: str, environ: Mapping[str, str], *, is_users: bool = True) -> list[Place]:
    """The settings of each family in an environment. A vendor's key alone selects the vendor's address; see ``yield_to_file``."""
    places: list[Place] = []
    for family in FAMILIES:
        values: dict[str, object] = {
            setting: environ[name] for setting, name in family.variables.items() if environ.get(name)
        }
        is_vendors = bool(family.base_url) and "api_key" in values and "base_url" not in values
        if is_vendors:
            values["base_url"] = family.base_url
        places.append(Place(f"{origin}: {family.name}_*", values, family, is_vendors, is_users))
    return places


def read_dotenv(path: Path) -> dict[str, str]:
    """Parse ``NAME=value`` lines with ``export``, comments and quotes as in a shell, but without expansion. Only the variables
    of a family count.
    """
    try:
        text = read_regular(path).decode(errors="replace")
    except OSError:  # a project may have anything of this name
        return {}
    known_names = {name for family in FAMILIES for name in family.variables.values()}
    values: dict[str, str] = {}
    for line in text.split("\n"):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not equals or name.strip() not in known_names:
            continue
        value = value.strip()
        if value[:1] in {'"', "'"} and value.endswith(value[0]) and len(value) > 1:
            value = value[1:-1]
        else:
            value = value.split(" #", 1)[0].rstrip()
        values[name.strip()] = value
    return values


def choose_endpoint(places: Sequence[Place]) -> EndpointSettings | None:
    """The first address, with the key of the same place; a key on the command line goes to any address. Of several vendors
    that only have keys, the one of the requested model comes first. Raises ``ConfigError`` for an invalid address or API.
    """
    typed = places[0]
    place = _place_of_address(places)
    if place is None:
        key = typed.values.get("api_key")
        return EndpointSettings(OPENAI_URL, "default", str(key), typed.origin) if key else None
    base_url = str(place.values["base_url"]).strip().rstrip("/")
    is_http = base_url.lower().startswith(tuple(f"{scheme}://" for scheme in (*HTTP, *OLLAMA)))
    others = (pulled_model, model_file_path, extension_provider)
    if not is_http and all(read(base_url) is None for read in others):
        raise ConfigError(
            f"The base URL '{redact_url(base_url)}' ({place.origin}) must begin with http://, https://, ollama://, llamacpp: or extension:."
        )
    api = _api(typed, place)
    for key_place in _key_places(places, place, base_url, api):
        if key := key_place.values.get("api_key"):
            return EndpointSettings(base_url, place.origin, str(key), key_place.origin, api=api)
    return EndpointSettings(base_url, place.origin, api=api)


def with_model_path(base_url: str, home: Path) -> str:
    """The address with the path of a pulled model in place of its name; other addresses are unchanged. The name of the user's file
    tells what model it is, not the short one that they gave it.
    """
    name = pulled_model(base_url)
    return base_url if name is None else f"{LLAMACPP}{Path(home, MODELS, f'{name}.gguf').resolve()}"


def model_places(places: Sequence[Place], endpoint: EndpointSettings | None) -> Iterator[Place]:
    """The places whose models the server may have: none of another vendor. A model file has one model, so that only its own
    place, or the command line, may name another one.
    """
    origin = endpoint.origin if endpoint else ""
    if endpoint and endpoint.base_url.lower().startswith(LLAMACPP):
        yield from (place for place in places if place.origin in (places[0].origin, origin))
        return
    vendor = next((place.vendor for place in places if place.origin == origin), None)
    for place in places:
        if vendor is None or place.vendor in (None, vendor):
            yield place


def _place_of_address(places: Sequence[Place]) -> Place | None:
    with_address = [place for place in places if place.values.get("base_url")]
    first = next(iter(with_address), None)
    if first is None or not first.is_vendors:
        return first
    model = _named_model(places)
    # A project's key was not asked about if the user's own key has chosen a server already.
    allowed = (place for place in with_address if place.is_users or not first.is_users)
    fitting = (place for place in allowed if place.is_vendors and _has_model(place, model))
    return next(fitting, first)


def yield_to_file(stronger: Sequence[Place], file: Place) -> list[Place]:
    """The places above the user's file, in which no vendor's address follows from a key alone if the file names a server: the key may be
    there for other programs. It does follow if the environment names a model for that vendor, or the command line one of the vendor's.
    """
    if not file.values.get("base_url"):
        return list(stronger)
    model = _named_model(stronger)
    return [
        place
        if not place.is_vendors or place.values.get("model") or _has_model(place, model)
        else msgspec.structs.replace(
            place,
            is_vendors=False,
            values={name: value for name, value in place.values.items() if name != "base_url"},
        )
        for place in stronger
    ]


def _named_model(places: Sequence[Place]) -> str:
    """The model that is named for whatever server."""
    models = (place.values.get("model") for place in places if place.vendor is None)
    return str(next(filter(None, models), ""))


def _has_model(place: Place, model: str) -> bool:
    return place.vendor is not None and place.vendor.has_model(model)


def _api(typed: Place, place: Place) -> Api | None:
    """The API that the command line or the address's own place names, else that of its family."""
    for named in dict.fromkeys([typed.origin, place.origin]):
        values = typed.values if named == typed.origin else place.values
        if api := values.get("api"):
            if api not in get_args(Api):
                raise ConfigError(
                    f"The API '{str(api)[:40]}' ({named}) is unknown. Use one of {', '.join(get_args(Api))}."
                )
            return cast("Api", api)
    return place.family.api if place.family else None


def _key_places(places: Sequence[Place], place: Place, base_url: str, api: Api | None) -> Iterator[Place]:
    """The places whose keys may be sent to an address from ``place``: the command line, the same place, and a vendor's variables
    for the vendor's own address. A typed address also gets the user's other keys, except those of vendors with another API.
    """
    typed = places[0]
    yield typed
    if place is not typed:
        yield place
    for candidate in places:
        vendor = candidate.vendor
        if candidate in (typed, place) or not (candidate.is_users and place.is_users):
            continue
        if candidate.address:
            if candidate.address == server_address(base_url):
                yield candidate
        elif vendor is None:
            if place is typed:
                yield candidate
        elif is_address_of(vendor.name, base_url) or (place is typed and _speaks(vendor, base_url, api)):
            yield candidate


def _speaks(vendor: Family, base_url: str, api: Api | None) -> bool:
    """Whether an address speaks a vendor's API, without being another vendor's address."""
    spoken = api or find_api(base_url) or "chat"
    is_another = any(
        family.base_url and family != vendor and is_address_of(family.name, base_url) for family in FAMILIES
    )
    return not is_another and spoken in ((vendor.api,) if vendor.api else ("chat", "responses"))


def checked_replicas(urls: Sequence[str], endpoint: EndpointSettings | None, path: str) -> list[str]:
    """The replicas that the user's file ``path`` names, if the server is that of the file, too: they get its key. Raises
    ``ConfigError``.
    """
    for url in urls:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"{path}: replicas: {redact_url(url)!r} must begin with http:// or https://.")
    is_files = endpoint is not None and endpoint.origin == path
    return [url.rstrip("/") for url in urls] if is_files else []
