"""If these fail, the files of deploy/ do not start a fleet, or open more than they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from newel.app.fleet_worker import GRACE_S
from newel.config.secret_files import SECRETS
from newel.version import VERSION
from newel.workspace.process.environment import is_secret
from tests.requirements import require_program
from tests.support import BIN

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if service["image"] == "newel:local")
MANIFESTS = sorted(path for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.stem != "kustomization")
SNAPSHOT_S = 10.0
"""What the last snapshots of jobs may take before a worker is killed."""


def manifest(kind: str) -> dict[str, Any]:
    (found,) = (each for path in MANIFESTS if (each := yaml.safe_load(path.read_text()))["kind"] == kind)
    return found


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that prepare.sh makes."""
    require_program("openssl", "openssl")
    folder = tmp_path_factory.mktemp("deploy")
    shutil.copy(DEPLOY / "prepare.sh", folder)
    subprocess.run(["sh", folder / "prepare.sh"], env={**os.environ, "LLM_AUTH_TOKEN": "sk-mine"}, check=True)
    return folder / "secrets"


# -- Compose -----------------------------------------------------------------------------------------


def test_compose_reaches_out_by_one_port_of_loopback() -> None:
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert ports == {"workbench": ["127.0.0.1:8101:8101"]}
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert SERVICES["database"]["networks"] == ["inside"]


def test_the_page_is_bound_to_the_name_that_a_browser_asks_for() -> None:
    """On the network of the published port: the page refuses other names, and a container has an address on each network."""
    (name,) = SERVICES["workbench"]["networks"]["outside"]["aliases"]
    assert name.endswith(".localhost")
    assert SERVICES["workbench"]["command"][:3] == ["web", "--bind", name]


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_has_the_least_rights(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"newel:local|postgres:\d+-bookworm", service["image"])
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "privileged" not in service


@pytest.mark.parametrize("name", SERVICES)
def test_no_secret_is_in_the_environment_of_a_container(name: str) -> None:
    for variable, value in SERVICES[name].get("environment", {}).items():
        if variable.endswith("_FILE"):
            assert value.removeprefix("/run/secrets/") in SERVICES[name]["secrets"]
            assert variable.removesuffix("_FILE") in (*SECRETS, "POSTGRES_PASSWORD")
        assert variable.endswith("_FILE") or not is_secret(variable)
        assert not re.search(r"://[^@/]*:[^@/]*@", value)


def test_every_secret_is_made_and_every_mounted_file_exists(secrets: Path) -> None:
    files = {name: each["file"] for name, each in COMPOSE["secrets"].items()}
    assert {name for service in SERVICES.values() for name in service.get("secrets", ())} == {*files}
    for file in files.values():
        assert (secrets.parent / file).stat().st_size
    assert (secrets / "model_key").read_text() == "sk-mine\n"
    assert not secrets.stat().st_mode & 0o077
    assert "ca.key" not in files.values()
    for service in SERVICES.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith("./") or (DEPLOY / source).is_file()
    rights = DEPLOY.parent / "src/newel/jobs/postgres/create_roles.sql"
    assert rights.is_file() or not rights.parent.exists()


def test_preparing_again_changes_no_secret(secrets: Path) -> None:
    before = {path: path.read_bytes() for path in secrets.iterdir()}
    subprocess.run(["sh", secrets.parent / "prepare.sh"], check=True)
    assert {path: path.read_bytes() for path in secrets.iterdir()} == before
    assert stat.S_IMODE((secrets / "ca.key").stat().st_mode) == 0o600


def test_a_strict_client_accepts_the_databases_certificate_for_its_name_only(secrets: Path) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(secrets / "database.crt", secrets / "database.key")
    client = ssl.create_default_context(cafile=secrets / "ca.crt")
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # the default of Python 3.13
    assert shakes_hands(server, client, "database")
    assert not shakes_hands(server, client, "elsewhere")


