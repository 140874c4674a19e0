from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from gateway.policy.document_cases import REASONS, CaseKeys, CasesKeys, PermitKeys, PersonKeys, ShownKeyKeys
from gateway.policy.document_clients import GroupKeys
from gateway.reasons import Reason


def test_every_reason_of_a_case_is_a_reason_of_the_gateway() -> None:
    assert set(get_args(REASONS)) < {reason.value for reason in Reason}


def test_a_caller_proves_an_id_a_group_or_a_key() -> None:
    def shown(value: object) -> object:
        keys = PersonKeys.model_validate({"is": {"corp": value}}).is_
        assert keys is not None
        return keys["corp"]

    assert shown("6f1c") == "6f1c"
    assert shown({"group": "ml"}) == GroupKeys(group="ml")
    assert shown({"sha256": "a" * 64}) == ShownKeyKeys(sha256="a" * 64)


@pytest.mark.parametrize(
    "keys",
    [
        {"is": {"a": 1}},
        {"is": {"a": [{"sha256": "a" * 64}]}},
        {"is": {"a": {"sha256": "a" * 64, "not_after": "2027-01-31"}}},
        {"client": "A"},
        {"groups": []},
        {"token": "x"},
    ],
)
def test_any_other_caller_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PersonKeys.model_validate(keys)


def test_a_case_has_a_name_a_caller_and_a_request() -> None:
    case = CaseKeys.model_validate({"name": "x", "who": "y", "ask": "GET /", "body": {"a": None}, "permit": {}})
    assert case.permit == PermitKeys()
    assert case.body == {"a": None}
    for key in ("name", "who", "ask"):
        with pytest.raises(ValidationError):
            CaseKeys.model_validate({"name": "x", "who": "y", "ask": "GET /", key: ""})


@pytest.mark.parametrize(
    "keys", [{"limits": {}}, {"deadlines": {}}, {"each": "person"}, {"status": 200}, {"not_sent": []}, {"sent": []}]
)
def test_any_other_promise_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PermitKeys.model_validate(keys)


def test_there_are_callers_and_cases() -> None:
    with pytest.raises(ValidationError):
        CasesKeys.model_validate({"who": {}, "expect": []})
