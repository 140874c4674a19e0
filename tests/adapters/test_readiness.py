"""A process is ready when each of its planes has its keys and an engine that serves what the policy promises."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.adapters.authenticator import signers_of
from gateway.adapters.engine import Engine
from gateway.adapters.engine_client import EngineClient
from gateway.adapters.engine_pool import EnginePool
from gateway.adapters.issuer_keys import Fetcher
from gateway.adapters.key_sets import KeySets
from gateway.adapters.ops import CallerReadiness, EngineReadiness, ReplicaReadiness
from gateway.adapters.readiness import readiness
from gateway.addresses import engine_address
from gateway.dialects.openai_models import ServedModel
from gateway.identity.issuer import AccessTokenIssuer, ApiKeys, CloudflareAccess, IntrospectionIssuer
from gateway.policy.model import Model, Plane
from tests.policy.planes import plane as any_plane

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.adapters.jwks import IssuerSource
    from gateway.adapters.ops import Readiness
    from gateway.identity.issuer import CallerTrust

CORP = AccessTokenIssuer("corp", "https://issuer", "me", frozenset({"RS256"}), "at+jwt", 30, "azp", 3600)


def engine_of(name: str, *replicas: tuple[str, ...] | str) -> Engine:
    """Give an engine: of each replica the names that it serves, or why it is out."""
    pools = [
        EnginePool(engine_address(f"http://127.0.0.1:{number}"), idle=1, keep_alive_s=1, connect_s=1)
        for number, _ in enumerate(replicas, 1)
    ]
    engine = Engine(name, [EngineClient(pool, None) for pool in pools], 0, lambda: 0.0)
    for replica, given in zip(engine.replicas, replicas, strict=True):
        if isinstance(given, str):
            replica.circuit.fail_trial(given, 0.0)
        else:
            replica.served = dict.fromkeys(given, ServedModel())
            replica.circuit.pass_trial()
    return engine


def one(*served: str) -> dict[str, Engine]:
    return {"main": engine_of("main", served)}


class NoDocuments(Fetcher):
    """An issuer that is never asked, because nothing runs."""

    async def fetch(self, issuer: str, source: IssuerSource) -> bytes:
        raise AssertionError(issuer)


def plane_of(callers: Mapping[str, CallerTrust] | None = None, **models: Model) -> Plane:
    return replace(any_plane(), callers=callers or {"keys": ApiKeys("keys")}, models=models, digest="d" * 64)


def report(plane: Plane, engines: Mapping[str, Engine], *, draining: bool = False) -> Readiness:
    key_sets = KeySets({}, NoDocuments())
    key_sets.keep(signers_of(plane))
    return readiness([plane], engines, key_sets, draining=draining)


A = Model("alias-a", "main", "served-a", most_tokens=9)
B = Model("alias-b", "main", "served-b", most_tokens=9)
C = Model("alias-c", "other", "served-c", most_tokens=9)


def test_a_plane_whose_engine_serves_every_promise_is_ready() -> None:
    ready = report(plane_of(a=A, b=B), one("served-a", "served-b", "more"))
    assert ready.ready
    (plane,) = ready.planes.values()
    assert (plane.ready, plane.policy, plane.listener, plane.open) == (True, "d" * 64, "public", True)
    replicas = {"http://127.0.0.1:1": ReplicaReadiness(True, "serving")}
    assert plane.engines == {"main": EngineReadiness(True, "serving", ("alias-a", "alias-b"), (), replicas)}
    assert plane.callers == {"keys": CallerReadiness(True)}


def test_two_names_for_one_model_are_both_told() -> None:
    again = replace(A, alias="alias-again")
    engine = report(plane_of(a=A, again=again), one("served-a")).planes["partner"].engines["main"]
    assert (engine.models, engine.missing) == (("alias-a", "alias-again"), ())
    lacking = report(plane_of(a=A, again=again), one("served-b")).planes["partner"].engines["main"]
    assert lacking.missing == lacking.replicas["http://127.0.0.1:1"].missing == ("alias-a", "alias-again")


def test_an_engine_that_lacks_a_promised_model_is_not_ready() -> None:
    ready = report(plane_of(a=A, b=B), one("served-a"))
    assert not ready.ready
    engine = ready.planes["partner"].engines["main"]
    assert (engine.ready, engine.state) == (False, "a model is not served")
    assert (engine.models, engine.missing) == (("alias-a",), ("alias-b",))


def test_an_engine_that_is_out_is_named_with_the_reason() -> None:
    ready = report(plane_of(a=A), {"main": engine_of("main", "connection refused")})
    assert not ready.ready
    engine = ready.planes["partner"].engines["main"]
    assert (engine.ready, engine.state, engine.missing) == (False, "connection refused", ("alias-a",))


def test_one_ready_replica_makes_an_engine_ready_and_the_other_is_named() -> None:
    ready = report(plane_of(a=A), {"main": engine_of("main", "connection refused", ("served-a",))})
    engine = ready.planes["partner"].engines["main"]
    assert (ready.ready, engine.ready, engine.state) == (True, True, "serving")
    assert engine.replicas == {
        "http://127.0.0.1:1": ReplicaReadiness(False, "connection refused", ("alias-a",)),
        "http://127.0.0.1:2": ReplicaReadiness(True, "serving"),
    }


def test_a_replica_that_lacks_a_model_is_named_though_the_engine_has_it() -> None:
    ready = report(plane_of(a=A, b=B), {"main": engine_of("main", ("served-a",), ("served-a", "served-b"))})
    engine = ready.planes["partner"].engines["main"]
    assert engine.ready
    assert engine.replicas["http://127.0.0.1:1"] == ReplicaReadiness(False, "a model is not served", ("alias-b",))


def test_a_replica_on_trial_is_said_to_be() -> None:
    engine = engine_of("main", "connection refused")
    engine.replicas[0].circuit.begin_trial()
    ready = report(plane_of(a=A), {"main": engine})
    assert ready.planes["partner"].engines["main"].state == "warming up after: connection refused"


def test_one_ready_engine_is_enough_for_a_plane() -> None:
    engines = {"main": engine_of("main", "gone"), "other": engine_of("other", ("served-c",))}
    ready = report(plane_of(a=A, c=C), engines)
    assert ready.ready
    assert not ready.planes["partner"].engines["main"].ready


def test_a_plane_without_models_needs_no_engine() -> None:
    assert report(plane_of(), {}).ready


def test_a_token_caller_without_keys_is_not_ready() -> None:
    ready = report(plane_of({"corp": CORP}, a=A), one("served-a"))
    assert not ready.ready
    assert ready.planes["partner"].callers["corp"] == CallerReadiness(False, None, "no keys of the issuer yet")


def test_the_lock_of_the_edge_needs_its_keys_as_an_access_caller_does() -> None:
    access = CloudflareAccess("tunnel", "team", "tag")
    for name, plane in (
        ("tunnel", plane_of({"tunnel": access}, a=A)),
        ("edge", replace(plane_of(a=A), edge=access)),
    ):
        ready = report(plane, one("served-a"))
        assert not ready.ready
        assert not ready.planes["partner"].callers[name].ready


def test_a_caller_of_opaque_tokens_needs_nothing_beforehand() -> None:
    opaque = IntrospectionIssuer("opaque", "https://issuer", "me")
    ready = report(plane_of({"opaque": opaque}, a=A), one("served-a"))
    assert ready.ready
    assert ready.planes["partner"].callers["opaque"] == CallerReadiness(True)


def test_a_process_that_drains_is_not_ready_and_its_planes_are_not_open() -> None:
    ready = report(plane_of(a=A), one("served-a"), draining=True)
    assert not ready.ready
    assert ready.problems == ("draining",)
    assert not ready.planes["partner"].open
