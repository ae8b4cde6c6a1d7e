"""If these fail, a documented setting has no effect, or a key is sent to a server that it is not for."""

import os
from pathlib import Path

import pytest

from newel.agent.errors import ConfigError
from newel.app.secrets import configured_secrets
from newel.config.settings import (
    ON_A_HOST,
    ONLY_DOTENV,
    Flags,
    Settings,
    load_settings,
    mask_secret,
    newel_home,
)
from newel.config.trust import ServerTrust
from newel.providers.families import FAMILIES, key_variable
from newel.workspace.process.environment import child_env


def load(
    tmp_path: Path,
    environ: dict[str, str] | None = None,
    dotenv: str = "",
    toml: str = "",
    flags: Flags | None = None,
    *,
    trusted: str = "",
) -> Settings:
    """The settings of a folder whose ``.env`` may choose the server ``trusted``."""
    home, cwd = tmp_path / "home", tmp_path / "project"
    home.mkdir(exist_ok=True)
    cwd.mkdir(exist_ok=True)
    if dotenv:
        (cwd / ".env").write_text(dotenv)
    if toml:
        (home / "config.toml").write_text(toml)
    if trusted:
        ServerTrust(home).decide(str(cwd), trusted, trusted=True)
    return load_settings(flags or Flags(), cwd=cwd, environ={"NEWEL_HOME": str(home), **(environ or {})})


