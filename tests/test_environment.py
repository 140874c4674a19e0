from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.environment import SettingsError, Shape, read, values_of, variable

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = Shape(
    single=frozenset({"WORKERS", "OPS_TOKEN", "REVOKED_FILE"}),
    fixed={"DEADLINES": frozenset({"IDLE", "FIRST_BYTE"})},
    named={"LISTENERS": frozenset(), "ENGINES": frozenset({"URLS", "API_KEY"})},
    secrets=frozenset({"OPS_TOKEN", "API_KEY"}),
)


def _problems(environ: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as refused:
        read(environ, SHAPE)
    assert str(refused.value) == "\n".join(refused.value.problems)
    return refused.value.problems


def test_variables_become_a_tree_with_the_names_of_policies() -> None:
    environ = {
        "GATEWAY_WORKERS": "1",
        "GATEWAY_DEADLINES__FIRST_BYTE": "1s",
        "GATEWAY_LISTENERS__MY_PLANE": "a",
        "GATEWAY_ENGINES__MY_ENGINE2__API_KEY": "k",
        "GATEWAY_ENGINES__MY_ENGINE2__URLS": "u",
        "GATEWAY_REVOKED_FILE": "/f",
        "PATH": "/bin",
        "OTHER_GATEWAY_WORKERS": "2",
    }
    assert read(environ, SHAPE) == {
        "workers": "1",
        "deadlines": {"first_byte": "1s"},
        "listeners": {"my-plane": "a"},
        "engines": {"my-engine2": {"api_key": "k", "urls": "u"}},
        "revoked_file": "/f",
    }


def test_service_links_of_kubernetes_are_nobody_s_settings() -> None:
    links = {"GATEWAY_SERVICE_HOST": "10.0.0.1", "GATEWAY_SERVICE_PORT_HTTP": "", "GATEWAY_PORT_8080_TCP": "tcp://"}
    assert read({**links, "GATEWAY_PORT": "tcp://10.0.0.1"}, SHAPE) == {}


@pytest.mark.parametrize(
    "name,nearest",
    [
        ("GATEWAY_WORKER", "GATEWAY_WORKERS"),
        ("GATEWAY_DEADLINE__IDLE", "GATEWAY_DEADLINES__IDLE"),  # CONFIG-03
        ("GATEWAY_DEADLINES_IDLE", "GATEWAY_DEADLINES__IDLE"),
        ("GATEWAY_ENGINE__MAIN__URL", "GATEWAY_ENGINES__MAIN__URLS"),
        ("GATEWAY_ENGINES__MAIN__API_KEY_FILES", "GATEWAY_ENGINES__MAIN__API_KEY_FILE"),
        ("GATEWAY_LISTENER__PUBLIC", "GATEWAY_LISTENERS__PUBLIC"),
        ("GATEWAY_LISTENERS__", "GATEWAY_LISTENERS__NAME"),
        ("gateway_workers", "GATEWAY_WORKERS"),
        ("Gateway_Listeners__Public", "GATEWAY_LISTENERS__PUBLIC"),
        ("GATEWAY_OPS_TOKEN_FIL", "GATEWAY_OPS_TOKEN_FILE"),
    ],
)
def test_a_name_that_does_not_exist_is_an_error_that_names_the_nearest(name: str, nearest: str) -> None:
    assert _problems({name: "secret"}) == (f"{name} is not a setting. Did you mean {nearest}?",)


@pytest.mark.parametrize(
    "name",
    [
        "GATEWAY_",
        "GATEWAY_ZZZZZZZZZZ",
    ],
)
def test_nothing_is_suggested_where_nothing_is_near(name: str) -> None:
    assert _problems({name: "secret"}) == (f"{name} is not a setting.",)


@pytest.mark.parametrize(
    "name",
    [
        "GATEWAY_WORKERS__A",
        "GATEWAY_DEADLINES",
        "GATEWAY_DEADLINES__IDLE__A",
        "GATEWAY_LISTENERS",
        "GATEWAY_LISTENERS__A__B",
        "GATEWAY_LISTENERS__a",
        "GATEWAY_LISTENERS__A_",
        "GATEWAY_ENGINES__MAIN",
        "GATEWAY_ENGINES__MAIN__URLS_FILE",
        "GATEWAY_ENGINES____URLS",
        "GATEWAY_ENGINES__MAIN__API_KEY__A",
        "GATEWAY_WORKERS_FILE",
    ],
)
def test_only_the_exact_shape_exists(name: str) -> None:
    assert "is not a setting" in _problems({name: "a"})[0]


@pytest.mark.parametrize("value", ["", "  ", "\n"])
def test_an_empty_value_is_an_error_that_says_so(value: str) -> None:
    """CONFIG-01: an unset secret of a compose file arrives as an empty text."""
    for name in ("GATEWAY_WORKERS", "GATEWAY_ENGINES__MAIN__API_KEY", "GATEWAY_OPS_TOKEN_FILE"):
        assert _problems({name: value})[0].startswith(f"{name} is empty")


def test_all_problems_are_told_at_once() -> None:
    assert len(_problems({"GATEWAY_A": "1", "GATEWAY_B": "2", "GATEWAY_WORKERS": ""})) == 3


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("sk-secret\n")
    environ = {"GATEWAY_ENGINES__MAIN__API_KEY_FILE": str(file), "GATEWAY_OPS_TOKEN_FILE": str(file)}
    assert read(environ, SHAPE) == {"engines": {"main": {"api_key": "sk-secret"}}, "ops_token": "sk-secret"}


def test_variables_are_given_again_with_values_in_place_of_files(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("sk-secret\n")
    environ = {"GATEWAY_ENGINES__MY_ENGINE__API_KEY_FILE": str(file), "GATEWAY_WORKERS": "2", "HOME": "/"}
    found = values_of(environ, SHAPE)
    assert found == {"GATEWAY_ENGINES__MY_ENGINE__API_KEY": "sk-secret", "GATEWAY_WORKERS": "2"}
    assert read(found, SHAPE) == read(environ, SHAPE)


def test_a_secret_from_two_places_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("a")
    problems = _problems({"GATEWAY_OPS_TOKEN_FILE": str(file), "GATEWAY_OPS_TOKEN": "secret"})
    assert problems == ("GATEWAY_OPS_TOKEN_FILE and GATEWAY_OPS_TOKEN are both set: keep one of them.",)


def test_a_file_that_cannot_give_a_secret_is_an_error(tmp_path: Path) -> None:
    binary, empty = tmp_path / "binary", tmp_path / "empty"
    binary.write_bytes(b"\xff\xfe")
    empty.write_text("\n")
    for file, sentence in ((tmp_path, "cannot be read"), (binary, "ASCII"), (empty, "is empty")):
        assert sentence in _problems({"GATEWAY_OPS_TOKEN_FILE": str(file)})[0]
    assert "No such file" in _problems({"GATEWAY_OPS_TOKEN_FILE": str(tmp_path / "none")})[0]


def test_no_error_repeats_a_value() -> None:
    for problem in _problems({"GATEWAY_OPS_TOKENS": "sk-secret", "GATEWAY_OPS_TOKEN_FILE": "/sk-secret"}):
        assert "sk-secret" not in problem


def test_a_place_in_the_tree_has_the_name_of_its_variable() -> None:
    assert variable(("engines", "my-engine", "api_key")) == "GATEWAY_ENGINES__MY_ENGINE__API_KEY"
