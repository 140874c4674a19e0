from __future__ import annotations

from hashlib import sha256

from gateway.identity.principal import CredentialKind, Principal
from gateway.identity.token_cache import TokenCache


def proof(subject: str = "user-1", expires_at: float | None = 1000.0) -> Principal:
    return Principal("corp", CredentialKind.ACCESS_TOKEN, "cli-1", subject, expires_at=expires_at)


def test_a_proof_is_given_again_for_the_very_same_token() -> None:
    cache, principal = TokenCache(), proof()
    cache.put("token", principal)
    assert cache.get("token", 999.9) is principal


def test_no_other_spelling_of_a_token_is_known() -> None:
    cache = TokenCache()
    cache.put("token", proof())
    assert [cache.get(text, 0) for text in ("token ", "Token", "toke", "token=", "")] == [None] * 5


def test_a_proof_ends_at_the_moment_of_expiry() -> None:
    cache = TokenCache()
    cache.put("token", proof(expires_at=1000))
    assert cache.get("token", 1000) is None


def test_a_proof_without_an_end_is_not_kept() -> None:
    cache = TokenCache()
    cache.put("token", proof(expires_at=None))
    assert len(cache) == 0


def test_the_cache_is_bounded_and_the_oldest_leaves() -> None:
    cache = TokenCache(most=3)
    for number in range(5):
        cache.put(f"token {number}", proof())
    assert [cache.get(f"token {number}", 0) is not None for number in range(5)] == [False, False, True, True, True]
    assert len(cache) == 3


def test_a_token_that_is_kept_already_pushes_no_other_out() -> None:
    cache = TokenCache(most=2)
    for token in ("a", "b", "b"):
        cache.put(token, proof())
    assert cache.get("a", 0) is not None


def test_a_cleared_cache_knows_nothing() -> None:
    cache = TokenCache()
    cache.put("token", proof())
    cache.clear()
    assert cache.get("token", 0) is None


def test_the_field_that_brings_a_token_is_known_as_it_is() -> None:
    cache, principal = TokenCache(b"Bearer "), proof()
    cache.put("token", principal)
    field = sha256(b"Bearer token").digest()
    assert (cache.of_field(field, 999.9), cache.of_field(field, 1000)) == (principal, None)
    assert cache.get("token", 999.9) is principal
    assert list(cache.proofs) == [field]
    assert [cache.of_field(sha256(other).digest(), 0) for other in (b"bearer token", b"token", b"Bearer  token")] == [
        None
    ] * 3


def test_the_cache_holds_no_token() -> None:
    cache = TokenCache()
    cache.put("a secret token", proof())
    assert "secret" not in repr(vars(cache))
