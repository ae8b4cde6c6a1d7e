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


def _rows(table: str) -> tuple[Row, ...]:
    """The rows of a text: ``REASON: PATTERN, PATTERN``, continued on indented lines; ``#`` begins a heading."""
    lines = "\n".join(line for line in table.strip().split("\n") if not line.startswith("#"))
    pairs = [line.split(": ") for line in lines.replace("\n  ", " ").split("\n")]
    return tuple(Row(pattern, reason) for reason, patterns in pairs for pattern in patterns.split(", "))


SECRET: Final = _rows("""
Newel's own keys, sessions and records: ~/.newel
private keys of SSH, and who may log in: ~/.ssh, /etc/ssh/ssh_host_*_key
a private key of SSH: id_rsa, id_dsa, id_ecdsa, id_ecdsa_sk, id_ed25519, id_ed25519_sk
private keys of GnuPG: ~/.gnupg
private keys of age, sops, smallstep and NSS: ~/.config/age, ~/.config/sops, ~/.step, ~/.pki
private keys of certificates: /etc/ssl/private, /etc/letsencrypt, /etc/pki/tls/private
# clouds
credentials of AWS: ~/.aws, ~/.boto, ~/.s3cfg
credentials of Azure: ~/.azure
credentials of Google Cloud: ~/.config/gcloud
credentials of Oracle, Alibaba, IBM clouds: ~/.oci, ~/.aliyun, ~/.bluemix
tokens of hosting providers: ~/.config/doctl, ~/.config/hcloud, ~/.config/linode-cli, ~/.config/scw, ~/.fly,
  ~/.railway, ~/.config/netlify, ~/.wrangler, ~/.config/.wrangler, ~/.local/share/com.vercel.cli, ~/.vercel,
  ~/.cloudflared, ~/.config/ngrok, ~/.ngrok2, ~/.config/heroku
credentials of remote storage: ~/.config/rclone, ~/.rclone.conf, ~/.mc, ~/.config/openstack
credentials of Terraform and Pulumi: ~/.terraform.d, ~/.terraformrc, ~/.pulumi
a token of Vault: ~/.vault-token
# containers
credentials of Kubernetes: ~/.kube, ~/.minikube, /etc/kubernetes, ~/.config/helm
credentials of container registries: ~/.docker/config.json, ~/.config/containers/auth.json
secrets given to a container: /run/secrets, /var/run/secrets
# code hosts and package registries
passwords for many programs: ~/.netrc, ~/_netrc
passwords of git: ~/.git-credentials, ~/.config/git/credentials
tokens of code hosts: ~/.config/gh, ~/.config/hub, ~/.config/glab-cli, ~/.config/tea
tokens of Python's registries: ~/.pypirc, ~/.config/pypoetry/auth.toml
tokens of JavaScript's registries: ~/.npmrc, ~/.yarnrc.yml, ~/.yarnrc
tokens of Ruby's registry: ~/.gem/credentials, ~/.local/share/gem/credentials
tokens of Rust's registry: ~/.cargo/credentials, ~/.cargo/credentials.toml
passwords of Java's repositories: ~/.m2/settings.xml, ~/.m2/settings-security.xml, ~/.gradle/gradle.properties
tokens of PHP's registry: ~/.composer/auth.json, ~/.config/composer/auth.json
tokens of NuGet: ~/.nuget/nuget/nuget.config, ~/.config/nuget
# models, other agents
tokens of model and data hubs: ~/.huggingface, ~/.cache/huggingface/token, ~/.kaggle
tokens of other agents: ~/.claude/.credentials.json, ~/.claude.json, ~/.codex/auth.json,
  ~/.gemini/oauth_creds.json, ~/.config/github-copilot, ~/.local/share/opencode/auth.json,
  ~/.pi/agent/auth.json, ~/.vibe/.env
# databases
passwords of databases: ~/.pgpass, ~/.my.cnf, ~/.mylogin.cnf, ~/.dbt/profiles.yml, ~/.snowsql,
  ~/.databrickscfg
# passwords and wallets
a password store: ~/.password-store, ~/.local/share/keyrings, ~/.local/share/kwalletd, ~/.config/1password,
  ~/.config/op, ~/.op, ~/.config/bitwarden, ~/.config/bitwarden cli, *.kdbx, ~/library/keychains,
  /library/keychains, ~/library/application support/1password, ~/library/application support/bitwarden,
  ~/library/group containers/2bua8c4s2c.com.1password
a wallet: ~/.bitcoin, ~/.ethereum, ~/.config/solana, ~/.electrum, wallet.dat
# browsers and mail
logins and cookies of a browser: ~/.mozilla, ~/.librewolf, ~/.config/google-chrome, ~/.config/chromium,
  ~/.config/bravesoftware, ~/.config/microsoft-edge, ~/.config/vivaldi, ~/.config/opera, ~/snap/firefox,
  ~/snap/chromium, ~/.var/app/org.mozilla.firefox, ~/.var/app/com.google.chrome,
  ~/.var/app/org.chromium.chromium, ~/library/cookies, ~/library/safari,
  ~/library/application support/google/chrome, ~/library/application support/chromium,
  ~/library/application support/firefox, ~/library/application support/bravesoftware,
  ~/library/application support/microsoft edge, ~/library/application support/vivaldi,
  ~/library/application support/arc, ~/library/application support/com.operasoftware.opera,
  ~/library/containers/com.apple.safari
mail and messages: ~/.thunderbird, ~/library/mail, ~/library/messages, ~/library/thunderbird
# what was typed
a history of commands, where passwords end up: ~/.bash_history, ~/.zsh_history, ~/.zhistory, ~/.histfile,
  ~/.sh_history, ~/.ksh_history, ~/.local/share/fish/fish_history, ~/.zsh_sessions, ~/.bash_sessions,
  ~/.python_history, ~/.psql_history, ~/.mysql_history, ~/.sqlite_history, ~/.rediscli_history,
  ~/.node_repl_history
# the system
passwords of the system: /etc/shadow, /etc/shadow-, /etc/gshadow, /etc/gshadow-, /etc/security/opasswd,
  /etc/sudoers, /etc/sudoers.d, /etc/master.passwd, /var/db/dslocal
keys of Kerberos: /etc/krb5.keytab, /tmp/krb5cc_*
the environment, arguments and memory of processes, where keys are: /proc/*/environ, /proc/*/mem,
  /proc/*/cmdline, /proc/kcore, /proc/*/task/*/environ, /proc/*/task/*/mem, /proc/*/task/*/cmdline
""")
"""Never opened by Newel's tools, in any mode, unless the user's own settings allow it."""

