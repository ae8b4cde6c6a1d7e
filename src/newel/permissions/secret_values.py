"""Places that hold secrets: one table, with a reason in each row.

    ~/name      below any user's home; a folder includes its contents
    /name       of the system; ``*`` matches one name; on macOS also below /private
    name        a file of this name anywhere; ``*`` matches any characters

The rows come from the rules of secret scanners (gitleaks, trufflehog), the exclusions of backup tools and other
agents, and the documentation of the programs named. The table is in lower case; paths are compared without regard
to case, as on many file systems.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Row(msgspec.Struct, frozen=True):
    pattern: str
    reason: str


def _rows(reason: str, *patterns: str) -> list[Row]:
    return [Row(pattern, reason) for pattern in patterns]


SECRET: Final[tuple[Row, ...]] = (
    *_rows("Newel's own keys, sessions and records", "~/.newel"),
    *_rows("private keys of SSH, and who may log in", "~/.ssh", "/etc/ssh/ssh_host_*_key"),
    *_rows(
        "a private key of SSH", "id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"
    ),
    *_rows("private keys of GnuPG", "~/.gnupg"),
    *_rows(
        "private keys of age, sops, smallstep and NSS", "~/.config/age", "~/.config/sops", "~/.step", "~/.pki"
    ),
    *_rows("private keys of certificates", "/etc/ssl/private", "/etc/letsencrypt", "/etc/pki/tls/private"),
    # -- clouds
    *_rows("credentials of AWS", "~/.aws", "~/.boto", "~/.s3cfg"),
    *_rows("credentials of Azure", "~/.azure"),
    *_rows("credentials of Google Cloud", "~/.config/gcloud"),
    *_rows("credentials of Oracle, Alibaba, IBM clouds", "~/.oci", "~/.aliyun", "~/.bluemix"),
    *_rows(
        "tokens of hosting providers",
        *(
            "~/.config/doctl",
            "~/.config/hcloud",
            "~/.config/linode-cli",
            "~/.config/scw",
            "~/.fly",
            "~/.railway",
        ),
        *(
            "~/.config/netlify",
            "~/.wrangler",
            "~/.config/.wrangler",
            "~/.local/share/com.vercel.cli",
            "~/.vercel",
        ),
        *("~/.cloudflared", "~/.config/ngrok", "~/.ngrok2", "~/.config/heroku"),
    ),
    *_rows(
        "credentials of remote storage", "~/.config/rclone", "~/.rclone.conf", "~/.mc", "~/.config/openstack"
    ),
    *_rows("credentials of Terraform and Pulumi", "~/.terraform.d", "~/.terraformrc", "~/.pulumi"),
    *_rows("a token of Vault", "~/.vault-token"),
    # -- containers
    *_rows("credentials of Kubernetes", "~/.kube", "~/.minikube", "/etc/kubernetes", "~/.config/helm"),
    *_rows("credentials of container registries", "~/.docker/config.json", "~/.config/containers/auth.json"),
    *_rows("secrets given to a container", "/run/secrets", "/var/run/secrets"),
    # -- code hosts and package registries
    *_rows("passwords for many programs", "~/.netrc", "~/_netrc"),
    *_rows("passwords of git", "~/.git-credentials", "~/.config/git/credentials"),
    *_rows("tokens of code hosts", "~/.config/gh", "~/.config/hub", "~/.config/glab-cli", "~/.config/tea"),
    *_rows("tokens of Python's registries", "~/.pypirc", "~/.config/pypoetry/auth.toml"),
    *_rows("tokens of JavaScript's registries", "~/.npmrc", "~/.yarnrc.yml", "~/.yarnrc"),
    *_rows("tokens of Ruby's registry", "~/.gem/credentials", "~/.local/share/gem/credentials"),
    *_rows("tokens of Rust's registry", "~/.cargo/credentials", "~/.cargo/credentials.toml"),
    *_rows(
        "passwords of Java's repositories",
        *("~/.m2/settings.xml", "~/.m2/settings-security.xml", "~/.gradle/gradle.properties"),
    ),
    *_rows("tokens of PHP's registry", "~/.composer/auth.json", "~/.config/composer/auth.json"),
    *_rows("tokens of NuGet", "~/.nuget/nuget/nuget.config", "~/.config/nuget"),
    # -- models, other agents
    *_rows("tokens of model and data hubs", "~/.huggingface", "~/.cache/huggingface/token", "~/.kaggle"),
    *_rows(
        "tokens of other agents",
        *(
            "~/.claude/.credentials.json",
            "~/.claude.json",
            "~/.codex/auth.json",
            "~/.gemini/oauth_creds.json",
        ),
        *(
            "~/.config/github-copilot",
            "~/.local/share/opencode/auth.json",
            "~/.pi/agent/auth.json",
            "~/.vibe/.env",
        ),
    ),
    # -- databases
    *_rows(
        "passwords of databases",
        *(
            "~/.pgpass",
            "~/.my.cnf",
            "~/.mylogin.cnf",
            "~/.dbt/profiles.yml",
            "~/.snowsql",
            "~/.databrickscfg",
        ),
    ),
    # -- passwords and wallets
    *_rows(
        "a password store",
        *("~/.password-store", "~/.local/share/keyrings", "~/.local/share/kwalletd", "~/.config/1password"),
        *("~/.config/op", "~/.op", "~/.config/bitwarden", "~/.config/bitwarden cli", "*.kdbx"),
        *("~/library/keychains", "/library/keychains", "~/library/application support/1password"),
        *("~/library/application support/bitwarden", "~/library/group containers/2bua8c4s2c.com.1password"),
    ),
    *_rows("a wallet", "~/.bitcoin", "~/.ethereum", "~/.config/solana", "~/.electrum", "wallet.dat"),
    # -- browsers and mail
    *_rows(
        "logins and cookies of a browser",
        *(
            "~/.mozilla",
            "~/.librewolf",
            "~/.config/google-chrome",
            "~/.config/chromium",
            "~/.config/bravesoftware",
        ),
        *(
            "~/.config/microsoft-edge",
            "~/.config/vivaldi",
            "~/.config/opera",
            "~/snap/firefox",
            "~/snap/chromium",
        ),
        *(
            "~/.var/app/org.mozilla.firefox",
            "~/.var/app/com.google.chrome",
            "~/.var/app/org.chromium.chromium",
        ),
        *("~/library/cookies", "~/library/safari", "~/library/application support/google/chrome"),
        *("~/library/application support/chromium", "~/library/application support/firefox"),
        *("~/library/application support/bravesoftware", "~/library/application support/microsoft edge"),
        *("~/library/application support/vivaldi", "~/library/application support/arc"),
        *("~/library/application support/com.operasoftware.opera", "~/library/containers/com.apple.safari"),
    ),
    *_rows(
        "mail and messages", "~/.thunderbird", "~/library/mail", "~/library/messages", "~/library/thunderbird"
    ),
    # -- what was typed
    *_rows(
        "a history of commands, where passwords end up",
        *(
            "~/.bash_history",
            "~/.zsh_history",
            "~/.zhistory",
            "~/.histfile",
            "~/.sh_history",
            "~/.ksh_history",
        ),
        *("~/.local/share/fish/fish_history", "~/.zsh_sessions", "~/.bash_sessions", "~/.python_history"),
        *(
            "~/.psql_history",
            "~/.mysql_history",
            "~/.sqlite_history",
            "~/.rediscli_history",
            "~/.node_repl_history",
        ),
    ),
    # -- the system
    *_rows(
        "passwords of the system",
        *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd"),
        *("/etc/sudoers", "/etc/sudoers.d", "/etc/master.passwd", "/var/db/dslocal"),
    ),
    *_rows("keys of Kerberos", "/etc/krb5.keytab", "/tmp/krb5cc_*"),  # noqa: S108 — where Kerberos puts them
    *_rows(
        "the environment, arguments and memory of processes, where keys are",
        *("/proc/*/environ", "/proc/*/mem", "/proc/*/cmdline", "/proc/kcore"),
        *("/proc/*/task/*/environ", "/proc/*/task/*/mem", "/proc/*/task/*/cmdline"),
    ),
)
"""Never opened by Newel's tools, in any mode, unless the user's own settings allow it."""

VARIABLES: Final[tuple[Row, ...]] = (
    *_rows("private keys of GnuPG", "GNUPGHOME"),
    *_rows("a password store", "PASSWORD_STORE_DIR"),
    *_rows(
        "credentials of AWS", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE"
    ),
    *_rows("credentials of Azure", "AZURE_CONFIG_DIR"),
    *_rows("credentials of Google Cloud", "CLOUDSDK_CONFIG", "GOOGLE_APPLICATION_CREDENTIALS"),
    *_rows("credentials of Kubernetes", "KUBECONFIG"),
    *_rows("credentials of container registries", "DOCKER_CONFIG", "REGISTRY_AUTH_FILE"),
    *_rows("passwords for many programs", "NETRC"),
    *_rows("tokens of JavaScript's registries", "NPM_CONFIG_USERCONFIG", "npm_config_userconfig"),
    *_rows("passwords of databases", "PGPASSFILE"),
    *_rows("a token of a model hub", "HF_TOKEN_PATH"),
    *_rows("keys of sops", "SOPS_AGE_KEY_FILE"),
    *_rows("a history of commands, where passwords end up", "HISTFILE"),
)
"""Variables of Newel's environment that move such a place; ``:`` separates several paths."""

PRIVATE: Final[tuple[Row, ...]] = (
    *_rows("variables with secrets", ".env", ".env.*", "*.env", ".envrc"),
    *_rows("private keys", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.ppk"),
    *_rows("passwords", ".netrc", ".pypirc", ".npmrc", ".git-credentials", ".htpasswd"),
    *_rows("credentials", "credentials.json", "service-account*.json", "*.tfstate"),
)
"""Project files that often hold secrets: they need approval, like files outside the project."""

EXAMPLES: Final[tuple[str, ...]] = (".example", ".sample", ".template", ".dist", ".defaults", ".schema")
"""Suffixes of names matching ``PRIVATE`` that hold no secrets: ``.env.example``."""
