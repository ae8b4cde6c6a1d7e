"""If these fail, Newel copies keys into its folder, or holds harmless files in memory in place of recording them."""

from __future__ import annotations

import random
import string
import time

import pytest

from newel.permissions.key_texts import LARGEST, holds_keys, kind_of

HEX = "0123456789abcdef"
RANDOM = random.Random(7)  # noqa: S311 — no secrets
BASE62 = string.ascii_letters + string.digits


def value(length: int, letters: str = BASE62) -> str:
    """No real key, but one in shape."""
    return "".join(RANDOM.choices(letters, k=length - 2)) + ("a7" if letters == HEX else "q7")


def found(path: str, text: str) -> bool:
    data = text.encode()
    return holds_keys(data, kind_of(path, data))


UPPER = string.ascii_uppercase + "234567"

KEYS = {
    "config.json": '{"server": "https://api.example", "api_token": "' + value(32) + '"}',
    "settings.ini": f"[database]\nhost = db\npassword = {value(20)}\n",
    "a/docker-compose.yml": f"environment:\n  POSTGRES_PASSWORD: {value(24)}\n",
    "notes": f"the staging key: {value(40, HEX)}\n",
    "run.sh": f"export STRIPE_SECRET={value(32)}\n",
    "app.py": f"API_KEY = '{value(32)}'\n",
    "web.config": f"<clientSecret>{value(32)}</clientSecret>",
    "aws.txt": "AKIA" + value(16, UPPER).upper(),
    "github.md": "use ghp_" + value(36),
    "openai.js": "new OpenAI({ apiKey: 'sk-proj-" + value(48) + "' })",
    "alembic.ini": f"sqlalchemy.url = postgresql://shop:{value(18)}@db.example/shop\n",
    "slack.yml": "hook: xoxb-" + value(12, string.digits) + "-" + value(24),
    "gitlab.txt": "glpat-" + value(20),
    "google.html": "maps?key=AIza" + value(35),
    "jwt.log": f"Authorization: Bearer eyJ{value(30)}.eyJ{value(60)}.{value(43)}",
}

HARMLESS = {
    "urls.json": '{"url": "https://reader:password@db.example/shop/2024-01-01"}',
    "uuid.json": '{"key": "6f1c1e0a-7b43-4c8b-9d6e-2f0f6a1b9c3d"}',
    "package-lock.json": '{"token": "' + value(32) + '"}',
    "sub/uv.lock": f'secret = "{value(40)}"',
    "index.html": f'<script integrity="sha512-{value(86)}=="></script>',
    "hash.json": '{"cacheKey": "' + value(40, HEX) + '", "key": "sha256-' + value(43) + '"}',
    "example.toml": 'api_key = "your-api-key-goes-here-123456"\ntoken = "changeme-changeme-1234"\n',
    "variable.yml": "token: ${{ secrets.DEPLOY_TOKEN_2024 }}\npassword: ${DB_PASSWORD_FOR_2024}\n",
    "reads.py": 'token = os.environ["SERVICE_TOKEN_V2"]\nkey = load_key_from_vault_v2_2024(name)\n',
    "x.txt": "AKIAIOSFODNN7EXAMPLE\nghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\nsk-0000000000000000000000000000000000000000",
    "id.pub": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + value(40) + " me@host",
    "README": "* me@host, GPG key: " + value(39, "0123456789ABCDEF")[:-2] + "A7F",
    "public.json": '{"publicKey": "' + value(44) + '"}',
    "table.sql": "primary_key = order_items_2024_partition_07",
    "style.css": ".sk-circle-fade-dot-animation-01-keyframes-20 {}",
    "typed.py": "def f(key: x25519.X25519PrivateKey) -> MLKEM768X25519PrivateKey: ...",
    "words.json": '{"token": "authorization-code-2-with-refresh-1"}',
    "paths.ini": "key = /etc/ssl/certs/server2024.crt\npassword_file = ./secrets/db_password_2024.txt",
}


@pytest.mark.parametrize("path", KEYS)
def test_keys_are_found(path: str) -> None:
    assert found(path, KEYS[path])


@pytest.mark.parametrize("path", HARMLESS)
def test_what_only_looks_like_keys_is_not(path: str) -> None:
    assert not found(path, HARMLESS[path])


def test_long_texts_take_no_time() -> None:
    """A first look reads 100,000 files."""
    letters = (BASE62 + " \n=:\"'/._-") * (LARGEST // 80)
    texts = [
        "key" * (LARGEST // 3),
        "a1" * (LARGEST // 2 - 1),
        "token=" * (LARGEST // 6),
        "key: " + " " * (LARGEST - 10),
        "eyJ" * (LARGEST // 3),
        "sk-" * (LARGEST // 3),
        letters,
    ]  # fmt: skip
    began = time.perf_counter()
    for text in texts:
        found("data.json", text[:LARGEST])
    assert time.perf_counter() - began < 1