SPELLED: Final = (
    *("~/.config/1Password", "~/.config/Bitwarden", "~/.config/Bitwarden CLI", "~/.config/BraveSoftware"),
    *("~/.config/NuGet", "~/.nuget/NuGet/NuGet.Config"),
    *("~/.var/app/com.google.Chrome", "~/.var/app/org.chromium.Chromium"),
)
"""Those of ``SECRET`` that Linux, where case counts, has with capitals: to look whether they exist."""

VARIABLES: Final = _rows("""
keys of Newel: NEWEL_ENGINE_FILE, NEWEL_WEB_TOKEN_FILE, LLM_AUTH_TOKEN_FILE, OPENAI_API_KEY_FILE,
  ANTHROPIC_API_KEY_FILE, GEMINI_API_KEY_FILE
private keys of GnuPG: GNUPGHOME
a password store: PASSWORD_STORE_DIR
credentials of AWS: AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE, AWS_WEB_IDENTITY_TOKEN_FILE,
  AWS_ACCESS_KEY_ID_FILE, AWS_SECRET_ACCESS_KEY_FILE
credentials of Azure: AZURE_CONFIG_DIR
credentials of Google Cloud: CLOUDSDK_CONFIG, GOOGLE_APPLICATION_CREDENTIALS
credentials of Kubernetes: KUBECONFIG
credentials of container registries: DOCKER_CONFIG, REGISTRY_AUTH_FILE
passwords for many programs: NETRC
tokens of JavaScript's registries: NPM_CONFIG_USERCONFIG, npm_config_userconfig
passwords of databases: PGPASSFILE, PGPASSWORD_FILE
a token of a model hub: HF_TOKEN_PATH
keys of sops: SOPS_AGE_KEY_FILE
a history of commands, where passwords end up: HISTFILE
""")
"""Variables of Newel's environment that move such a place; ``:`` separates several paths."""

PRIVATE: Final = _rows("""
variables with secrets: .env, .env.*, *.env, .envrc
private keys: *.pem, *.key, *.p12, *.pfx, *.jks, *.keystore, *.ppk
passwords: .netrc, .pypirc, .npmrc, .git-credentials, .htpasswd
credentials: credentials.json, service-account*.json, *.tfstate
""")
"""Project files that often hold secrets: they need approval, like files outside the project."""

EXAMPLES: Final[tuple[str, ...]] = (".example", ".sample", ".template", ".dist", ".defaults", ".schema")
"""Suffixes of names matching ``PRIVATE`` that hold no secrets: ``.env.example``."""
