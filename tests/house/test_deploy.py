"""The files of the first deployment: what they promise, read by a machine."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
import yaml

from gateway.review.check import check
from gateway.settings import load_settings
from tests.house.tree import ROOT, text

COMPOSE: dict[str, Any] = yaml.safe_load(text("deploy/compose/compose.yaml"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
TUNNELS = ["deploy/cloudflared/config.yml", "deploy/compose/cloudflared.yml"]
UNITS = ["deploy/systemd/vllm-gateway.service", "deploy/systemd/vllm.service"]


class _Unit:
    """The [Service] section of a unit file, in which a key may stand more than once."""

    def __init__(self, name: str) -> None:
        section = text(name).split("[Service]\n")[1].split("\n[")[0]
        lines = (line.partition("=") for line in section.splitlines() if line and not line.startswith("#"))
        self.lines = [(key, value) for key, _, value in lines]

    def all(self, key: str) -> list[str]:
        return [value for name, value in self.lines if name == key]

    def one(self, key: str) -> str:
        (value,) = self.all(key)
        return value


GATEWAY_UNIT = _Unit(UNITS[0])
VLLM_UNIT = _Unit(UNITS[1])


def _compose_vllm_arguments() -> list[str]:
    script = SERVICES["vllm"]["command"][0].replace("\\\n", " ")
    (line,) = [line for line in script.splitlines() if line.startswith("exec ")]
    return shlex.split(line)


def _unit_vllm_arguments() -> list[str]:
    script = shlex.split(VLLM_UNIT.one("ExecStart").replace("\\'", "'\\''"))[-1]
    return shlex.split(script.rsplit("; ", 1)[1])


def _after(arguments: list[str], flag: str) -> str:
    return arguments[arguments.index(flag) + 1]


def _mounts(service: str) -> dict[str, str]:
    """Give the named volumes of a service and where they are mounted."""
    parts = (volume.split(":") for volume in SERVICES[service]["volumes"])
    return {part[0]: part[1] for part in parts if not part[0].startswith(".")}


@pytest.mark.parametrize("arguments", [_compose_vllm_arguments(), _unit_vllm_arguments()], ids=["compose", "systemd"])
def test_vllm_is_started_with_thinking_off_under_one_name_and_on_a_socket_alone(arguments: list[str]) -> None:
    assert arguments[:3] == ["exec", *arguments[1:2], "serve"]
    assert _after(arguments, "--served-model-name") == "local"
    assert json.loads(_after(arguments, "--default-chat-template-kwargs")) == {"enable_thinking": False}
    assert _after(arguments, "--uds") == "/run/vllm/main.sock"
    assert not {"--host", "--port", "--allowed-origins", "--enable-scale-out"} & set(arguments)
    assert not any("api-key" in argument for argument in arguments), "a flag shows in the list of processes"


@pytest.mark.parametrize("name", ["deploy/compose/compose.yaml", *UNITS])
def test_no_file_turns_the_engine_s_development_mode_on(name: str) -> None:
    assert "VLLM_SERVER_DEV_MODE" not in text(name)


def test_the_engine_s_key_comes_from_a_secret_file() -> None:
    script = SERVICES["vllm"]["command"][0]
    assert 'VLLM_API_KEY="$$(cat /run/secrets/engine_api_key)"' in script
    assert "export VLLM_API_KEY" in script
    assert COMPOSE["secrets"]["engine_api_key"] == {"file": "./secrets/engine_api_key"}
    for service in ("vllm", "gateway"):
        assert "engine_api_key" in SERVICES[service]["secrets"]
    for unit in (GATEWAY_UNIT, VLLM_UNIT):
        assert unit.one("LoadCredential").startswith("engine_api_key:")
    assert 'VLLM_API_KEY="$$(cat "$$CREDENTIALS_DIRECTORY/engine_api_key")"' in VLLM_UNIT.one("ExecStart")


def test_no_container_publishes_a_port() -> None:
    for name, service in SERVICES.items():
        assert not {"ports", "expose"} & set(service), name
        assert service.get("network_mode") != "host", name


def test_vllm_runs_on_the_gpu_without_any_network() -> None:
    vllm = SERVICES["vllm"]
    assert vllm["runtime"] == "nvidia"
    assert vllm["network_mode"] == "none"
    assert "networks" not in vllm
    assert VLLM_UNIT.one("PrivateNetwork") == "yes"


def test_cloudflared_is_the_only_way_in() -> None:
    """Each socket is shared by two containers, and no network joins two of them."""
    engine = {name for name in SERVICES if "engine" in _mounts(name)}
    door = {name for name in SERVICES if "door" in _mounts(name)}
    assert engine == {"vllm", "gateway"}
    assert door == {"gateway", "cloudflared"}
    networks = [network for service in SERVICES.values() for network in service.get("networks", [])]
    assert len(networks) == len(set(networks))


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_container_is_unprivileged(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"[1-9][0-9]{3,}:[1-9][0-9]{3,}", service["user"])
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "pid", "devices"} & set(service)


@pytest.mark.parametrize("name", ["gateway", "cloudflared"])
def test_the_containers_at_the_edge_have_a_read_only_file_system(name: str) -> None:
    assert SERVICES[name]["read_only"] is True


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_image_is_of_one_release(name: str) -> None:
    tag = SERVICES[name]["image"].rpartition(":")[2]
    assert re.fullmatch(r"v?[0-9]+\.[0-9]+\.[0-9]+(@sha256:[0-9a-f]{64})?", tag)


def test_the_image_of_the_gateway_has_its_version() -> None:
    namespace: dict[str, str] = {}
    exec(text("gateway/__init__.py"), namespace)  # noqa: S102  (our own two lines)
    assert SERVICES["gateway"]["image"] == f"vllm-gateway:{namespace['__version__']}"


def _settings_of_the_container() -> dict[str, str]:
    environment = dict(SERVICES["gateway"]["environment"])
    assert environment.pop("GATEWAY_ENGINES__MAIN__API_KEY_FILE") == "/run/secrets/engine_api_key"
    return environment


def _settings_of_the_unit() -> dict[str, str]:
    environment = dict(line.split("=", 1) for line in GATEWAY_UNIT.all("Environment"))
    assert environment.pop("GATEWAY_ENGINES__MAIN__API_KEY_FILE") == "%d/engine_api_key"
    return environment


@pytest.mark.parametrize(
    "environment", [_settings_of_the_container(), _settings_of_the_unit()], ids=["compose", "systemd"]
)
def test_the_gateway_starts_with_these_settings_and_finds_the_engine_s_socket(environment: dict[str, str]) -> None:
    settings = load_settings({**environment, "GATEWAY_ENGINES__MAIN__API_KEY": "k"})
    (engine,) = settings.engines["main"].urls
    assert str(engine) == f"unix:{_after(_compose_vllm_arguments(), '--uds')}"
    assert settings.listeners["ops"].loopback
    assert settings.listeners["public"].loopback


def test_each_socket_lies_in_the_folder_that_both_sides_mount() -> None:
    environment = _settings_of_the_container()
    assert environment["GATEWAY_ENGINES__MAIN__URLS"] == f"unix:{_mounts('gateway')['engine']}/main.sock"
    assert environment["GATEWAY_LISTENERS__PUBLIC"] == f"unix:{_mounts('gateway')['door']}/public.sock"
    assert _mounts("vllm")["engine"] == _mounts("gateway")["engine"]
    assert _mounts("cloudflared")["door"] == _mounts("gateway")["door"]


@pytest.mark.parametrize("name", TUNNELS)
def test_the_tunnel_serves_one_host_whole_and_answers_404_for_the_rest(name: str) -> None:
    """A path rule in front would be matched by something else than what the gateway judges."""
    config = yaml.safe_load(text(name))
    *rules, last = config["ingress"]
    assert last == {"service": "http_status:404"}
    (rule,) = rules
    assert rule["hostname"] == "llm.example.com"
    assert "path" not in rule
    origin = rule["originRequest"]
    assert origin["keepAliveTimeout"] == "90s"
    assert origin["http2Origin"] is False
    assert not {"noTLSVerify", "httpHostHeader", "disableChunkedEncoding"} & {k for k, v in origin.items() if v}


def test_the_tunnel_leads_to_the_public_listener() -> None:
    host, compose = (yaml.safe_load(text(name))["ingress"][0] for name in TUNNELS)
    assert host["service"] == f"http://{_settings_of_the_unit()['GATEWAY_LISTENERS__PUBLIC']}"
    assert compose["service"] == _settings_of_the_container()["GATEWAY_LISTENERS__PUBLIC"]


def test_the_gateway_serves_the_host_name_that_the_tunnel_sends() -> None:
    """On a socket it serves any; on an address only those that are listed."""
    tunnel = yaml.safe_load(text(TUNNELS[0]))["ingress"][0]["hostname"]
    assert load_settings(_settings_of_the_unit()).hosts["public"] == (tunnel,)


def test_callers_without_a_tunnel_come_over_tls_and_show_certificates() -> None:
    more = _Unit("deploy/systemd/vllm-gateway.service.d/internal.conf")
    added = dict(line.split("=", 1) for line in more.all("Environment"))
    settings = load_settings({**_settings_of_the_unit(), **added})
    policy = yaml.safe_load(text("policies/internal.yaml"))
    assert not settings.listeners[policy["listener"]].loopback
    assert all(settings.tls_files[policy["listener"]])
    assert settings.tls_files.keys() == {policy["listener"]}, "the tunnel's listener stays as it is"
    assert {key for key, _ in more.lines} == {"Environment", "SupplementaryGroups"}


def test_the_unit_of_the_gateway_is_confined() -> None:
    expected = {
        "DynamicUser": "yes",
        "NoNewPrivileges": "yes",
        "CapabilityBoundingSet": "",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "PrivateDevices": "yes",
        "MemoryDenyWriteExecute": "yes",
        "RestrictNamespaces": "yes",
        "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    }
    assert {key: GATEWAY_UNIT.one(key) for key in expected} == expected
    assert GATEWAY_UNIT.all("ExecStartPre") == [
        "/opt/vllm-gateway/bin/vllm-gateway check /etc/vllm-gateway/policies"
    ], "a policy whose cases do not hold must not be served"


def test_the_gateway_is_given_longer_to_stop_than_it_drains() -> None:
    drain = load_settings(_settings_of_the_unit()).deadlines.drain
    assert int(GATEWAY_UNIT.one("TimeoutStopSec").removesuffix("s")) > drain
    assert int(SERVICES["gateway"]["stop_grace_period"].removesuffix("s")) > drain


def test_the_policy_of_the_deployment_names_its_engine_and_listener() -> None:
    policy = yaml.safe_load(text("deploy/compose/policies/partner.yaml"))
    settings = load_settings(_settings_of_the_container())
    assert policy["listener"] in settings.listeners
    assert {model["engine"] for model in policy["models"].values()} == set(settings.engines)
    served = _after(_compose_vllm_arguments(), "--served-model-name")
    assert {model["served_as"] for model in policy["models"].values()} == {served}


def test_the_policy_of_the_deployment_holds_and_its_cases_bite() -> None:
    report = check([ROOT / "deploy/compose/policies"])
    assert report.status == 0, report.as_text()


def test_secrets_of_a_deployment_are_not_committed() -> None:
    ignored = text(".gitignore").splitlines()
    assert {"/deploy/compose/secrets/", "/deploy/compose/models/"} <= set(ignored)
    assert not (ROOT / "deploy/compose/secrets").exists()