def test_without_settings_there_is_no_endpoint_and_the_defaults_apply(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings.endpoint is None
    assert (settings.approve, settings.thinking, settings.bash_timeout) == ("auto", "off", 30.0)
    assert settings.origins == {}


def test_sources_have_the_documented_precedence(tmp_path: Path) -> None:
    toml, dotenv, environ = 'model = "toml"', "LLM_DEFAULT_MODEL=dotenv", {"LLM_DEFAULT_MODEL": "environment"}
    assert load(tmp_path, toml=toml).model == "toml"
    assert load(tmp_path, toml=toml, dotenv=dotenv).model == "dotenv"
    assert load(tmp_path, environ, dotenv, toml).model == "environment"
    assert load(tmp_path, environ, dotenv, toml, Flags(model="flag")).model == "flag"


def test_a_key_in_a_file_is_found_by_a_program_that_is_no_command_of_newel(tmp_path: Path) -> None:
    """In a container, the library would ask without a key, and an export could contain it."""
    (tmp_path / "key").write_text("sk-from-a-file\n")
    environ = {"LLM_BASE_URL": "http://127.0.0.1:1/v1", "LLM_AUTH_TOKEN_FILE": str(tmp_path / "key")}
    endpoint = load(tmp_path, environ).endpoint
    assert endpoint is not None
    assert endpoint.api_key == "sk-from-a-file"
    assert "sk-from-a-file" in configured_secrets(tmp_path, tmp_path, environ)
    assert "LLM_AUTH_TOKEN" not in environ
    with pytest.raises(ConfigError, match="LLM_AUTH_TOKEN_FILE"):
        load(tmp_path, {"LLM_AUTH_TOKEN_FILE": str(tmp_path / "none")})


def test_llm_variables_win_over_openai_ones_as_a_pair(tmp_path: Path) -> None:
    environ = {
        "LLM_BASE_URL": "http://llm",
        "OPENAI_BASE_URL": "http://openai",
        "OPENAI_API_KEY": "sk-openai",
    }
    endpoint = load(tmp_path, environ).endpoint
    assert endpoint is not None
    assert (endpoint.base_url, endpoint.api_key) == ("http://llm", None)


def test_an_openai_key_alone_selects_openai(tmp_path: Path) -> None:
    endpoint = load(tmp_path, {"OPENAI_API_KEY": "sk-1"}).endpoint
    assert endpoint is not None
    assert (endpoint.base_url, endpoint.api_key) == ("https://api.openai.com/v1", "sk-1")


@pytest.mark.parametrize(
    ("environ", "toml"),
    [
        ({"LLM_AUTH_TOKEN": "sk-mine"}, ""),
        ({"OPENAI_API_KEY": "sk-mine"}, ""),
        ({}, 'api_key = "sk-mine"'),
    ],
)
def test_a_projects_dotenv_can_name_a_server_but_never_gets_the_users_key(
    tmp_path: Path, environ: dict[str, str], toml: str
) -> None:
    endpoint = load(tmp_path, environ, "LLM_BASE_URL=http://evil.example", toml).endpoint
    assert endpoint is None or endpoint.base_url != "http://evil.example" or endpoint.api_key is None


def test_a_key_on_the_command_line_is_used_for_the_given_server(tmp_path: Path) -> None:
    endpoint = load(tmp_path, {"LLM_BASE_URL": "http://llm/"}, flags=Flags(api_key="sk-typed")).endpoint
    assert endpoint is not None
    assert (endpoint.base_url, endpoint.api_key) == ("http://llm", "sk-typed")


def test_a_url_on_the_command_line_uses_the_environments_key(tmp_path: Path) -> None:
    endpoint = load(tmp_path, {"LLM_AUTH_TOKEN": "sk-env"}, flags=Flags(base_url="http://typed")).endpoint
    assert endpoint is not None
    assert (endpoint.base_url, endpoint.api_key) == ("http://typed", "sk-env")


KEYS = {"OPENAI_API_KEY": "sk-o", "ANTHROPIC_API_KEY": "sk-a", "GEMINI_API_KEY": "sk-g"}


@pytest.mark.parametrize(
    ("model", "url", "key", "api"),
    [
        ("gpt-5.2-codex", "https://api.openai.com/v1", "sk-o", None),
        ("o3", "https://api.openai.com/v1", "sk-o", None),
        ("claude-opus-5", "https://api.anthropic.com", "sk-a", "anthropic"),
        ("gemini-3-pro", "https://generativelanguage.googleapis.com", "sk-g", "gemini"),
        ("qwen3-coder", "https://api.openai.com/v1", "sk-o", None),
        (None, "https://api.openai.com/v1", "sk-o", None),
    ],
)
def test_of_several_vendors_the_models_own_is_asked(
    tmp_path: Path, model: str | None, url: str, key: str, api: str | None
) -> None:
    endpoint = load(tmp_path, KEYS, flags=Flags(model=model)).endpoint
    assert endpoint is not None
    assert (endpoint.base_url, endpoint.api_key, endpoint.api) == (url, key, api)


WRITTEN = "https://gateway.example/v1"


@pytest.mark.parametrize(
    ("environ", "flags", "url", "key"),
    [
        (KEYS, Flags(), WRITTEN, None),
        (KEYS | {"LLM_DEFAULT_MODEL": "qwen3-coder"}, Flags(), WRITTEN, None),
        (KEYS, Flags(model="claude-haiku-5"), "https://api.anthropic.com", "sk-a"),
        (KEYS | {"LLM_DEFAULT_MODEL": "gemini-3-pro"}, Flags(), FAMILIES[3].base_url, "sk-g"),
        (KEYS | {"OPENAI_MODEL": "gpt-5"}, Flags(), "https://api.openai.com/v1", "sk-o"),
        (KEYS | {"OPENAI_BASE_URL": "http://proxy/v1"}, Flags(), "http://proxy/v1", "sk-o"),
    ],
)
def test_a_key_alone_does_not_replace_the_server_that_the_user_has_written(
    tmp_path: Path, environ: dict[str, str], flags: Flags, url: str, key: str | None
) -> None:
    """Other programs want their keys in the environment, too: they do not choose where the code goes."""
    endpoint = load(
        tmp_path, environ, toml=f'base_url = "{WRITTEN}"\nmodel = "claude-opus-5"', flags=flags
    ).endpoint
    assert endpoint is not None
    assert (endpoint.base_url, endpoint.api_key) == (url, key)


def test_the_written_address_of_a_vendor_gets_the_exported_key(tmp_path: Path) -> None:
    settings = load(tmp_path, KEYS, toml='base_url = "https://api.anthropic.com"\nmodel = "claude-opus-5"')
    assert settings.endpoint is not None
    assert (settings.endpoint.api_key, settings.model) == ("sk-a", "claude-opus-5")


def test_a_key_alone_does_not_spare_a_projects_server_the_question(tmp_path: Path) -> None:
    toml = f'base_url = "{WRITTEN}"'
    settings = load(tmp_path, KEYS, "LLM_BASE_URL=http://evil.example", toml)
    assert settings.endpoint is not None
    assert settings.endpoint.base_url == WRITTEN
    assert settings.ignored is not None


def test_a_projects_key_is_not_used_for_a_vendors_model_unless_trusted(tmp_path: Path) -> None:
    environ, flags = {"OPENAI_API_KEY": "sk-o"}, Flags(model="claude-opus-5")
    endpoint = load(tmp_path, environ, "ANTHROPIC_API_KEY=sk-theirs", flags=flags).endpoint
    assert endpoint is not None
    assert endpoint.api_key != "sk-theirs"


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://api.openai.com/v1", "sk-o"),
        ("https://api.anthropic.com", "sk-a"),
        ("https://api.anthropic.com/v1/messages", "sk-a"),
        ("https://generativelanguage.googleapis.com/v1beta", "sk-g"),
        ("https://gateway.example/anthropic", "sk-a"),
        ("https://gateway.example/v1", "sk-o"),
        ("http://api.anthropic.com/anthropic", "sk-a"),
        ("https://api.anthropic.com.evil.example/v1", "sk-o"),
    ],
)
def test_a_typed_address_gets_the_key_of_its_own_family(tmp_path: Path, url: str, key: str) -> None:
    endpoint = load(tmp_path, KEYS, flags=Flags(base_url=url)).endpoint
    assert endpoint is not None
    assert endpoint.api_key == key


