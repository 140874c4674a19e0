from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.identity.issuer import ApiKeys, CloudflareAccess
from gateway.policy.model import Deadlines, Endpoint, Plane
from gateway.review.configuration_findings import behind_cloudflare, configuration, edge_deadlines, unusable
from gateway.review.diagnosis import Layer, Verdict
from tests.policy.planes import plane
from tests.review.patients import Model, engine, surroundings

ACCESS = CloudflareAccess("edge", "example", "aud")
SETTINGS = Deadlines(100, 60, 600)


def test_what_keeps_serve_from_starting_is_told_as_it_is() -> None:
    (found,) = unusable(["GATEWAY_WORKERS must be 1."])
    assert (found.layer, found.verdict, found.saw) == (
        Layer.CONFIGURATION,
        Verdict.BROKEN,
        "GATEWAY_WORKERS must be 1",
    )


def test_what_is_said_in_vain_is_told() -> None:
    site = surroundings()
    (served,) = site.planes
    site = replace(
        site,
        planes=[replace(served, not_enforced=("limits.x",), source="partner.yaml")],
        closed=[replace(served, name="control", listener="the-control", source="control.yaml")],
        engines={**site.engines, "spare": replace(engine(Model("x")), variable="GATEWAY_ENGINES__SPARE")},
        idle=["GATEWAY_ISSUERS__COPR"],
    )
    first, *others = configuration(site)
    assert (first.verdict, first.saw) == (Verdict.OK, "settings and policies hold: partner (public)")
    assert [(one.verdict, one.subject) for one in others] == [
        (Verdict.WARNING, "control.yaml"),
        (Verdict.WARNING, "partner.yaml"),
        (Verdict.WARNING, "GATEWAY_ENGINES__SPARE"),
        (Verdict.WARNING, "GATEWAY_ISSUERS__COPR"),
    ]
    assert "GATEWAY_LISTENERS__THE_CONTROL" in others[0].do
    assert others[1].saw == "limits.x is stated, and not enforced by this version"


@pytest.mark.parametrize(
    "one, behind",
    [
        (plane(), False),
        (replace(plane(), edge=ACCESS), True),
        (replace(plane(), callers={"tunnel": ACCESS}), True),
        (replace(plane(), callers={"keys": ApiKeys("keys")}), False),
    ],
)
def test_a_plane_says_itself_whether_cloudflare_is_before_it(one: Plane, *, behind: bool) -> None:
    assert behind_cloudflare(one) is behind


def test_stream_18_calls_that_may_outlast_the_edge_are_named_with_their_settings() -> None:
    (found,) = edge_deadlines([replace(plane(), source="partner.yaml")], SETTINGS, 15.0)
    assert (found.layer, found.verdict) == (Layer.TUNNEL, Verdict.WARNING)
    assert found.saw.endswith("(100 s, error 524): chat 600 s")
    assert "'deadlines: {total: 95s}' for the endpoint in partner.yaml" in found.do
    assert "GATEWAY_DEADLINES__TOTAL=95s" in found.do


@pytest.mark.parametrize("total, warned", [(95.0, False), (99.9, False), (100.0, True)])
def test_the_edge_waits_for_100_s(total: float, *, warned: bool) -> None:
    assert bool(list(edge_deadlines([plane()], replace(SETTINGS, total=total), 15.0))) is warned


def test_an_endpoint_has_deadlines_of_its_own() -> None:
    long = Endpoint("long", "POST", b"/v1/responses", "openai-responses", deadlines=Deadlines(total=300))
    (found,) = edge_deadlines([plane(endpoints=[long])], replace(SETTINGS, total=95.0), 15.0)
    assert found.saw.endswith("error 524): long 300 s")
    assert list(edge_deadlines([plane()], Deadlines(), 15.0)) != []


@pytest.mark.parametrize("keep_alive_s, warned", [(0.0, True), (15.0, False), (100.0, True)])
def test_streams_without_comments_are_warned_of(keep_alive_s: float, *, warned: bool) -> None:
    found = list(edge_deadlines([plane()], replace(SETTINGS, total=95.0), keep_alive_s))
    assert bool(found) is warned
    assert all("GATEWAY_SSE_KEEP_ALIVE" in one.do for one in found)
