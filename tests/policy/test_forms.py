from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gateway.policy import forms

GOOD: dict[str, list[str]] = {
    "Name": ["chat", "a", "team-7"],
    "Text": ["x", "two\nlines"],
    "Summary": ["Partners may chat."],
    "LiteralText": ["vllm-gateway/partner", "org/model-7B", "https://api.example.com/"],
    "Id": ["6f1c0b7e-2d3a", "auth0|5f7c", "a+b@example.com", "/groups/ml"],
    "Scope": ["llm.embed", "api://x/.default"],
    "Issuer": [
        "https://login.example.com/realms/partners",
        "https://login.example.com",
        "https://login.example.com:8443/",
        "http://127.0.0.1:9000/x",
        "http://[::1]:9000",
        "http://localhost",
    ],
    "HttpsUrl": ["https://llm.example.com", "https://llm.example.com/v1"],
    "Team": ["example", "example.fed"],
    "Tag": ["a" * 64],
    "Sha256": ["0123456789abcdef" * 4],
    "ClaimPath": ["groups", "custom.groups", "resource_access.llm.roles", "cognito:groups"],
    "Claim": ["scope", "scp", "_x"],
    "Skew": ["0s", "30s", "5m"],
    "Duration": ["30s", "5m", "24h"],
    "Size": ["512KiB", "2MiB"],
    "Allow": ["POST /v1/chat/completions", "GET /v1/models/{model}", "HEAD /v1/models", "GET /a.b/_c~d-e"],
    "Alias": ["local", "org/name", "Qwen3.5-32B", "a~b_c"],
    "QueryKey": ["beta", "api-version"],
    "QueryValue": ["true", "2024-10-21", ""],
    "FieldName": ["messages", "stream_options.include_usage"],
    "Host": ["images.example.com"],
    "Origin": ["https://app.example.com", "https://app.example.com:8443"],
    "Network": ["10.20.0.0/16", "192.0.2.1/32", "fd12:3456:789a::/48", "::/0"],
    "Day": ["2027-01-31"],
    "Permitted": ["client:batch", "group:reasoning", "group:/ml/users"],
    "Person": ["acme app", "a researcher's agent", "batch, old key"],
    "Ask": ["GET /v1/models", "POST //x", "GET http://x/", "BREW /v1\\x"],
    "Address": ["192.0.2.1", "fd12:3456:789a::9"],
}
BAD: dict[str, list[str]] = {
    "Name": ["Chat", "1a", "a_b", "a b", "", "a\n", "a.b"],
    "Text": ["", "  ", "\n"],
    "Summary": ["too short", " " * 20],
    "LiteralText": ["", "gpt-4.*", "^a$"],
    "Id": ["", "two words", "é", "*", "acme-*", "!acme", "id\n"],
    "Scope": ["", "a b", 'a"b', "a\\b", "llm.*"],
    "Issuer": [
        "http://login.example.com",
        "https://a@b.example.com/",
        "https://login.example.com?x",
        "https://login.example.com/#x",
        "https://*.example.com",
        "http://127.0.0.1.example.com",
        "http://localhost.example.com",
        "login.example.com",
        "https://login.example.com\n",
    ],
    "HttpsUrl": ["http://llm.example.com", "https://llm.example.com/?a"],
    "Team": ["example.cloudflareaccess.com", "Example"],
    "Tag": ["a" * 63, "A" * 64],
    "Sha256": ["a" * 65, "G" * 64],
    "ClaimPath": [".groups", "groups.", "a..b", "0groups"],
    "Claim": ["a.b", "0a"],
    "Skew": ["6m", "1h", "30", "-1s"],
    "Duration": ["0s", "30", "1d", "1.5s", "30 s"],
    "Size": ["0MiB", "2MB", "2", "2 MiB", "2GiB"],
    "Allow": [
        "POST",
        "/v1/models",
        "PUT /v1/models",
        "get /v1/models",
        "GET  /v1/models",
        "GET /v1/models/",
        "GET //v1",
        "GET /v1/../x",
        "GET /v1/.",
        "GET /v1/*",
        "GET /v1/{id}",
        "GET /{model}/x",
        "GET /v1/models?x=1",
        "GET /v1%2fmodels",
        "GET /v1/models;x",
        "GET /v1/models\n",
        "GET /",
    ],
    "Alias": ["", "a//b", "/a", "a/", "..", "a/../b", "gpt-4.*", "(a+)+$", "a b", "a:b", "local\n"],
    "QueryKey": ["", "a b", "a[]"],
    "QueryValue": ["a b", "*", "a&b"],
    "FieldName": ["Messages", "a.", "*", "chat_template_kwargs.*", "a[0]"],
    "Host": ["localhost", "https://a.example.com", "*.example.com", "a.example.com:443", "A.example.com"],
    "Origin": ["*", "http://a.example.com", "https://a.example.com/", "x", "https://*.example.com"],
    "Network": ["10.20.0.0", "10.20.0.0/33", "10.*.0.0/16", "fd00::/129", "any"],
    "Day": ["2027-1-31", "1999-01-01", "2027-13-01", "31.01.2027"],
    "Permitted": ["batch", "client:Batch", "user:x", "group:", "client:*", "group:ml-*", "everyone"],
    "Person": ["", "Acme", "a_b", "a.b"],
    "Ask": ["/v1/models", "get /v1/models", "GET", "GET  /v1/models"],
    "Address": ["localhost", "FD00::1", "10.0.0.0/8"],
}


def adapter(name: str) -> TypeAdapter[Any]:
    """Give the reader of one form."""
    return TypeAdapter(getattr(forms, name))


@pytest.mark.parametrize("name, text", [(name, text) for name, texts in GOOD.items() for text in texts])
def test_a_text_of_the_form_is_taken_as_it_is(name: str, text: str) -> None:
    assert adapter(name).validate_python(text) == text


@pytest.mark.parametrize("name, text", [(name, text) for name, texts in BAD.items() for text in texts])
def test_a_text_of_another_form_is_refused_with_a_sentence(name: str, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        adapter(name).validate_python(text)
    (error,) = caught.value.errors()
    assert error["type"] == forms.REFUSED
    assert error["msg"]


def test_every_form_has_its_examples() -> None:
    named = {name for name in vars(forms) if name[0].isupper() and hasattr(getattr(forms, name), "__metadata__")}
    assert named == GOOD.keys() == BAD.keys()


@pytest.mark.parametrize(
    "name, text",
    [
        ("Allow", "GET /v1/*"),
        ("Alias", "gpt-4.*"),
        ("Alias", "(a+)+$"),
        ("Host", "*.example.com"),
        ("Name", "*"),
        ("Id", "*"),
        ("Permitted", "client:*"),
        ("Origin", "*"),
        ("Issuer", "https://*.example.com"),
        ("FieldName", "chat_template_kwargs.*"),
        ("Network", "10.*.0.0/16"),
        ("LiteralText", "qwen-*"),
    ],
)
def test_a_pattern_is_told_that_there_are_none(name: str, text: str) -> None:
    with pytest.raises(ValidationError, match="patterns do not exist in this format"):
        adapter(name).validate_python(text)


@pytest.mark.parametrize("name", GOOD)
def test_the_json_schema_states_the_same_form(name: str) -> None:
    schema = adapter(name).json_schema()
    assert schema["type"] == "string"
    if "pattern" not in schema:
        assert schema["minLength"] == (10 if name == "Summary" else 1)
        return
    assert all(re.search(schema["pattern"], text) for text in GOOD[name])
