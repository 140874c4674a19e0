from __future__ import annotations

import pytest

from gateway.dialects.media import url_fault

HOSTS = frozenset({"img.example.com", "allowed.example"})


@pytest.mark.parametrize(
    "url, kind",
    [
        ("data:image/png;base64,iVBORw0KGgo=", "image"),
        ("data:image/svg+xml;base64,", "image"),
        ("data:audio/wav;base64,AAAA", "audio"),
        ("https://img.example.com/a.png", "image"),
        ("https://img.example.com", "image"),
        ("https://IMG.example.com:443/a/b?c=d#e", "image"),
        ("https://allowed.example/a@b", "audio"),
    ],
)
def test_data_urls_and_named_hosts_pass(url: str, kind: str) -> None:
    assert url_fault(url, kind, HOSTS) is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.png",
        "http://img.example.com/a.png",
        "file:///etc/passwd",
        "ftp://img.example.com/",
        "https://169.254.169.254/",
        "https://[::1]/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://allowed.example@evil.example/",
        "https://evil.example/allowed.example",
        "https://evil.example#@allowed.example/",
        "https://evil.example\\@allowed.example/",
        "https://allowed.example\\.evil.example/",
        "https://allowed.example.evil.example/",
        "https://allowed.example./",
        "https://sub.allowed.example/",
        "https://allowed.example:8443/",
        "https://allowed.example:443@evil.example/",
        "https://allowed.example/\\..\\",
        "https://allowed.example/\n",
        "https://allowed.example/ x",
        "https://allowed.example\t/",
        " https://allowed.example/",
        "https://allowed.example%2eevil.example/",
        "https:/allowed.example/",
        "https:allowed.example/",
        "https:///allowed.example/",
        "//allowed.example/",
        "https://allowed.ex\N{LATIN SMALL LETTER A WITH DIAERESIS}mple/",
        "https://\N{FULLWIDTH LATIN SMALL LETTER A}llowed.example/",
        "https://allowed.example?x",
        "https://allowed.example/" + "a" * 2048,
        "data:text/html;base64,AAAA",
        "data:image/png,AAAA",
        "data:image/png;charset=x;base64,AAAA",
        "data:,x",
        "data:image/;base64,AAAA",
        "data:audio/wav;base64,AAAA",
        "blob:https://allowed.example/",
        "javascript:alert(1)",
    ],
)
def test_every_other_spelling_of_a_place_is_refused(url: str) -> None:
    assert url_fault(url, "image", HOSTS)
    assert url_fault(url, "image", frozenset())


def test_without_hosts_no_address_passes() -> None:
    assert url_fault("https://img.example.com/a.png", "image", frozenset())
