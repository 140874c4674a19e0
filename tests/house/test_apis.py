"""The document of the APIs shows the tables as they are, and an example that holds."""

from __future__ import annotations

import re

from gateway.policy.cases import run
from gateway.policy.compile import compile_policy
from tests.e2e.site import policy_text
from tests.house.tree import text
from tools.apis import MARKER, tables

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


def test_the_tables_of_the_document_are_those_of_the_dialects() -> None:
    """A failure means: run 'python -m tools.apis' and commit the document."""
    _, marker, generated = text("docs/apis.md").partition(MARKER)
    assert marker
    assert generated == tables()


def test_the_example_of_the_document_holds() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", text("docs/apis.md"), re.DOTALL)
    example = example.replace("  who:\n", "  who:\n    nobody: {}\n")
    policy = compile_policy(AROUND + example + NOBODY, "docs/apis.md")
    assert run(policy) == ()
    assert len(policy.document.cases.expect) == 3


def test_the_policy_of_all_apis_holds() -> None:
    assert run(compile_policy(policy_text("apis.yaml"), "apis.yaml")) == ()