@pytest.mark.parametrize(
    "variable", ["LLM_BASE_URL", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GEMINI_BASE_URL"]
)
def test_a_vendors_key_goes_to_no_address_of_another_family(tmp_path: Path, variable: str) -> None:
    environ = {variable: "https://gateway.example/v1", **KEYS}
    environ.pop(variable.replace("BASE_URL", "API_KEY"), None)
    endpoint = load(tmp_path, environ).endpoint
    assert endpoint is not None
    assert endpoint.base_url != "https://gateway.example/v1" or endpoint.api_key is None


def test_a_vendors_key_goes_to_its_own_address_whoever_of_the_user_names_it(tmp_path: Path) -> None:
    environ = {"LLM_BASE_URL": "https://api.anthropic.com", **KEYS}
    endpoint = load(tmp_path, environ).endpoint
    assert endpoint is not None
    assert endpoint.api_key == "sk-a"


def test_a_projects_vendor_address_gets_no_key_of_the_user(tmp_path: Path) -> None:
    """It would spend the user's money for a project that only names the vendor."""
    url = "https://api.anthropic.com"
    environ = {"ANTHROPIC_MODEL": "claude-opus-5"}
    endpoint = load(tmp_path, environ, f"LLM_BASE_URL={url}", 'api_key = "mine"', trusted=url).endpoint
    assert endpoint is not None
    assert endpoint.api_key is None


def test_another_vendors_model_is_not_asked_of_the_chosen_one(tmp_path: Path) -> None:
    environ = {"OPENAI_MODEL": "gpt-5", "ANTHROPIC_API_KEY": "sk-a", "ANTHROPIC_MODEL": "claude-opus-5"}
    settings = load(tmp_path, environ)
    assert settings.endpoint is not None
    assert (settings.endpoint.api_key, settings.model) == ("sk-a", "claude-opus-5")


def test_the_api_of_an_address_can_be_set_beside_it(tmp_path: Path) -> None:
    url = "http://gateway.example/v1"
    for settings in (
        load(tmp_path, {"LLM_BASE_URL": url, "LLM_API": "anthropic"}),
        load(tmp_path, toml=f'base_url = "{url}"\napi = "anthropic"'),
        load(tmp_path, {"LLM_BASE_URL": url}, flags=Flags(api="anthropic")),
    ):
        assert settings.endpoint is not None
        assert settings.endpoint.api == "anthropic"
    with pytest.raises(
        ConfigError, match=r"The API 'grpc' \(environment: LLM_\*\) is unknown\. Use one of chat,"
    ):
        load(tmp_path, {"LLM_BASE_URL": url, "LLM_API": "grpc"})


def test_common_forms_of_dotenv_lines_are_read(tmp_path: Path) -> None:
    text = "# mine\nexport LLM_BASE_URL='http://a'\nLLM_AUTH_TOKEN=\"k y\"\nLLM_DEFAULT_MODEL=m # note\nPATH=/evil\n"
    settings = load(tmp_path, dotenv=text, trusted="http://a")
    assert settings.endpoint is not None
    assert (settings.endpoint.base_url, settings.endpoint.api_key, settings.model) == ("http://a", "k y", "m")


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("modle = 'x'", r"config\.toml, line 1: modle: unknown setting \(did you mean `model`\?\)"),
        (
            "approve = 'yolo'",
            r"approve: invalid value 'yolo'; valid values are auto, ask, review, plan, read-only",
        ),
        ("[sandbox]\nenabled = false", r"sandbox\.enabled: unknown setting; valid settings are mode, "),
        (
            '[sandbox]\nmode = "none"',
            r"line 2: sandbox\.mode: invalid value 'none'; valid values are workspace, read-only, partial, off",
        ),
        ("model = ", "config.toml"),
        ("limits = 3", "limits"),
        ('[remote.connection]\nport = "x"', r"config\.toml, line 2: remote\.connection\.port: expected"),
        (
            '[remote.routines]\nok = {cmd = "df"}\nlogs = {cmd = "logs {name}", variables = ["lines"]}',
            r"config\.toml, line 3: remote\.routines\.logs: the variable lines is not used.*Correct the file",
        ),
        (
            '[remote.routines]\n"my logs" = {cmd = "df", variables = [3]}',
            r'config\.toml, line 2: remote\.routines\."my logs"\.variables\[0\]: expected',
        ),
        (
            '[models."a.b"]\ncontext_window = 0',
            r'config\.toml, line 2: models\."a\.b"\.context_window: expected a whole number of at least 1\.',
        ),
        (
            '[models."a.b"]\ncontext_windw = 5',
            r'config\.toml, line 2: models\."a\.b": unknown setting `context_windw` \(did you mean `context_window`\?\)',
        ),
        ("bash_timeout = '30s'", r"bash_timeout: expected a number, got a string\."),
        ("[limits]\nmaxCost = -1", r"limits\.maxCost: expected a number above 0\."),
        (
            "[sandbox]\ndomains = 'pypi.org'",
            r'line 2: sandbox\.domains: expected a list, got a string; write \["pypi\.org"\]\.',
        ),
        ("[permissions]\nallow = [3]", r"permissions\.allow\[0\]: expected a string, got a whole number\."),
        (
            "extra_tools = ['tood']",
            r"extra_tools\[0\]: invalid value 'tood'; valid values are todo, task, bash_output, web_fetch\.",
        ),
        (
            "[[hooks.PreToolUse]]\n\ncomand = 'x'",
            r"line 3: hooks\.PreToolUse\[0\]: unknown setting `comand` \(did you mean `command`\?\)",
        ),
        (
            "model = 'x'\n\n[[hooks.PreToolUs]]\ncommand = 'x'\n[[hooks.PreToolUs]]\ncommand = 'y'",
            r"line 3: hooks\.PreToolUs: unknown setting \(did you mean `PreToolUse`\?\)",
        ),
        ("hooks.Stop = ['x']", r"hooks\.Stop\[0\]: expected a table, got a string\."),
    ],
)
def test_an_invalid_config_file_is_refused_with_its_name_and_the_reason(
    tmp_path: Path, toml: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, toml=toml)


