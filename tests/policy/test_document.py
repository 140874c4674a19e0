from __future__ import annotations

import pytest
from pydantic import ValidationError

from gateway.policy.document import Document
from gateway.policy.source import read
from tests.policy.edits import CONTROL, PARTNER, edited, example


def test_a_file_becomes_a_document_with_a_part_for_each_key() -> None:
    document = Document.model_validate(read(example(PARTNER), "f").data)
    assert (document.policy, document.plane, document.listener, document.public) == (1, PARTNER, "public", True)
    assert document.media is not None
    assert document.media.hosts == ()
    assert document.operations is not None
    assert document.operations.flow_logs == ("VPC flow logs, 90 days",)


def test_parts_that_a_plane_does_not_need_are_absent() -> None:
    document = Document.model_validate(read(example(CONTROL), "f").data)
    assert (document.models, document.parameters, document.public, document.operations) == (None, None, None, None)


def test_a_document_is_frozen() -> None:
    document = Document.model_validate(read(example(CONTROL), "f").data)
    with pytest.raises(ValidationError):
        setattr(document, "plane", "other")  # noqa: B010  (mypy knows that this is refused)


@pytest.mark.parametrize("key", ["plane", "listener", "summary", "trust", "endpoints", "limits", "clients", "cases"])
def test_a_plane_without_one_of_its_parts_is_none(key: str) -> None:
    data = {name: value for name, value in read(example(CONTROL), "f").data.items() if name != key}
    with pytest.raises(ValidationError):
        Document.model_validate(data)


def test_all_seven_facts_about_the_deployment_are_stated_or_none() -> None:
    with pytest.raises(ValidationError):
        Document.model_validate(read(edited(PARTNER, ('  flow_logs: ["VPC flow logs, 90 days"]\n', "")), "f").data)
