from __future__ import annotations

from tests.review.patients import Keys, issuer, surroundings


def test_a_doctor_waits_shortly_for_a_look_and_longer_for_a_model() -> None:
    site = surroundings()
    assert (site.look_s, site.within_s) == (5.0, 60.0)
    assert (site.ops, site.ledger, site.public, site.visitor) == (None, None, None, None)


async def test_an_issuer_is_asked_by_its_port() -> None:
    assert await issuer(Keys(answer=b"{}")).ask.introspect() == b"{}"
