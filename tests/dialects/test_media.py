from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.dialects.media import KINDS, TYPES, count, payloads, url_fault
from gateway.dialects.registry import FACTS
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HOSTS = frozenset({"img.example.com", "allowed.example"})


@pytest.mark.parametrize(
    "url, kind",
    [
        ("data:image/png;base64,iVBORw0KGgo=", "image"),
        ("data:image/webp;base64,", "image"),
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
        "data:image/svg+xml;base64,AAAA",
        "data:image/tiff;base64,AAAA",
        "data:image/PNG;base64,AAAA",
        "DATA:image/png;base64,AAAA",
        "data:image/pngx;base64,AAAA",
        "data:image/vnd.adobe.photoshop;base64,AAAA",
        "data:application/pdf;base64,AAAA",
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


@pytest.mark.parametrize("kind", TYPES)
def test_every_listed_type_passes_as_what_it_is_and_as_nothing_else(kind: str) -> None:
    other = {"image": "audio", "audio": "image"}[kind]
    for name in TYPES[kind]:
        assert url_fault(f"data:{kind}/{name};base64,AAAA", kind, frozenset()) is None
        assert (
            url_fault(f"data:{kind}/{name};base64,AAAA", other, frozenset())
            == f"must be of type {other}/\N{HORIZONTAL ELLIPSIS}"
        )


def test_a_refused_place_is_told_what_would_pass() -> None:
    assert (
        url_fault("x", "image", frozenset())
        == "must be a data: URL of type image/(png|jpeg|jpg|gif|webp|bmp) in base64"
    )
    assert (url_fault("x", "image", HOSTS) or "").endswith("or an https URL of a host that this policy names")


@pytest.mark.parametrize(
    "value, number",
    [
        ([], 0),
        ("image_url", 0),
        ([{"content": "image_url"}], 0),
        ([{"content": [{"type": "image_url"}, {"type": "text", "text": "image"}, {"type": "input_audio"}]}], 2),
        ([{"content": [{"type": "tool_result", "content": [{"type": "image", "source": {}}]}]}], 1),
        ({"type": ["image_url"]}, 0),
    ],
)
def test_parts_with_media_are_counted_wherever_they_stand(value: object, number: int) -> None:
    assert count(value) == number


def ways_to_media(described: object, kinds: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Give the kinds of parts that lead to each place where a URL or data of media stands."""
    if isinstance(described, list):
        for one in described:
            yield from ways_to_media(one, kinds)
    elif isinstance(described, dict):
        if described.get("media"):
            yield kinds
        for kind, of in described.get("of", {}).items():
            yield from ways_to_media(of, (*kinds, kind))
        for name, one in described.items():
            if name != "of":
                yield from ways_to_media(one, kinds)


@pytest.mark.parametrize("name", sorted(FACTS))
def test_each_part_with_media_in_any_table_is_counted_once(name: str) -> None:
    ways = [way for field in FACTS[name].fields.values() for way in ways_to_media(field.description)]
    assert [len(KINDS.intersection(way)) for way in ways] == [1] * len(ways)
    if name == "openai-chat":
        assert {("image_url",), ("input_audio",)} <= set(ways)


def members(described: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give each member that objects within a description may have, by its name."""
    if isinstance(described, list):
        for one in described:
            yield from members(one)
    elif isinstance(described, dict):
        yield from described.get("properties", {}).items()
        for one in described.values():
            yield from members(one)


@pytest.mark.parametrize("name", sorted(FACTS))
def test_no_table_lets_a_caller_name_media_in_the_engine_s_cache_or_anything_to_fetch(name: str) -> None:
    """A ``uuid`` would be the key of what another caller sent; a URL that is not looked at, a request from inside."""
    for field in FACTS[name].fields.values():
        for member, described in members(field.description):
            if member == "uuid":
                assert described["treatment"] == "drop", field.name
            if member in {"url", "image_url", "audio_url", "file_url"} and described["type"] == "string":
                assert described["media"] in TYPES, field.name


DATA = "A" * 4000
PNG = f"data:image/png;base64,{DATA}"
OF_CHAT = {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}
OF_RESPONSES = {"type": "input_image", "image_url": PNG, "detail": None}
OF_MESSAGES = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
SOUND = {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}
MEDIA: dict[str, Any] = {
    "chat": ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, OF_CHAT]}]}, PNG),
    "chat, a sound": ({"messages": [{"role": "user", "content": [SOUND]}]}, DATA),
    "responses": ({"input": [{"role": "user", "content": [OF_RESPONSES]}]}, PNG),
    "responses, of a tool": ({"input": [{"type": "function_call_output", "output": [OF_RESPONSES]}]}, PNG),
    "messages": ({"messages": [{"role": "user", "content": [OF_MESSAGES]}]}, DATA),
    "messages, of a tool": ({"messages": [{"content": [{"type": "tool_result", "content": [OF_MESSAGES]}]}]}, DATA),
    "rerank": ({"query": "a", "documents": [{"content": [OF_CHAT]}]}, PNG),
    "score": ({"queries": "a", "items": [{"content": [OF_CHAT]}]}, PNG),
}


@pytest.mark.parametrize("where", MEDIA)
def test_a_medium_is_found_wherever_an_api_has_it_and_its_data_are_no_text(where: str) -> None:
    fields, payload = MEDIA[where]
    assert payloads(strict_json.dumps(fields), fields) == (1, len(payload))


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "user", "content": PNG}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": PNG}]}]},
        {"messages": [{"role": "user", "content": strict_json.dumps(OF_CHAT).decode()}]},
        {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": OF_MESSAGES}]}]},
        {"messages": [], "tools": [{"name": "f", "input_schema": OF_MESSAGES}]},
        {"input": [[1, 2]], "model": "image"},
    ],
)
def test_what_only_looks_like_a_medium_is_text(fields: dict[str, Any]) -> None:
    assert payloads(strict_json.dumps(fields), fields) == (0, 0)
