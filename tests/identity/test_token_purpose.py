from __future__ import annotations

import pytest

from gateway.identity.token_purpose import check_access_token
from gateway.reasons import Malformed, Reason


@pytest.mark.parametrize("mark", ["nonce", "at_hash", "c_hash", "s_hash", "events", "htm", "htu", "ath"])
def test_id_tokens_events_and_proofs_are_no_access_tokens(mark: str) -> None:
    with pytest.raises(Malformed, match="marks an ID token") as caught:
        check_access_token({"sub": "a", mark: "x"})
    assert caught.value.reason is Reason.CREDENTIAL_INVALID


@pytest.mark.parametrize("told", [{"typ": "ID"}, {"typ": "Refresh"}, {"typ": 5}, {"token_use": "id"}])
def test_a_claim_that_names_another_purpose_is_believed(told: dict[str, object]) -> None:
    with pytest.raises(Malformed, match="does not say that it is an access token"):
        check_access_token(told)


@pytest.mark.parametrize(
    "told", [{}, {"typ": "Bearer"}, {"token_use": "access"}, {"token_use": "access_token"}, {"typ": "bearer"}]
)
def test_access_tokens_of_all_providers_pass(told: dict[str, object]) -> None:
    check_access_token(told)