def test_an_invalid_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must begin with http"):
        load(tmp_path, {"LLM_BASE_URL": "localhost:8000"})


def test_a_masked_secret_cannot_be_used_as_a_key() -> None:
    assert mask_secret("sk-0123456789abcdefghij") == "sk-…ij"
    assert mask_secret("short") == "set"
    assert mask_secret(None) == "none"


STRANGER = "LLM_BASE_URL=https://stranger.example/v1\nLLM_AUTH_TOKEN=theirs\n"


THEIRS = "https://stranger.example/v1"


@pytest.mark.parametrize(
    ("dotenv", "trusted"),
    [(STRANGER, THEIRS), ("LLM_BASE_URL=ollama://stranger.example", "ollama://stranger.example:11434")],
)
def test_a_trusted_server_of_a_projects_dotenv_still_needs_approval_for_calls(
    tmp_path: Path, dotenv: str, trusted: str
) -> None:
    """Letting a server see the project does not let it run anything, or read outside of the project."""
    settings = load(tmp_path, dotenv=dotenv, toml='approve = "auto"', trusted=trusted)
    assert (settings.approve, settings.origins["approve"]) == ("ask", ONLY_DOTENV)
    assert load(tmp_path, dotenv=dotenv, flags=Flags(approve="auto")).approve == "auto"


def test_work_on_a_host_warns_about_a_projects_server_too(tmp_path: Path) -> None:
    there = Flags(host="shop")
    known = load(tmp_path, dotenv=STRANGER, flags=there, trusted=THEIRS)
    assert known.origins["approve"] == ONLY_DOTENV
    toml = '[remote.model]\nname = "phi3"'
    own = load(tmp_path, dotenv=STRANGER, toml=toml, flags=there)
    assert (own.approve, own.origins["approve"]) == ("ask", ON_A_HOST)


