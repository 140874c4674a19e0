from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gateway import setting_values as values
from gateway.addresses import LedgerAddress, Unix

if TYPE_CHECKING:
    from collections.abc import Callable

ACCEPTED = [
    (values.duration, "500ms", 0.5),
    (values.duration, "15s", 15.0),
    (values.duration, "1.5s", 1.5),
    (values.duration, "5m", 300.0),
    (values.duration, "24h", 86_400.0),
    (values.duration_or_zero, "0s", 0.0),
    (values.integer, "1", 1),
    (values.integer, "10000", 10_000),
    (values.boolean, "true", True),
    (values.boolean, "false", False),
    (values.texts, "a", ("a",)),
    (values.texts, "a, b", ("a", "b")),
    (values.texts, '["a", "b,c"]', ("a", "b,c")),
    (values.hosts, '["llm.example.com", "[::1]:8080"]', ("llm.example.com", "[::1]:8080")),
    (values.files, "policies/,extra.yaml", (Path("policies"), Path("extra.yaml"))),
    (values.https_url, "https://issuer.example/jwks?v=1", "https://issuer.example/jwks?v=1"),
    (values.https_url, "http://127.0.0.1:9000/jwks", "http://127.0.0.1:9000/jwks"),
    (values.log_level, "INFO", "info"),
    (values.ledger, "memory://", None),
    (values.ledger, "unix:/run/valkey.sock", LedgerAddress(Unix("/run/valkey.sock"), tls=False)),
]

REFUSED = [
    *[(values.duration, text) for text in ("15", "abc", "-1s", "1d", "1e3s", "0s", "0.0ms", "5 s", "5m\n", "\u0665s")],
    *[(values.duration_or_zero, text) for text in ("0", "", "s")],
    *[(values.integer, text) for text in ("0", "-1", "1e3", "1.0", "1_000", "ten", " 1", "\u0661", "9" * 10)],
    *[(values.boolean, text) for text in ("True", "yes", "1", "on", "")],
    *[(values.secret, text) for text in ("two words", "line\nend", "\u00e9", "tab\t")],
    *[(values.texts, text) for text in ("a,,b", ",", "[]", "[1]", '["a"', '[""]', "a,a", '["a", "a"]')],
    *[(values.hosts, text) for text in ("https://a.example", "a.example/", "a b", "a.example:port")],
    *[(values.engine_urls, text) for text in ("127.0.0.1:8000", "http://127.0.0.1:8000,/v1")],
    *[
        (values.https_url, text)
        for text in (
            "http://issuer.example/jwks",
            "ftp://issuer.example/",
            "issuer.example",
            "unix:/a",
            "https://issuer.example/ a",
            "https://issuer.example/#a",
            "https://issuer.\u00e9xample/",
            "https://key@issuer.example/",
            "https:///jwks",
        )
    ],
    *[(values.log_level, text) for text in ("trace", "warn", "10")],
    *[(values.ledger, text) for text in ("memory", "memory://x", "valkey://a:b@c")],
]


@pytest.mark.parametrize("read,text,value", ACCEPTED)
def test_a_value_of_the_right_form_is_read(read: Callable[[str], Any], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize("read,text", REFUSED)
def test_any_other_is_refused_with_a_sentence_about_the_form(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError, match=r"^must "):
        read(text)


def test_a_secret_does_not_show_itself() -> None:
    secret = values.secret("sk-secret")
    assert secret.get_secret_value() == "sk-secret"
    assert "sk-secret" not in f"{secret!r} {secret}"


def test_the_urls_of_an_engine_are_its_replicas() -> None:
    assert [str(url) for url in values.engine_urls("http://127.0.0.1:8000,unix:/a")] == [
        "http://127.0.0.1:8000",
        "unix:/a",
    ]
