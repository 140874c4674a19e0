"""The document of the APIs shows the tables as they are, and an example that holds."""

from __future__ import annotations

import re

import pytest

from gateway.dialects.registry import FACTS
from gateway.policy.cases import run
from gateway.policy.compile import compile_policy
from tests.e2e.site import policy_text
from tests.house.tree import text
from tools.apis import renewed, section, table

# What the example leaves out, as it is not about it.
AROUND = f"""
policy: 1
plane: example
listener: public
summary: What the document shows.
trust: {{callers: {{keys: {{api_key: {{}}}}}}}}
limits: {{standard: {{requests_per_minute: 60, concurrent_requests: 4}}}}
clients:
  acme:
    is: {{keys: [{{sha256: {"ab" * 32}}}]}}
    may: [transcriptions]
    models: [whisper]
    limits: standard
"""
NOBODY = """    - {name: nobody else, who: nobody, ask: POST /v1/audio/transcriptions, deny: credential-missing}
"""


@pytest.mark.parametrize("name", [name for name, facts in FACTS.items() if facts.fields])
def test_every_dialect_has_its_section_with_every_field_as_it_is(name: str) -> None:
    """A failure means: write the section, or run 'python -m tools.apis', and commit the document."""
    shown = [line for line in section(text("docs/apis.md"), name).splitlines() if line.startswith("| `")]
    assert shown == [line for line in table(FACTS[name]).splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("name", [name for name, facts in FACTS.items() if facts.standard])
def test_every_section_says_what_standard_stands_for(name: str) -> None:
    said = section(text("docs/apis.md"), name).rpartition("`standard` is")[2]
    assert FACTS[name].standard <= set(re.findall(r"`([a-z_.]+)`", said))


def test_the_document_is_as_the_tool_writes_it() -> None:
    assert renewed(text("docs/apis.md")) == text("docs/apis.md")


def test_the_document_lists_the_media_types_of_recordings() -> None:
    for name in ("openai-transcriptions", "openai-translations"):
        shown = re.findall(
            r"`((?:audio|video|application)/[a-z0-9.-]+)`", section(text("docs/apis.md"), "openai-transcriptions")
        )
        assert set(shown) == FACTS[name].fields["file"].words


def test_the_example_of_the_document_holds() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", text("docs/apis.md"), re.DOTALL)
    example = example.replace("  who:\n", "  who:\n    nobody: {}\n")
    policy = compile_policy(AROUND + example + NOBODY, "docs/apis.md")
    assert run(policy) == ()
    assert len(policy.document.cases.expect) == 3


def test_the_policy_of_all_apis_holds() -> None:
    assert run(compile_policy(policy_text("apis.yaml"), "apis.yaml")) == ()
