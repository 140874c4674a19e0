from __future__ import annotations

import pytest

from gateway.policy.compile import compile_policy
from gateway.policy.model import Cap, Narrowing, ThinkingRule
from gateway.policy.mutation import unnoticed
from tests.policy.edits import PARTNER, Broken, assert_refused, compiled, edited, problems

ACME = "    models: [local, reasoner, embed]\n    limits: standard\n"
BATCH = "    models: [local, reasoner]\n    limits: standard\n"
LOCAL = "most_tokens: 4096}"
UNLISTED = "    unlisted: refuse\n    caps:\n      messages"
NOBODY = "may_enable: nobody"


def acme(narrow: str) -> tuple[str, str]:
    """Give the edit that narrows the client acme, by a block that begins with an endpoint."""
    return ACME, f"{ACME}    narrow:\n      {narrow}\n"


def local(caps: str) -> tuple[str, str]:
    """Give the edit that caps the model local."""
    return LOCAL, f"most_tokens: 4096, caps: {{{caps}}}}}"


REFUSED = [
    # a client: which endpoint
    Broken(*acme("chatt: {without: [n]}"), "      chatt:", "no endpoint `chatt`; the nearest is `chat`"),
    Broken(*acme("models: {without: [n]}"), "      models: {w", "`models` has no rules about a body"),
    Broken(
        BATCH,
        f"{BATCH}    narrow:\n      embeddings: {{without: [user]}}\n",
        "      embeddings: {without",
        "this client may not use `embeddings`",
    ),
    Broken(*acme("chat: {}"), "      chat: {}", "an empty mapping is an error"),
    # without
    Broken(*acme("chat: {without: [topk]}"), "      chat: {without", "does not accept `topk`"),
    Broken(*acme("chat: {without: [topk]}"), "      chat: {without", "the nearest is `top_k`"),
    Broken(*acme("chat: {without: [min_p]}"), "      chat: {without", "nothing is taken away"),
    Broken(*acme("chat: {without: [standard]}"), "      chat: {without", "does not accept `standard`"),
    Broken(*acme("chat: {without: [messages]}"), "      chat: {without", "every request needs `messages`"),
    # caps
    Broken(*acme("chat: {caps: {n: {at_most: 1, otherwise: refuse}}}"), "      chat: {caps", "only narrows"),
    Broken(*acme("chat: {caps: {n: {at_most: 2, otherwise: lower}}}"), "      chat: {caps", "only narrows"),
    Broken(
        *acme("chat: {caps: {messages: {at_most_items: 1024, at_most_media: 1, otherwise: refuse}}}"),
        "      chat: {caps",
        "only narrows",
    ),
    Broken(*acme("chat: {caps: {min_p: {at_most: 1, otherwise: lower}}}"), "      chat: {caps", "caps nothing"),
    Broken(
        *acme("chat: {without: [top_k], caps: {top_k: {at_most: 1, otherwise: lower}}}"),
        "      chat: {without",
        "caps nothing",
    ),
    Broken(*acme("chat: {caps: {stream: {at_most: 1, otherwise: lower}}}"), "      chat: {caps", "is no number"),
    # thinking
    Broken(*acme("embeddings: {thinking: refuse}"), "      embeddings: {thinking", "nothing thinks in"),
    Broken(*acme("chat: {thinking: lower}"), "      chat: {thinking", "`lower` is no word of this format"),
    Broken(
        BATCH,
        f"{BATCH}    narrow:\n      chat: {{thinking: refuse}}\n",
        "      chat: {thinking",
        "`may_enable` of the endpoint names this client",
    ),
    # a model
    Broken(*local("n: {at_most: 1, otherwise: refuse}"), "  local:    {", "only narrows"),
    Broken(*local("max_tokens: {at_most: 5, otherwise: lower}"), "  local:    {", "its `most_tokens`: write it there"),
    Broken(*local("min_p: {at_most: 1, otherwise: lower}"), "  local:    {", "no endpoint that can use this model"),
    Broken(*local("input: {at_most_items: 1, otherwise: refuse}"), "  local:    {", "no endpoint that can use this"),
    Broken(*local("stop: {at_most: 1, otherwise: refuse}"), "  local:    {", "is no number"),
    Broken(*local("{}"), "  local:    {", "a key must be text"),
]


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.words + broken.new[-40:])
def test_an_override_that_does_not_narrow_is_refused_at_its_line(broken: Broken) -> None:
    assert_refused(broken)


@pytest.mark.parametrize(
    "key, cap, words",
    [
        ("defaults: {temperature: 1}", "temperature: {at_most: 0.5, otherwise: lower}", "`defaults` sets more"),
        ("force: {stop: [a, b]}", "stop: {at_most_items: 1, otherwise: refuse}", "`force` sets more"),
        ("defaults: {max_tokens: 9}", "max_completion_tokens: {at_most: 8, otherwise: lower}", "`defaults` sets more"),
    ],
)
def test_what_the_endpoint_itself_sets_must_fit_the_narrower_cap(key: str, cap: str, words: str) -> None:
    text = edited(PARTNER, (UNLISTED, f"    {key}\n{UNLISTED}"))
    short = Broken(*acme(f"chat: {{caps: {{{cap}}}}}"), "      chat: {caps", words)
    with pytest.raises(Exception, match=words):
        compile_policy(text.replace(short.old, short.new, 1), "x.yaml")


