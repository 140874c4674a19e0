"""Reports about what bodies cost and where they lead, at the stage of the bodies: one test for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.e2e.asking import forwarded, refused
from tests.e2e.site import BODY_LIMIT, HI, MOST_TOKENS

if TYPE_CHECKING:
    from tests.e2e.site import Site


@pytest.mark.parametrize(
    "url",
    [
        "https://allowed.example@evil/",
        "https://allowed.example.evil/",
        "https://allowed.example./",
        "https://allowed.example:8443/",
        "http://allowed.example/",
        "https://169.254.169.254/",
        "file:///etc/passwd",
    ],
)
def test_body_02_only_a_host_that_is_named_is_fetched_from(site: Site, url: str) -> None:
    def looking_at(place: str) -> list[dict[str, Any]]:
        return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": place}}]}]

    before = len(site.reached())
    answer = site.chat_inside(messages=looking_at(url))
    assert (answer.status, answer.code) == (400, "parameter-invalid")
    assert answer.json["error"]["param"] == "messages[0].content[0].image_url.url"
    assert len(site.reached()) == before
    assert site.chat_inside(messages=looking_at("https://allowed.example/a.png")).status == 200
    refused(
        site,
        site.request(body={**HI, "messages": looking_at("https://allowed.example/a.png")}),
        400,
        "parameter-invalid",
    )


def test_body_04_the_largest_body_passes_and_one_byte_more_does_not(site: Site) -> None:
    body = orjson.dumps(HI)
    forwarded(site, site.request(body=body.ljust(BODY_LIMIT)))
    refused(site, site.request(body=body.ljust(BODY_LIMIT + 1)), 413, "body-too-large")


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_body_04_a_longer_answer_is_lowered_under_each_name(site: Site, name: str) -> None:
    sent = forwarded(site, site.request(body={**HI, name: 10**12})).json
    assert sent[name] == MOST_TOKENS


@pytest.mark.parametrize(
    "name, value, code",
    [
        ("n", 100_000, "parameter-over-cap"),
        ("n", "5", "parameter-invalid"),
        ("n", True, "parameter-invalid"),
        ("n", 1e3, "parameter-invalid"),
        ("best_of", 1000, "parameter-not-accepted"),
        ("top_logprobs", 10_000, "parameter-invalid"),
        ("max_tokens", 1e12, "parameter-invalid"),
        ("tools", [{"type": "function", "function": {"name": "f"}}] * 129, "parameter-over-cap"),
    ],
)
def test_body_06_what_multiplies_the_cost_has_a_bound_that_is_named(
    site: Site,
    name: str,
    value: Any,  # noqa: ANN401  (a JSON value)
    code: str,
) -> None:
    answer = refused(site, site.request(body={**HI, name: value}), 400, code)
    assert answer.json["error"]["param"] == name
