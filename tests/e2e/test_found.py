"""What fuzzing and the peers found in the gateway, kept as bytes on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import HI, MODELS

if TYPE_CHECKING:
    from tests.e2e.site import Site

BODY = b"3\r\n{}\n\r\n0\r\n\r\n"
FAULTY = {
    "another transfer coding": (b"POST /v1/chat/completions", b"Transfer-Encoding: gzip, chunked", BODY),
    "two hosts": (b"GET /v1/models", b"Host: other.example", b""),
    "another expectation": (b"GET /v1/models", b"Expect: 200-ok", b""),
    "absolute-form": (b"GET http://other.example/v1/models", b"Accept: */*", b""),
    "too many fields": (b"GET /v1/models", b"\r\n".join([b"X: 1"] * 100), b""),
    "a target too long": (b"GET /" + b"a" * 3000, b"Accept: */*", b""),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_behind_a_faulty_head_nothing_is_read(site: Site, fault: str) -> None:
    """Also when the request came whole, so that nothing of it would be left over for the next."""
    start, field, body = FAULTY[fault]
    faulty = b"\r\n".join([start + b" HTTP/1.1", b"Host: " + site.host.encode(), field, b"", body])
    with site.connect() as connection:
        connection.send(faulty + site.request(MODELS))
        answer = connection.answer()
        assert answer.status in {400, 414, 431}
        assert answer.closes
        assert connection.ended()


def test_behind_any_other_refusal_the_connection_goes_on(site: Site) -> None:
    with site.connect() as connection:
        connection.send(site.request("/metrics") + site.request(MODELS, token="no") + site.request(MODELS))
        assert [connection.answer().status for _ in range(3)] == [404, 401, 200]


@pytest.mark.parametrize("field", ["Host", "Authorization", "Content-Type", "Content-Length"])
def test_white_space_behind_a_value_is_no_part_of_it(site: Site, field: str) -> None:
    """As RFC 9112 §5.1 says; llhttp leaves it there."""
    head, mark, body = site.request(body=HI).partition(b"\r\n\r\n")
    spaced = b"\r\n".join(
        line + b" \t " if line.startswith(field.encode() + b":") else line for line in head.split(b"\r\n")
    )
    assert site.ask(spaced + mark + body).status == 200
