"""Fixtures: the engines of the tests of `jobs`."""

from __future__ import annotations

from tests.unit.jobs.conftest import anyio_backend, engine, postgres

__all__ = ["anyio_backend", "engine", "postgres"]
