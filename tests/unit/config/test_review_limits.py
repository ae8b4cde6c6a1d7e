"""If these fail, a limit that a user set is not kept, is somebody else's to set, or is not what the documentation says."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from newel.agent.errors import ConfigError
from newel.app.review_limits import COPY, HUNKS, copy_limits, review_limits
from newel.config.review_settings import ReviewFile, ReviewSettings
from newel.config.settings import Flags, Settings, load_settings
from newel.review_jobs.dependencies import ReviewLimits

NAMES = ReviewSettings.__struct_fields__
DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "review.md").read_text()


def load(tmp_path: Path, toml: str = "", dotenv: str = "", **environ: str) -> Settings:
    home, cwd = tmp_path / "home", tmp_path / "project"
    for folder in (home, cwd):
        folder.mkdir(exist_ok=True)
    (home / "config.toml").write_text(toml)
    (cwd / ".env").write_text(dotenv)
    return load_settings(Flags(), cwd=cwd, environ={"NEWEL_HOME": str(home), **environ})


def in_force(settings: Settings, name: str) -> float:
    """A limit by its name in the settings."""
    limits, copied = review_limits(settings), copy_limits(settings)
    fields = {setting: field for field, setting in {**HUNKS, **COPY}.items()}
    for part in (limits, limits.tools, limits.hunks, copied):
        if hasattr(part, fields.get(name, name)):
            return getattr(part, fields.get(name, name))
    raise AssertionError(name)


def test_without_settings_the_documented_defaults_apply(tmp_path: Path) -> None:
    assert review_limits(load(tmp_path)) == ReviewLimits()


@pytest.mark.parametrize("name", NAMES)
def test_each_limit_can_be_set_in_the_file_and_the_environment_wins(tmp_path: Path, name: str) -> None:
    toml = f"[review]\n{name} = 31"
    settings = load(tmp_path, toml)
    assert in_force(settings, name) == 31
    assert settings.origins[f"review.{name}"].endswith("config.toml")
    settings = load(tmp_path, toml, **{f"NEWEL_REVIEW_{name.upper()}": " 32 "})
    assert in_force(settings, name) == 32
    assert settings.origins[f"review.{name}"] == "environment"


def test_a_project_cannot_raise_the_limits_of_a_review(tmp_path: Path) -> None:
    lines = "".join(f"NEWEL_REVIEW_{name.upper()}=999\n" for name in NAMES)
    assert review_limits(load(tmp_path, dotenv=lines)) == ReviewLimits()


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "1e99", "9" * 30, "true", "\x1b[31m"])
def test_an_impossible_value_is_refused_with_its_name_and_the_allowed_range(
    tmp_path: Path, value: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, NEWEL_REVIEW_MAX_SESSIONS=value)
    words = str(refused.value)
    assert words.startswith("environment: NEWEL_REVIEW_MAX_SESSIONS is ")
    assert "a whole number from 1 to 1,000,000,000" in words
    assert "\x1b" not in words


@pytest.mark.parametrize("value", ["0", "nan", "inf", "soon"])
def test_impossible_hours_are_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match=r"NEWEL_REVIEW_COMPLETED_TTL_HOURS.*above 0 and at most"):
        load(tmp_path, NEWEL_REVIEW_COMPLETED_TTL_HOURS=value)


@pytest.mark.parametrize("line", ["max_sessions = 0", 'max_sessions = "many"', "max_session = 3"])
def test_an_invalid_file_value_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.toml.*review"):
        load(tmp_path, f"[review]\n{line}")


def test_a_misspelt_variable_is_reported(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"'NEWEL_REVIEW_MAX_SESSION' is not a setting.*NEWEL_REVIEW_MAX_SESSIONS"
    ):
        load(tmp_path, NEWEL_REVIEW_MAX_SESSION="3")


def test_an_empty_variable_is_unset(tmp_path: Path) -> None:
    assert review_limits(load(tmp_path, NEWEL_REVIEW_MAX_SESSIONS="")) == ReviewLimits()


def test_contradictory_limits_are_reported(tmp_path: Path) -> None:
    settings = load(tmp_path, NEWEL_REVIEW_MAX_SEARCH_RESULTS_DEFAULT="60")
    with pytest.raises(ConfigError, match="60, more than max_search_results_cap, which is 50"):
        review_limits(settings)


def test_a_default_above_a_fixed_cap_is_not_cut_silently(tmp_path: Path) -> None:
    settings = load(tmp_path, "[review]\nmax_tool_calls_per_job = 500\nmax_read_bytes_default = 1000000")
    limits = review_limits(settings)
    assert limits.max_tool_calls_cap == 500
    assert limits.tools.max_read_bytes_cap == 1_000_000


def test_the_documentation_names_each_limit_with_its_default(tmp_path: Path) -> None:
    settings = load(tmp_path)
    told = dict(re.findall(r"^\| `(\w+)` \| ([\d,.]+)", DOCUMENT, re.MULTILINE))
    told = {name: value.replace(",", "") for name, value in told.items() if name in NAMES}
    assert told == {name: f"{in_force(settings, name):.15g}" for name in NAMES}
    assert msgspec.structs.asdict(ReviewFile()).keys() == {*NAMES, "record"}
