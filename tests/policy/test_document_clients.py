from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gateway.policy.document_clients import ClientKeys, GroupKeys, KeyKeys, LimitKeys

REST: dict[str, Any] = {"may": ["chat"], "limits": "standard"}


def test_a_proof_is_an_id_a_group_or_keys() -> None:
    def proof(value: object) -> object:
        return ClientKeys.model_validate({"is": {"corp": value}, **REST}).is_["corp"]

    assert proof("6f1c") == "6f1c"
    assert proof({"group": "ml"}) == GroupKeys(group="ml")
    assert proof([{"sha256": "a" * 64, "not_after": "2027-01-31"}]) == (
        KeyKeys(sha256="a" * 64, not_after="2027-01-31"),
    )


@pytest.mark.parametrize(
    "keys",
    [
        REST,
        {"is": {}, **REST},
        {"is": {"a": "x", "b": "y"}, **REST},
        {"is": {"a": 1}, **REST},
        {"is": {"a": {"grp": "x"}}, **REST},
        {"is": {"a": []}, **REST},
        {"is": {"a": ["x"]}, **REST},
        {"is": {"a": "x"}, "may": ["chat"]},
        {"is": {"a": "x"}, "suspended": False, **REST},
        {"is": {"a": "x"}, "each": "client", **REST},
        {"is": {"a": "x"}, "deny": ["chat"], **REST},
        {"is_": {"a": "x"}, **REST},
    ],
)
def test_any_other_client_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ClientKeys.model_validate(keys)


@pytest.mark.parametrize("number", [0, -1, True, 1.0, "1"])
def test_limits_are_whole_numbers_from_one(number: object) -> None:
    with pytest.raises(ValidationError):
        LimitKeys.model_validate({"requests_per_minute": number, "concurrent_requests": 1})
