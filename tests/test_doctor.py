"""The command's own part: what is told when, and which status it ends with."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from gateway.doctor import run
from gateway.doctor_ports import Misasked, Wishes
from tests.small_house import POLICY, environment

if TYPE_CHECKING:
    from pathlib import Path


def said(environ: dict[str, str], wishes: Wishes | None = None, *, as_json: bool = False) -> tuple[int, str]:
    out = io.StringIO()
    status = run(environ, wishes or Wishes(), out, as_json=as_json)
    return status, out.getvalue()


@pytest.fixture
def house(tmp_path: Path) -> dict[str, str]:
    """Give settings of which nothing runs."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    return environment(tmp_path, "http://127.0.0.1:9")


def test_nothing_that_runs_is_the_engine_first(house: dict[str, str]) -> None:
    status, text = said(house)
    assert status == 1
    assert text.splitlines()[-1] == (
        "The first broken layer is: engine (main at http://127.0.0.1:9: connection refused)."
    )
    assert "broken     gateway" in text
    status, text = said(house, as_json=True)
    assert (status, json.loads(text)["first_broken"]) == (1, "engine")


@pytest.mark.parametrize(
    "change, saw",
    [
        ({"GATEWAY_WORKERS": "none"}, "GATEWAY_WORKERS must be a whole number"),
        ({"GATEWAY_POLICIES": "/nowhere"}, "/nowhere does not exist"),
        ({"GATEWAY_LISTENERS__MORE": "127.0.0.1:1"}, "no policy file has it"),
    ],
)
def test_settings_that_serve_would_refuse_end_with_2(house: dict[str, str], change: dict[str, str], saw: str) -> None:
    status, text = said({**house, **change})
    assert status == 2
    assert saw in text.splitlines()[0]
    assert "engine" not in text


def test_each_problem_of_a_policy_has_its_line(house: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("policy: 1\nplane: x\nlistener: y\n")
    status, text = said(house)
    assert status == 2
    assert text.count("broken     configuration") == text.count(f"{tmp_path}/policy.yaml:") - 1


def test_wishes_that_do_not_fit_are_raised(house: dict[str, str]) -> None:
    with pytest.raises(Misasked):
        said(house, Wishes(public_url="x"))
