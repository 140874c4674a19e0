from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy.compile import compile_plane, compile_planes, compile_policy, resolve, together
from gateway.policy.source import Mark, PolicyError, Tree, read
from tests.policy.edits import CONTROL, INTERNAL, PARTNER, Broken, assert_refused, compiled, edited, example, problems

EDGE = "  edge: {cloudflare_access: {team: example, audience: " + "a" * 64 + "}}\n"
# The examples are three planes of three owners: two of them call different issuers corp, so one must be renamed.
STAFF = (
    ("    corp:\n", "    staff:\n"),
    ("{corp: {group: agent-users}}", "{staff: {group: agent-users}}"),
    ("{corp: {", "{staff: {"),
)
SET = {"partner.yaml": example(PARTNER), "control.yaml": example(CONTROL), "internal.yaml": edited(INTERNAL, *STAFF)}

REFUSED = [
    Broken("listener: public", "listener: ops", "listener: ops", "the gateway's own"),
    Broken("listener: public", "listener: pub--lic", "listener: pub--lic", "no -- and no - at the end"),
    Broken("    keys:\n", "    keys-: {api_key: {}}\n    keys:\n", "    keys-:", "no -- and no - at the end"),
    Broken("engine: embedder", "engine: em--bedder", "  embed:  ", "no -- and no - at the end"),
    Broken("    engine: main\n", "    engine: main-\n", "    engine: main-", "no -- and no - at the end", CONTROL),
    Broken(
        "allow: GET /v1/models\n",
        "allow: GET /.well-known/oauth-protected-resource\n",
        "metadata: {",
        "an endpoint has the path of this document: /.well-known/oauth-protected-resource",
    ),
    Broken("hosts: []", "hosts: [images.example.com, 169.254.169.254]", "media: {", "an address is no host name"),
]


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.words + broken.new)
def test_what_stands_around_the_rules_is_judged_too(broken: Broken) -> None:
    assert_refused(broken)


RAW = (
    (
        "  embeddings:\n    allow",
        "  raw: {allow: POST /v1/completions, dialect: openai-completions, body_limit: 1MiB}\n  embeddings:\n    allow",
    ),
    ("parameters:\n", "parameters:\n  raw: {accept: [standard], unlisted: refuse}\n"),
)
NOBODY = ("may_enable: [client:batch, group:reasoning]", "may_enable: nobody")
UNABLE = (
    ("thinking_switch: enable_thinking", "thinking_switch: none"),
    ("thinking_switch: thinking", "thinking_switch: none"),
)


@pytest.mark.parametrize("edits, closed", [((NOBODY,), True), ((), False), ((NOBODY, *UNABLE), False)])
def test_raw_prompts_are_closed_where_nobody_may_think_and_a_model_could(
    edits: tuple[tuple[str, str], ...], *, closed: bool
) -> None:
    """Whoever writes the whole prompt can begin the thought in it. The cases that this endpoint lacks are no matter."""
    found = [one.sentence for one in problems(edited(PARTNER, *RAW, *edits)) if one.where == "endpoints.raw.dialect"]
    sentence = (
        "`parameters.chat.thinking` lets nobody think, and a raw prompt can begin the thought of `local`: close this "
        "endpoint, or write `thinking_switch: none` for a model that cannot think"
    )
    assert found == [sentence] * closed


@pytest.mark.parametrize(
    "name, old, new, at",
    [
        (CONTROL, "listener: control\n", "listener: control\npublic: true\n", "public"),
        (CONTROL, "  callers:\n", f"{EDGE}  callers:\n", "trust.edge"),
    ],
)
def test_a_plane_that_people_outside_can_reach_states_its_operations(name: str, old: str, new: str, at: str) -> None:
    with pytest.raises(PolicyError) as caught:
        compiled(name, (old, new))
    (problem,) = caught.value.problems
    assert problem.where == at
    assert "operations" in problem.sentence


@pytest.mark.parametrize("name", [PARTNER, INTERNAL, CONTROL])
def test_the_worked_examples_compile(name: str) -> None:
    text = example(name)
    plane = compile_plane(text, f"{name}.yaml")
    assert (plane.name, plane.source) == (name, f"{name}.yaml")
    assert plane.digest == sha256(text.encode()).hexdigest()


def test_a_plane_says_what_its_file_says() -> None:
    plane = compiled(
        PARTNER, ("hosts: []", "hosts: [images.example.com]"), ("origins: []", "origins: ['https://a.example.com']")
    ).plane
    assert (plane.listener, plane.public, plane.resource) == ("public", True, "https://llm.example.com")
    assert plane.summary.startswith("Partner apps with their own token or key")
    assert "\n" not in plane.summary
    assert plane.media_hosts == {"images.example.com"}
    assert plane.cors_origins == {"https://a.example.com"}


def test_what_a_file_leaves_out_is_closed() -> None:
    plane = compiled(CONTROL).plane
    assert (plane.public, plane.edge, plane.resource) == (False, None, None)
    assert not plane.media_hosts
    assert not plane.cors_origins


@pytest.mark.parametrize(
    "name, edits, key",
    [
        (CONTROL, [], "endpoints.sleep"),
    ],
)
def test_what_is_stated_and_not_enforced_yet_is_listed(name: str, edits: list[tuple[str, str]], key: str) -> None:
    assert key in compiled(name, *edits).plane.not_enforced


