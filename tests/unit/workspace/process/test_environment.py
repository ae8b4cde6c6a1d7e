"""If these fail, commands inherit keys, open a pager or wait at a prompt that nobody answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from newel.workspace.local import LocalWorkspace
from newel.workspace.process.environment import child_env, is_secret


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "LLM_AUTH_TOKEN",
        "GH_TOKEN",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "PGPASSWORD",
        "MYSQL_PWD",
        "GITHUB_PAT",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "DJANGO_SECRET_KEY",
        "openai_api_key",
        "STRIPE_APIKEY",
        "NPM_AUTH",
        "DB_PASS",
        "TS_AUTHKEY",
        "npm_config__authToken",
        "GITHUB_ACCESSTOKEN",
        "CLIENTSECRET",
        "PRIVATEKEY",
        "SSHPASS",
        "LDAP_BINDPW",
        "CI_JOB_JWT",
        "SESSION_COOKIE",
        "DOCKER_AUTH_CONFIG",
        "WALLET_MNEMONIC",
        "GEMINI_API_KEY_2",
        "OPENAI_API_KEY2",
        "API_KEY_PROD",
        "ENCRYPTION_KEY_V2",
        "LDAP_BIND_PW",
        "DBPASS",
        "K8S_BEARER",
        "JWT",
        "HTTP_AUTHORIZATION",
        "SLACK_WEBHOOK_URL",
        "WALLET_SEED_PHRASE",
        "GOOGLE_SERVICE_ACCOUNT_JSON",
        "TLS_KEY_PEM",
    ],
)
def test_keys_do_not_reach_a_command(name: str) -> None:
    assert is_secret(name)
    assert name not in child_env({name: "x"})
    assert child_env({name: "x"}, keep=[name])[name] == "x"


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "PWD",
        "OLDPWD",
        "AWS_REGION",
        "AWS_PROFILE",
        "SSH_AUTH_SOCK",
        "TOKENIZERS_PARALLELISM",
        "HTTPS_PROXY",
        "PIP_INDEX_URL",
        "GIT_ASKPASS",
        "SSH_ASKPASS",
        "KEYBOARD",
        "MONKEY",
        "COOKIECUTTER_CONFIG",
        "AUTHORIZED_KEYS_FILE",
        "GOOGLE_SERVICE_ACCOUNT",
        "PEM_FILE",
        "BYPASS",
        "XDG_CONFIG_HOME",
        "KEY_FILE",
        "DATABASE_URL",
    ],
)
def test_build_variables_reach_a_command(name: str) -> None:
    assert child_env({name: "x"})[name] == "x"


@pytest.mark.parametrize("name", ["LLM_BASE_URL", "OPENAI_BASE_URL", "LLM_DEFAULT_MODEL", "openai_base_url"])
def test_a_command_does_not_see_the_agents_connection(name: str) -> None:
    """A URL may contain a name and a password: `http://user:password@host/v1`."""
    assert name not in child_env({name: "http://user:password@host/v1"})
    assert child_env({name: "x"}, keep=[name])[name] == "x"


def test_nothing_waits_for_a_terminal_and_nothing_is_sourced() -> None:
    env = child_env(
        {"BASH_ENV": "/evil", "ENV": "/evil", "FORCE_COLOR": "1", "TERM": "xterm", "PAGER": "less"}
    )
    assert not {"BASH_ENV", "ENV", "FORCE_COLOR"} & set(env)
    assert (env["TERM"], env["PAGER"], env["GIT_PAGER"], env["GIT_TERMINAL_PROMPT"]) == (
        "dumb",
        "cat",
        "cat",
        "0",
    )
    assert child_env({}, {"TERM": "xterm"})["TERM"] == "xterm"


def test_uv_links_no_file_of_a_project_to_its_cache_unless_the_user_says_so() -> None:
    assert child_env({})["UV_LINK_MODE"] == "copy"
    assert child_env({"UV_LINK_MODE": "hardlink"})["UV_LINK_MODE"] == "hardlink"


@pytest.mark.anyio
async def test_a_command_sees_the_given_environment(tmp_path: Path) -> None:
    environ = child_env({"PATH": "/usr/bin:/bin", "MY_API_KEY": "hidden", "PLAIN": "seen"})
    workspace = LocalWorkspace(str(tmp_path), environ=environ)
    done = await workspace.run("echo $PLAIN-$MY_API_KEY-$TERM-$MORE", env={"MORE": "added"})
    assert done.stdout == "seen--dumb-added\n"
