"""What the documents say is true of the tree: settings, commands, reasons, keys of a policy, and places."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

import pytest

from gateway import __version__, cli, settings
from gateway.policy.schema import generate
from gateway.reasons import ANSWERS, PUBLIC, Reason
from gateway.review.diagnosis import Layer
from tests.house.tree import ROOT, committed, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCUMENTS = [path for path in committed() if path.suffix == ".md"]
SECRETS = ("API_KEY", "CLIENT_SECRET", "LEDGER_PASSWORD", "OPS_TOKEN", "CACHE_SALT_SECRET")
FILES_OF_SECRETS = tuple(f"{name}_FILE" for name in SECRETS)
# The name of a policy in the examples, for each section of settings that has one.
NAMES = {"LISTENERS": "PUBLIC", "HOSTS": "PUBLIC", "ENGINES": "MAIN", "ISSUERS": "CORP"}


def _refused_in_this_version(name: str) -> bool:
    """Tell whether a setting is known and may not be set yet."""
    try:
        settings.load_settings({"GATEWAY_LISTENERS__PUBLIC": "127.0.0.1:8080", name: "x"})
    except settings.SettingsError as error:
        return any("is not supported by this version" in problem for problem in error.problems)
    return False


def _settings() -> Iterator[str]:
    """Name every setting, with the names of the examples in the middle."""
    shape = settings._SHAPE
    yield from (f"GATEWAY_{name}" for name in shape.single)
    yield from (f"GATEWAY_{section}__{field}" for section, fields in shape.fixed.items() for field in fields)
    for section, fields in shape.named.items():
        middle = f"GATEWAY_{section}__{NAMES.get(section, 'PUBLIC')}"
        yield from (f"{middle}__{field}" for field in fields) if fields else (middle,)


SETTINGS = sorted(name for name in _settings() if not _refused_in_this_version(name))


def _example() -> dict[str, str]:
    lines = re.findall(r"^#?(GATEWAY_[A-Z0-9_]+)=(.*)$", text(".env.example"), re.MULTILINE)
    assert len(dict(lines)) == len(lines), "a setting stands twice"
    return dict(lines)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_has_its_line_in_the_example(name: str) -> None:
    assert name in _example()


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_explained_in_the_operations_manual(name: str) -> None:
    section, _, field = name.removeprefix("GATEWAY_").partition("__")
    shown = [name, f"GATEWAY_{section}__<NAME>", f"__{field.rpartition('__')[2]}`"]
    assert any(form in text("docs/operations.md") for form in shown)


def _loaded() -> settings.Settings:
    """Load each line, also those that are commented out, together; secrets by value instead of by file."""
    lines = {name: value for name, value in _example().items() if not name.endswith(FILES_OF_SECRETS)}
    words = {name: value.replace(" ", "-") for name, value in lines.items() if name.endswith(SECRETS)}
    return settings.load_settings(lines | words)


def test_the_example_is_what_the_gateway_accepts() -> None:
    assert _loaded().listeners


def test_the_example_shows_the_defaults() -> None:
    """Addresses, names and secrets have none."""
    shown = _loaded()
    parts = [shown, shown.deadlines, shown.engines["main"], shown.issuers["corp"]]
    defaults = [(part, name, field.default) for part in parts for name, field in type(part).model_fields.items()]
    plain = [(part, name, default) for part, name, default in defaults if isinstance(default, int | float | str | bool)]
    assert len(plain) >= 20
    assert not [name for part, name, default in plain if getattr(part, name) != default]


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(groups[0].choices) if groups else {}


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_every_command_of_a_document_exists(path: Path) -> None:
    known = _commands(cli.parser())
    content = text(str(path))
    named = set(re.findall(r"(?:^|`|run --rm gateway )vllm-gateway ([a-z]+)", content, re.MULTILINE))
    assert named <= set(known), f"{path}: {sorted(named - set(known))}"
    assert set(re.findall(r"vllm-gateway key ([a-z]+)", content)) <= set(_commands(known["key"]))
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    used = set(re.findall(r"(?:^|`)make ([a-z-]+)", content, re.MULTILINE))
    assert used <= targets, f"{path}: {sorted(used - targets)}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_every_place_that_a_document_names_exists(path: Path) -> None:
    content = text(str(path))
    rooms = "gateway|tests|docs|deploy|policies|tools|bench"
    named = set(re.findall(rf"`((?:{rooms})/[A-Za-z0-9_./-]*)`", content))
    linked = {(ROOT / path).parent / link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", content)}
    missing = [name for name in named if not (ROOT / name).exists()] + [str(p) for p in linked if not p.exists()]
    assert not missing, f"{path}: {missing}"


def test_every_module_and_test_of_the_standards_exists() -> None:
    named = set(re.findall(r"`([a-z0-9_/]+\.py)`", text("docs/standards.md")))
    assert not {name for name in named if not any((ROOT / folder / name).exists() for folder in ("gateway", "tests"))}


@pytest.mark.parametrize("reason", [reason for reason in ANSWERS if reason not in PUBLIC], ids=str)
def test_partners_are_told_of_every_reason(reason: Reason) -> None:
    answer = ANSWERS[reason]
    assert f"| `{reason.value}` | {answer.status} | {answer.sentence} |" in text("docs/partners.md")


@pytest.mark.parametrize("layer", list(Layer), ids=str)
def test_every_layer_of_the_doctor_is_explained_to_operators(layer: Layer) -> None:
    assert f"| `{layer}` |" in text("docs/operations.md")


def _keys(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        yield from node.get("properties", {})
        for child in node.values():
            yield from _keys(child)
    elif isinstance(node, list):
        for child in node:
            yield from _keys(child)


@pytest.mark.parametrize("key", sorted(set(_keys(generate()))))
def test_every_key_of_a_policy_is_explained(key: str) -> None:
    assert re.search(rf"`(?:[a-z_<>\[\].{{}}]*\.)?{key}(?:\.[a-z_<>.]*|\[\]\.)?`", text("docs/policy.md"))


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    assert re.findall(r"^## \[(.+?)\]", text("CHANGELOG.md"), re.MULTILINE)[0] == __version__


def test_the_readme_begins_with_what_to_run() -> None:
    assert {"make demo", "make test"} <= set(re.findall(r"make [a-z]+", text("README.md")))


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = sorted(int(path.name[:4]) for path in (ROOT / "docs/adr").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