def test_a_local_or_user_configured_server_has_the_users_approval_preset(tmp_path: Path) -> None:
    ollama = "http://127.0.0.1:11434/v1"
    assert load(tmp_path, dotenv=f"LLM_BASE_URL={ollama}", trusted=ollama).approve == "auto"
    named = load(tmp_path, dotenv="LLM_BASE_URL=ollama://localhost", trusted="ollama://localhost:11434")
    assert (named.approve, named.ignored) == ("auto", None)
    assert load(tmp_path, {"LLM_BASE_URL": "https://mine.example/v1"}, dotenv=STRANGER).approve == "auto"


@pytest.mark.parametrize(
    "toml",
    [
        "bash_timeout = -5",
        '[terminal]\nediting = "nano"',
        "bash_timeout = nan",
        "[limits]\nmaxTurns = 0",
        "[limits]\nmaxCost = -1",
        "[limits]\nmaxtruns = 1",
        '[models."m"]\ncontext_window = -5',
    ],
)
def test_an_invalid_setting_is_refused(tmp_path: Path, toml: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.toml"):
        load(tmp_path, toml=toml)


@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "folder", "huge"])
def test_a_special_file_at_dotenv_cannot_hang_the_start(tmp_path: Path, kind: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    dotenv = project / ".env"
    match kind:
        case "pipe":
            os.mkfifo(dotenv)
        case "device":
            dotenv.symlink_to("/dev/zero")
        case "loop":
            dotenv.symlink_to(dotenv)
        case "folder":
            dotenv.mkdir()
        case _:
            with dotenv.open("wb") as stream:
                stream.truncate(2**40)
    assert load(tmp_path).endpoint is None


def test_an_unusable_home_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="NEWEL_HOME"):
        newel_home({"NEWEL_HOME": "~nobody-of-that-name/x"})
    with pytest.raises(ConfigError, match="HOME"):
        newel_home({"HOME": ""})


def test_a_password_in_a_url_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, {"LLM_BASE_URL": "ftp://me:s3cret@host/"})
    assert "s3cret" not in str(refused.value)


def test_an_unknown_setting_is_reported_with_its_line_and_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, toml='# mine\nmodel = "m"\n\naprove = "ask"\n')
    assert f"{tmp_path}/home/config.toml, line 4: " in str(refused.value)
    assert "aprove: unknown setting (did you mean `approve`?)" in str(refused.value)


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        ("https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("https://api.example/v1", "LLM_AUTH_TOKEN"),
    ],
)
def test_a_missing_key_is_asked_for_by_the_variable_of_its_vendor(url: str, variable: str) -> None:
    assert key_variable(url) == variable


def test_commands_see_no_variable_of_a_model_server() -> None:
    """A model could read the user's keys, and where they are sent."""
    environ = {name: "x" for family in FAMILIES for name in family.variables.values()}
    assert not set(environ) & set(child_env(environ))


def test_the_name_of_a_pulled_model_is_its_file_in_newels_folder(tmp_path: Path) -> None:
    path = f"llamacpp:{tmp_path}/home/models/qwen3-4b.gguf"
    settings = load(
        tmp_path, {"LLM_BASE_URL": "llamacpp:qwen3-4b"}, toml='[local]\nbase_url = "llamacpp:qwen3-4b"'
    )
    assert settings.endpoint is not None
    assert settings.endpoint.base_url == path
    assert settings.local.base_url == path
    assert load(tmp_path, {"LLM_BASE_URL": "http://host/v1"}, toml="#").local.base_url is None


def test_the_model_of_another_server_is_not_requested_from_a_model_file(tmp_path: Path) -> None:
    """Otherwise `--base-url llamacpp:NAME` fails for everyone who has set a default model."""
    environ = {"LLM_BASE_URL": "http://host/v1", "LLM_DEFAULT_MODEL": "big", "LLM_SMALL_FAST_MODEL": "small"}
    flags = Flags(base_url="llamacpp:/models/a.gguf")
    settings = load(tmp_path, environ, toml='model = "other"', flags=flags)
    assert (settings.model, settings.small_model) == (None, None)
    typed = Flags(base_url="llamacpp:/models/a.gguf", model="b.gguf")
    assert load(tmp_path, environ, flags=typed).model == "b.gguf"
    own = {"LLM_BASE_URL": "llamacpp:/models/a.gguf", "LLM_DEFAULT_MODEL": "a.gguf"}
    assert load(tmp_path, own, toml='model = "other"').model == "a.gguf"
