"""The image, as far as its recipe tells without a container engine: stages, owner, and what goes in."""

from __future__ import annotations

import json
import re

from tests.house.tree import ROOT, text

STEPS = [
    step.split(maxsplit=1)
    for step in re.sub(r"\\\n\s*", "", text("Dockerfile")).splitlines()
    if step and not step.startswith("#")
]
LAST = STEPS[max(n for n, (word, _) in enumerate(STEPS) if word == "FROM") :]


def _all(word: str, steps: list[list[str]]) -> list[str]:
    return [rest for name, rest in steps if name == word]


def test_two_stages_start_from_one_base_that_can_be_pinned_by_digest() -> None:
    assert _all("FROM", STEPS) == ["${BASE} AS build", "${BASE}"]
    (base,) = _all("ARG", STEPS)
    assert re.fullmatch(r"BASE=python:3\.1[1-4]-slim-[a-z]+", base)


def test_everything_that_is_fetched_is_pinned_by_hash_and_nothing_is_compiled() -> None:
    installs = [
        part for run in _all("RUN", STEPS) for part in run.split("&&") if re.search(r"pip .*(install|wheel) ", part)
    ]
    assert len(installs) == 4
    for install in installs:
        assert "--require-hashes --no-deps --only-binary :all:" in install or "--no-deps --no-index" in install


def test_no_step_runs_what_it_downloads() -> None:
    assert not re.search(r"curl|wget|\| *(ba)?sh|^ADD", text("Dockerfile"), re.MULTILINE)


def test_the_last_stage_has_no_installer_and_installs_nothing() -> None:
    (run,) = _all("RUN", LAST)
    assert run.startswith("rm -rf /usr/local/bin/pip*")
    assert "site-packages/*" in run
    assert "ensurepip" in run
    assert _all("COPY", LAST) == ["--from=build /opt/vllm-gateway /opt/vllm-gateway"]


def test_the_gateway_runs_as_a_numeric_user_that_is_not_root() -> None:
    """A number, so that an orchestrator can see that it is not root without reading the image's list of users."""
    assert _all("USER", STEPS) == ["10001:10001"]


def test_the_image_serves_by_default_and_is_asked_on_the_operations_listener() -> None:
    assert json.loads(_all("ENTRYPOINT", LAST)[0]) == ["vllm-gateway"]
    assert json.loads(_all("CMD", LAST)[0]) == ["serve"]
    (check,) = _all("HEALTHCHECK", LAST)
    assert "'127.0.0.1', 9090" in check
    assert "/livez" in check


def test_all_that_is_copied_exists_and_passes_the_list_of_what_a_build_may_see() -> None:
    allowed = {line[1:] for line in text(".dockerignore").splitlines() if line.startswith("!")}
    copied = {name for copy in _all("COPY", STEPS) if not copy.startswith("--from") for name in copy.split()[:-1]}
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)
    assert text(".dockerignore").splitlines()[0] == "*"