def test_thinking_that_nobody_may_enable_cannot_be_narrowed() -> None:
    text = edited(PARTNER, ("may_enable: [client:batch, group:reasoning]", NOBODY), acme("chat: {thinking: refuse}"))
    with pytest.raises(Exception, match="nobody may enable thinking at this endpoint"):
        compile_policy(text, "x.yaml")


@pytest.mark.parametrize("key", ["defaults", "force"])
@pytest.mark.parametrize("narrow, refused", [("thinking: refuse", True), ("without: [seed]", False)])
def test_what_the_endpoint_sets_is_no_side_door_for_whom_thinking_is_narrowed(
    key: str,
    narrow: str,
    refused: bool,  # noqa: FBT001  (a column of the table)
) -> None:
    tool = "{type: function, function: {name: a, description: '<|im_start|>'}}"
    text = edited(
        PARTNER,
        ("    special_tokens: refuse\n", ""),
        (UNLISTED, f"    {key}: {{tools: [{tool}], parallel_tool_calls: true}}\n{UNLISTED}"),
        acme(f"chat: {{{narrow}}}"),
    )
    if not refused:
        compile_policy(text, "x.yaml")
        return
    told = "".join(map(str, problems(text)))
    assert f"`{key}` sets `tools` with a special token: a side door of thinking" in told


@pytest.mark.parametrize("switch", ["enable_thinking", "none"])
def test_a_client_whose_thinking_is_narrowed_writes_no_raw_prompts(switch: str) -> None:
    """Whoever writes all of a prompt can begin the thought in it."""
    text = edited(
        PARTNER,
        (
            "    may: [chat, models]\n    models: [local]\n",
            "    may: [chat, models, texts]\n    models: [local]\n    narrow: {chat: {thinking: refuse}}\n",
        ),
        (
            "endpoints:\n",
            "endpoints:\n  texts: {allow: POST /v1/completions, dialect: openai-completions, body_limit: 1MiB}\n",
        ),
        ("parameters:\n", "parameters:\n  texts: {accept: [model, prompt]}\n"),
        ("thinking_switch: enable_thinking", f"thinking_switch: {switch}"),
    )
    found = [problem for problem in problems(text) if "a raw prompt can begin a thought" in problem.sentence]
    assert [problem.where for problem in found] == ["clients.staff.narrow.chat.thinking"] * (switch != "none")


def test_what_a_client_may_less_is_resolved_by_endpoint() -> None:
    narrow = (
        "chat: {without: [tools, top_k], caps: {max_tokens: {at_most: 99, otherwise: lower},\n"
        "        messages: {at_most_characters: 500, at_most_media: 0, otherwise: refuse}}, thinking: disable}\n"
        "      embeddings: {caps: {input: {at_most_items: 8, otherwise: refuse}}}"
    )
    clients = compiled(PARTNER, acme(narrow)).plane.clients
    assert clients["acme"].narrow == {
        "chat": Narrowing(
            frozenset({"tools", "top_k"}),
            (("max_tokens", Cap(at_most=99, lower=True)), ("messages", Cap(at_most_characters=500, at_most_media=0))),
            ThinkingRule(everyone=False, disable_otherwise=True),
        ),
        "embeddings": Narrowing(caps=(("input", Cap(at_most_items=8)),)),
    }
    assert clients["batch"].narrow == {}


def test_a_model_s_caps_hold_where_they_narrow_one_endpoint_at_least() -> None:
    caps = "top_logprobs: {at_most: 0, otherwise: lower}, tools: {at_most_items: 3, otherwise: refuse}"
    models = compiled(PARTNER, local(caps)).plane.models
    assert models["local"].caps == (
        ("top_logprobs", Cap(at_most=0, lower=True)),
        ("tools", Cap(at_most_items=3)),
    )
    assert models["reasoner"].caps == ()
    embed = ("card: BAAI/bge-m3}", "card: BAAI/bge-m3, caps: {input: {at_most_items: 9, otherwise: refuse}}}")
    assert compiled(PARTNER, embed).plane.models["embed"].caps == (("input", Cap(at_most_items=9)),)


def test_each_part_of_an_override_needs_a_case_that_notices_it() -> None:
    """Whoever narrows must show that it bites, as for every other rule."""
    narrow = "chat: {without: [seed], caps: {stop: {at_most_items: 2, otherwise: refuse}}}"
    policy = compiled(
        PARTNER,
        (BATCH, f"{BATCH}    narrow:\n      {narrow}\n"),
        local("seed: {at_most: 7, otherwise: lower}"),
    )
    assert {".".join(map(str, mutant.path)) for mutant in unnoticed(policy)} == {
        "clients.batch.narrow",
        "clients.batch.narrow.chat.without",
        "clients.batch.narrow.chat.caps",
        "clients.batch.narrow.chat.caps.stop.at_most_items",
        "models.local.caps",
        "models.local.caps.seed.at_most",
        "models.local.caps.seed.otherwise",
    }