def shakes_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> bool:
    here, there = socket.socketpair()

    def serve() -> None:
        try:
            server.wrap_socket(there, server_side=True).close()
        except OSError:
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        client.wrap_socket(here, server_hostname=name).close()
    except ssl.SSLCertVerificationError:
        return False
    finally:
        here.close()
        thread.join()
    return True


def commands() -> dict[str, list[str]]:
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    return {**{name: SERVICES[name]["command"] for name in OURS}, "kubernetes": container["args"]}


@pytest.mark.parametrize("name", [*OURS, "kubernetes"])
def test_newel_knows_the_command_of_each_container(name: str, tmp_path: Path) -> None:
    """Without settings it ends for want of them, not because of an option."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NEWEL_SANDBOX": "partial"}
    done = subprocess.run(
        [BIN / "newel", *commands()[name]],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "usage:" not in done.stderr
    assert "Traceback" not in done.stderr


def test_workers_may_end_their_jobs_before_they_are_killed() -> None:
    assert float(SERVICES["worker"]["stop_grace_period"].removesuffix("s")) >= GRACE_S + SNAPSHOT_S
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= GRACE_S + SNAPSHOT_S


def test_the_filter_of_system_calls_allows_what_bubblewrap_needs() -> None:
    profile = json.loads((DEPLOY / "seccomp.json").read_text())
    (refused,) = profile["syscalls"]
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    assert refused["action"] == "SCMP_ACT_ERRNO"
    needed = {
        "clone",
        "clone3",
        "unshare",
        "mount",
        "umount2",
        "pivot_root",
        "sethostname",
        "seccomp",
        "prctl",
    }
    assert not needed & {*refused["names"]}
    assert {"bpf", "keyctl", "kexec_load", "init_module", "open_by_handle_at", "setns"} <= {*refused["names"]}


# -- Kubernetes --------------------------------------------------------------------------------------


def test_the_manifests_are_complete_and_of_this_version() -> None:
    whole = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())
    assert {*whole["resources"]} == {path.name for path in MANIFESTS} - {"secret.example.yaml"}
    assert [image["newTag"] for image in whole["images"]] == [VERSION]
    partial = yaml.safe_load((DEPLOY / "kubernetes-partial/kustomization.yaml").read_text())
    assert partial["resources"] == ["../kubernetes"]
    patched = {(each["kind"], each["metadata"]["name"]) for each in map(yaml.safe_load, patches(partial))}
    assert patched <= {(each["kind"], each["metadata"]["name"]) for each in map(load, MANIFESTS)}


def patches(kustomization: dict[str, Any]) -> list[str]:
    return [each["patch"] for each in kustomization["patches"]]


def load(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


def test_a_pod_has_the_least_rights() -> None:
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["hostUsers"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"]
    assert "ports" not in container


def test_every_secret_of_a_pod_is_a_file_and_the_template_has_no_value() -> None:
    template = manifest("Secret")["stringData"]
    assert {*template.values()} == {""}
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    for variable in container["env"]:
        if variable["name"].endswith("_FILE"):
            assert variable["name"].removesuffix("_FILE") in SECRETS
            assert variable["value"].removeprefix("/run/secrets/newel/") in template
    assert "/run/secrets/newel" in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert not any(is_secret(name) for name in manifest("ConfigMap")["data"])


@pytest.mark.parametrize("kind", ["Deployment", "PodDisruptionBudget", "NetworkPolicy"])
def test_every_selector_means_the_workers(kind: str) -> None:
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    spec = manifest(kind)["spec"]
    assert (spec.get("podSelector") or spec["selector"])["matchLabels"] == labels


def test_nothing_reaches_a_worker() -> None:
    spec = manifest("NetworkPolicy")["spec"]
    assert (spec["ingress"], spec["policyTypes"]) == ([], ["Ingress", "Egress"])
    assert {port["port"] for rule in spec["egress"] for port in rule["ports"]} == {53, 5432, 443}
