"""A process is ready when each of its planes has its keys and an engine that serves what the policy promises."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.adapters.authenticator import signers_of
from gateway.adapters.issuer_keys import Fetcher
from gateway.adapters.key_sets import KeySets
from gateway.adapters.ops import CallerReadiness, EngineReadiness
from gateway.adapters.readiness import readiness
from gateway.dialects.openai_models import ServedModel
from gateway.identity.issuer import AccessTokenIssuer, ApiKeys, CloudflareAccess, IntrospectionIssuer
from gateway.policy.model import Model, Plane
from gateway.reasons import Reason, Unavailable
from tests.policy.planes import plane as any_plane

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.adapters.jwks import IssuerSource
    from gateway.adapters.ops import Readiness
    from gateway.identity.issuer import CallerTrust

CORP = AccessTokenIssuer("corp", "https://issuer", "me", frozenset({"RS256"}), "at+jwt", 30, "azp", 3600)


class Served:
    """A catalogue: the names that each engine serves, or why it serves none."""

    def __init__(self, **engines: tuple[str, ...] | Unavailable) -> None:
        self._engines = engines

    async def served(self, engine: str) -> Mapping[str, ServedModel]:
        served = self._engines[engine]
        if isinstance(served, Unavailable):
            raise served
        return dict.fromkeys(served, ServedModel())


class NoDocuments(Fetcher):
    """An issuer that is never asked, because nothing runs."""

    async def fetch(self, issuer: str, source: IssuerSource) -> bytes:
        raise AssertionError(issuer)


def plane_of(callers: Mapping[str, CallerTrust] | None = None, **models: Model) -> Plane:
    return replace(any_plane(), callers=callers or {"keys": ApiKeys("keys")}, models=models, digest="d" * 64)


async def report(plane: Plane, catalogue: Served, *, draining: bool = False) -> Readiness:
    key_sets = KeySets({}, NoDocuments())
    key_sets.keep(signers_of(plane))
    return await readiness([plane], catalogue, key_sets, draining=draining)


A = Model("alias-a", "main", "served-a", most_tokens=9)
B = Model("alias-b", "main", "served-b", most_tokens=9)
C = Model("alias-c", "other", "served-c", most_tokens=9)
DOWN = Unavailable(Reason.ENGINE_UNAVAILABLE, "connection refused")


async def test_a_plane_whose_engine_serves_every_promise_is_ready() -> None:
    ready = await report(plane_of(a=A, b=B), Served(main=("served-a", "served-b", "more")))
    assert ready.ready
    (plane,) = ready.planes.values()
    assert (plane.ready, plane.policy, plane.listener, plane.open) == (True, "d" * 64, "public", True)
    assert plane.engines == {"main": EngineReadiness(True, "serving", ("alias-a", "alias-b"))}
    assert plane.callers == {"keys": CallerReadiness(True)}


async def test_an_engine_that_lacks_a_promised_model_is_not_ready() -> None:
    ready = await report(plane_of(a=A, b=B), Served(main=("served-a",)))
    assert not ready.ready
    engine = ready.planes["partner"].engines["main"]
    assert engine == EngineReadiness(False, "a model is not served", ("alias-a",), ("alias-b",))


@pytest.mark.parametrize(
    "failure, state",
    [
        (DOWN, "engine-unavailable (connection refused)"),
        (Unavailable(Reason.ENGINE_REFUSED_GATEWAY), "engine-refused-gateway"),
    ],
)
async def test_an_engine_that_does_not_answer_is_named_with_the_reason(failure: Unavailable, state: str) -> None:
    ready = await report(plane_of(a=A), Served(main=failure))
    assert not ready.ready
    assert ready.planes["partner"].engines["main"] == EngineReadiness(False, state, (), ("alias-a",))


async def test_one_ready_engine_is_enough_for_a_plane() -> None:
    ready = await report(plane_of(a=A, c=C), Served(main=DOWN, other=("served-c",)))
    assert ready.ready
    assert not ready.planes["partner"].engines["main"].ready


async def test_a_plane_without_models_needs_no_engine() -> None:
    assert (await report(plane_of(), Served())).ready


async def test_a_token_caller_without_keys_is_not_ready() -> None:
    ready = await report(plane_of({"corp": CORP}, a=A), Served(main=("served-a",)))
    assert not ready.ready
    assert ready.planes["partner"].callers["corp"] == CallerReadiness(False, None, "no keys of the issuer yet")


async def test_the_lock_of_the_edge_needs_its_keys_as_an_access_caller_does() -> None:
    access = CloudflareAccess("tunnel", "team", "tag")
    for name, plane in (
        ("tunnel", plane_of({"tunnel": access}, a=A)),
        ("edge", replace(plane_of(a=A), edge=access)),
    ):
        ready = await report(plane, Served(main=("served-a",)))
        assert not ready.ready
        assert not ready.planes["partner"].callers[name].ready


async def test_a_caller_of_opaque_tokens_needs_nothing_beforehand() -> None:
    opaque = IntrospectionIssuer("opaque", "https://issuer", "me")
    ready = await report(plane_of({"opaque": opaque}, a=A), Served(main=("served-a",)))
    assert ready.ready
    assert ready.planes["partner"].callers["opaque"] == CallerReadiness(True)


async def test_a_process_that_drains_is_not_ready_and_its_planes_are_not_open() -> None:
    ready = await report(plane_of(a=A), Served(main=("served-a",)), draining=True)
    assert not ready.ready
    assert ready.problems == ("draining",)
    assert not ready.planes["partner"].open
