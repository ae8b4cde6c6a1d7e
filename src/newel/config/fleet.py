"""``[engine]`` and ``[fleet]`` of the user's settings, and their variables: where the jobs of many machines are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from newel.agent.errors import ConfigError

ENGINE: Final = "NEWEL_ENGINE"
STORE: Final = "NEWEL_FLEET_STORE"

_SCHEMES: Final = ("postgresql://", "postgres://")


class EngineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``url`` is the database of the fleet, for libpq: ``postgresql://USER@HOST/DATABASE?sslmode=verify-full``. Its password may be in it,
    in the variable ``PGPASSWORD`` or in the file ``~/.pgpass``.
    """

    url: str | None = None

    def is_set(self, environ: Mapping[str, str]) -> bool:
        """Whether ``find_url`` finds a value, be it one that it refuses."""
        return bool(environ.get(ENGINE) or self.url)

    def find_url(self, environ: Mapping[str, str]) -> str:
        """That of the environment, or else of the settings. Raises ``ConfigError``."""
        url = environ.get(ENGINE) or self.url or ""
        if not url:
            raise ConfigError(
                "No fleet database is set. Set NEWEL_ENGINE, or url under [engine] in ~/.newel/config.toml, "
                "to postgresql://USER@HOST/DATABASE; `newel docs fleet` says how to create one."
            )
        if not url.startswith(_SCHEMES):
            raise ConfigError(
                f"{ENGINE} must begin with postgresql://. Newel's own engine, for one machine, needs no setting."
            )
        return url


class FleetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``store`` keeps the snapshots of jobs' folders where all machines reach it: a bare git repository (a path or a URL), an object store
    (``s3://BUCKET/PREFIX``), or ``file:///FOLDER``. ``labels`` are those of this machine's worker, ``slots`` the jobs that it runs at a
    time, ``max_requests`` how many requests the model server gets at a time, from all machines. Workers delete jobs that have ended
    ``keep_days`` ago; None keeps them. With ``allow_local_repos``, jobs may clone repositories that are on this worker's disk: who submits
    them can read those then.
    """

    store: str | None = None
    labels: list[str] = []
    slots: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 4
    max_requests: Annotated[int, msgspec.Meta(ge=1)] | None = None
    keep_days: Annotated[int, msgspec.Meta(ge=1, le=36_500)] | None = None
    allow_local_repos: bool = False

    def find_store(self, environ: Mapping[str, str]) -> str:
        """Raises ``ConfigError``."""
        store = environ.get(STORE) or self.store
        if not store:
            raise ConfigError(
                "No store for the folders of jobs is set. Set NEWEL_FLEET_STORE, or store under [fleet] in ~/.newel/config.toml, "
                "to a bare git repository, s3://BUCKET/PREFIX or file:///FOLDER that all machines of the fleet reach."
            )
        return store
