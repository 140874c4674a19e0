from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from gateway import cli_inputs as inputs
from gateway.cli_inputs import Misused
from tests.small_house import POLICY, environment

if TYPE_CHECKING:
    from pathlib import Path


def test_a_body_is_nothing_a_file_or_what_is_piped_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "body.json"
    file.write_bytes(b"{}")
    assert inputs.body(None) == b""
    assert inputs.body(file) == b"{}"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[1]")))
    assert inputs.body(type(file)("-")) == b"[1]"
    with pytest.raises(Misused, match="cannot be read"):
        inputs.body(tmp_path / "none")


def test_policies_are_where_the_setting_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GATEWAY_POLICIES", raising=False)
    assert [str(path) for path in inputs.policies()] == ["policies"]
    monkeypatch.setenv("GATEWAY_POLICIES", "a,a")
    with pytest.raises(Misused, match="GATEWAY_POLICIES must not name anything twice"):
        inputs.policies()


@pytest.mark.parametrize("text", ["secret\n", "secret"])
def test_a_secret_is_read_from_a_file_or_piped_in_without_its_line_end(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text(text)
    assert inputs.secret("key", file) == "secret"
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert inputs.secret("key") == "secret"


def test_a_secret_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(Misused, match="The key is empty"):
        inputs.secret("key", tmp_path / "empty")
    with pytest.raises(Misused, match="The key cannot be read"):
        inputs.secret("key", tmp_path / "none")


def test_a_text_file_is_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xff")
    with pytest.raises(Misused, match="it is not UTF-8"):
        inputs.file(file)
    file.write_text("ä", encoding="utf-8")
    assert inputs.file(file) == "ä"


def test_policies_are_compiled_or_refused_in_sentences(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    assert [one.plane.name for one in inputs.compiled([tmp_path])] == ["demo"]
    file.write_text("policy: 1\n")
    with pytest.raises(Misused, match=r"policy\.yaml:1"):
        inputs.compiled([file])


def test_settings_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in environment(tmp_path, "http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    assert list(inputs.settings().listeners) == ["public"]
    monkeypatch.setenv("GATEWAY_WORKERS", "none")
    with pytest.raises(Misused, match="GATEWAY_WORKERS"):
        inputs.settings()
