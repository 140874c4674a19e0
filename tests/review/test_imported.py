"""What was imported is text that the gateway itself reads again."""

from __future__ import annotations

import json

import pytest

from gateway.addresses import engine_address
from gateway.policy.model import Model
from gateway.policy.source import Problem
from gateway.policy.source import read as read_policy
from gateway.review.imported import Imported, ImportedEngine
from gateway.settings import SettingsError, load_settings

REPLICAS = ImportedEngine((engine_address("http://127.0.0.1:8000"), engine_address("http://[::1]:8001")), "UP")
REMOTE = ImportedEngine((engine_address("http://gpu.internal:8002"),), None)
ALL = Imported(
    {
        "local": Model("local", "main", "Qwen/Qwen3-32B", most_tokens=9),
        "true": Model("true", "on-gpu", "007: {x}"),
    },
    {"main": REPLICAS, "on-gpu": REMOTE},
    {"local": {"requests_per_minute": 3}, "7B/x": {"tokens_per_minute": 4}},
    (Problem("c.yaml", 1, 2, "a.b", "not carried over"),),
)


def test_the_policys_reader_reads_the_stanzas_as_they_were_meant() -> None:
    data = read_policy(ALL.policy(), "policy.yaml").data
    assert data["models"] == {
        "local": {"engine": "main", "served_as": "Qwen/Qwen3-32B", "most_tokens": 9},
        "true": {"engine": "on-gpu", "served_as": "007: {x}"},
    }
    assert data["limits"] == {"local": {"requests_per_minute": 3}, "limits-7b-x": {"tokens_per_minute": 4}}


def test_without_limits_there_is_no_stanza_of_them() -> None:
    assert "limits" not in Imported(ALL.models, ALL.engines).policy()


def _environment(text: str) -> dict[str, str]:
    lines = [line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {"GATEWAY_LISTENERS__PUBLIC": "127.0.0.1:8080", **dict(lines)}


def test_the_gateway_does_not_start_while_a_key_is_missing_or_a_network_reads_along() -> None:
    environment = _environment(ALL.settings())
    with pytest.raises(SettingsError, match="GATEWAY_ENGINES__MAIN__API_KEY is empty"):
        load_settings(environment)
    environment["GATEWAY_ENGINES__MAIN__API_KEY"] = "k"
    with pytest.raises(SettingsError, match="GATEWAY_ENGINES__ON_GPU__PLAIN_HTTP"):
        load_settings(environment)


def test_with_both_filled_in_the_settings_hold() -> None:
    text = ALL.settings().replace("API_KEY=", "API_KEY=k").replace("#GATEWAY", "GATEWAY")
    settings = load_settings(_environment(text))
    assert settings.engines["main"].urls == REPLICAS.addresses
    assert settings.engines["on-gpu"].api_key is None


def test_the_variable_that_holds_the_key_today_is_named() -> None:
    assert "from UP;" in ALL.settings()
    assert "API_KEY" not in Imported({}, {"on-gpu": REMOTE}).settings()


def test_a_person_reads_where_each_part_belongs() -> None:
    text = ALL.as_text()
    assert text.index("Into the policy file") < text.index("models:") < text.index("Into .env") < text.index("GATEWAY_")


def test_a_machine_reads_the_same() -> None:
    read = json.loads(ALL.as_json())
    assert read["models"]["local"] == {"engine": "main", "served_as": "Qwen/Qwen3-32B", "most_tokens": 9}
    assert read["engines"]["main"] == {"urls": ["http://127.0.0.1:8000", "http://[::1]:8001"], "key": "UP"}
    assert read["lost"] == ["c.yaml:1:2: a.b: not carried over"]
    assert read["settings"] == ALL.settings().splitlines()