def test_what_is_not_stated_is_not_listed() -> None:
    open_to_pages = compiled(PARTNER, ("origins: []", "origins: ['https://a.example.com']"))
    assert "cors.origins" not in open_to_pages.plane.not_enforced
    assert not any(key.startswith("limits.") for key in compiled(PARTNER).plane.not_enforced)
    assert not any(key.startswith("endpoints.") for key in compiled(PARTNER).plane.not_enforced)


def test_problems_of_values_and_of_unseen_text_come_together() -> None:
    with pytest.raises(PolicyError) as caught:
        compiled(PARTNER, ("card: Qwen/Qwen3-32B", 'card: "Qwen\\u200b"'), ("unlisted: refuse", "unlisted: x"))
    assert len(caught.value.problems) == 2


def test_unseen_text_alone_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"U\+200B"):
        compiled(PARTNER, ("card: Qwen/Qwen3-32B", 'card: "Qwen\\u200b"'))


def test_a_set_of_files_compiles_in_its_order() -> None:
    assert [plane.name for plane in compile_planes(SET)] == [PARTNER, CONTROL, INTERNAL]


def test_the_problems_of_all_files_of_a_set_are_told() -> None:
    with pytest.raises(PolicyError) as caught:
        compile_planes({**SET, "a.yaml": "", "b.yaml": "policy: 2\n"})
    assert {problem.file for problem in caught.value.problems} == {"a.yaml", "b.yaml"}


@pytest.mark.parametrize(
    "edits, where, words",
    [
        ([("plane: control", "plane: partner")], "plane", "the name of the plane of partner.yaml already"),
        ([("listener: control", "listener: public")], "listener", "this one belongs to partner.yaml already"),
        (
            [("vllm-gateway/control", "vllm-gateway/partner")],
            "trust.callers.platform.access_token.audience",
            "this one belongs to partner.yaml already",
        ),
        (
            [("    platform:", "    corp:"), ("{platform: e0c1", "{corp: e0c1"), ("{platform: 6f1c", "{corp: 6f1c")],
            "trust.callers.corp",
            "partner.yaml states another issuer for `corp`",
        ),
    ],
)
def test_two_files_that_cannot_be_told_apart_are_refused(edits: list[tuple[str, str]], where: str, words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        compile_planes({"partner.yaml": example(PARTNER), "control.yaml": edited(CONTROL, *edits)})
    (problem,) = caught.value.problems
    assert (problem.file, problem.where) == ("control.yaml", where)
    assert words in problem.sentence


def test_two_edge_locks_are_of_one_team() -> None:
    other = EDGE.replace("team: example", "team: other")
    operations = "operations:" + example(INTERNAL).partition("operations:")[2].partition("cases:")[0] + "cases:"
    one = compile_policy(edited(INTERNAL, *STAFF, ("  callers:\n", f"{EDGE}  callers:\n")), "internal.yaml")
    two = compile_policy(
        edited(CONTROL, ("  callers:\n", f"{other}  callers:\n"), ("cases:", operations)), "control.yaml"
    )
    (problem,) = together([one, two])
    assert problem.where == "trust.edge"


def test_one_caller_with_one_issuer_may_stand_in_several_files() -> None:
    edits = (("    platform:", "    corp:"), ("{platform: e0c1", "{corp: e0c1"), ("{platform: 6f1c", "{corp: 6f1c"))
    text = edited(CONTROL, *edits, ("realms/platform", "realms/partners"))
    assert len(compile_planes({"partner.yaml": example(PARTNER), "control.yaml": text})) == 2


def paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401  (data of a file)
    """List the paths of all values within data."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(below for key, value in inner for below in paths(value, (*path, key)))]


def put(data: Any, path: tuple[Any, ...], value: object) -> Any:  # noqa: ANN401  (as above)
    """Copy data with another value at a path."""
    if not path:
        return value
    copy = data.copy()
    copy[path[0]] = put(data[path[0]], path[1:], value)
    return copy


DATA = {name: read(example(name), name).data for name in (PARTNER, INTERNAL, CONTROL)}
PLACES = [(name, path) for name, data in DATA.items() for path in paths(data) if path and path[0] != "cases"]
CASES = [("internal", path) for path in paths(DATA[INTERNAL]) if path[:1] == ("cases",)]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=4,
)
ELSEWHERE_IN_FILES = st.sampled_from(PLACES).map(lambda place: value_at(DATA[place[0]], place[1]))


def value_at(data: Any, path: tuple[Any, ...]) -> Any:  # noqa: ANN401  (as above)
    """Give the value at a path."""
    for part in path:
        data = data[part]
    return data


@given(place=st.sampled_from([*PLACES, *CASES]), value=VALUES | ELSEWHERE_IN_FILES)
@settings(max_examples=300, deadline=None)
def test_whatever_stands_somewhere_is_compiled_or_refused_with_sentences(place: tuple[str, Any], value: object) -> None:
    name, path = place
    tree = Tree(name, put(DATA[name], path, value), {(): Mark(1, 1)})
    with suppress(PolicyError):
        assert resolve(tree, "").plane.source == name
