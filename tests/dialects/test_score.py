from __future__ import annotations

import pytest

from gateway.dialects.score import SCORE, Score, unmet


def test_scores_go_to_the_engines_score_endpoint() -> None:
    assert (Score().name, Score().upstream) == ("score", ("POST", "/v1/score"))
    assert SCORE.fields["data_1"].kinds == SCORE.fields["documents"].kinds == {"string", "object", "array"}


@pytest.mark.parametrize("sent", ["queries documents", "queries items", "data_1 data_2", "text_1 text_2"])
def test_one_pair_is_a_request(sent: str) -> None:
    assert unmet({"model": "m", **dict.fromkeys(sent.split(), "x")}) == []


def test_a_null_is_no_side_of_a_pair() -> None:
    assert unmet({"queries": "a", "documents": "b", "items": None}) == []


@pytest.mark.parametrize(
    "sent, name, detail",
    [
        ("", "queries", "is missing: send one pair, such as queries and documents"),
        ("queries", "documents", "is missing beside queries"),
        ("text_1", "text_2", "is missing beside text_1"),
        ("text_2", "text_2", "is one side of a pair alone"),
        ("queries documents items", "items", "does not go with queries"),
        ("queries text_2", "text_2", "does not go with queries"),
        ("data_1 data_2 text_1 text_2", "text_1", "does not go with data_1"),
        ("documents items", "items", "does not go with documents"),
    ],
)
def test_anything_but_one_pair_is_named(sent: str, name: str, detail: str) -> None:
    assert unmet(dict.fromkeys(sent.split(), "x")) == [(name, detail)]
