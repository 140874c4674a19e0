from __future__ import annotations

import pytest

from gateway.policy.grammar import retyped, type_document, unfit
from gateway.policy.source import PolicyError, read
from tests.policy.edits import CONTROL, INTERNAL, PARTNER, Broken, assert_refused, compiled, edited, example

NO_PATTERNS = "patterns do not exist in this format"

UNKNOWN_KEYS = [
    Broken(
        "tokens_per_day: 5000000", "tmp: 100", "tmp:", "there is no key `tmp` here; the nearest is `tokens_per_minute`"
    ),
    Broken("    limits: standard", "    limit: standard", "    limit: ", "the nearest is `limits`"),
    Broken(
        "    may: [chat, em", "    allowed_route: [chat, em", "allowed_route:", "there is no key `allowed_route` here"
    ),
    Broken("served_as: local", "serve_as: local", "  local:", "the nearest is `served_as`"),
    Broken("at_most_items: 1024", "at_most_item: 1024", "messages: ", "the nearest is `at_most_items`"),
    Broken("at_most_items: 1024", "at_most_character: 9", "messages: ", "the nearest is `at_most_characters`"),
    Broken("endpoints:\n", "endpoint:\n", "endpoint:", "the nearest is `endpoints`"),
    Broken("group: ml-users", "group: ml-users, groups: x", "group: ml-users", "the nearest is `group`"),
    Broken("deny: model-missing", "denies: model-missing", "denies:", "the nearest is `deny`"),
    Broken("token_type: at+jwt", "tokentype: at+jwt", "tokentype", "the nearest is `token_type`"),
    Broken("sha256: 7a1f", "sha: 7a1f", "sha: 7a1f", "the nearest is `sha256`"),
]
MISSING_KEYS = [
    Broken("plane: partner\n", "", "policy: 1", "`plane` is missing: Name of the plane"),
    Broken("        clock_skew: 30s\n", "", "      access_token:", "`clock_skew` is missing: How far"),
    Broken("    limits: standard\n  batch", "  batch", "  acme:", "`limits` is missing: Name of its set"),
    Broken("      default: disabled\n", "", "    thinking:\n      may_enable", "`default` is missing: What is sent"),
    Broken("policy: 1\n", "", "plane: partner", "`policy` is missing: Version"),
]
WRONG_VALUES = [
    Broken("    may: [chat, models]", "    may: chat", "    may: chat\n", "write a list here"),
    Broken("expect:\n", "expect: {a: 1}\n  x:\n", "expect:", "write a list here"),
    Broken("clients:\n", "clients: x\nclient:\n", "clients: x", "write a mapping here"),
    Broken("  standard:\n    requests", "  tpm: 100\n  standard:\n    requests", "tpm:", "such as `tokens_per_minute`"),
    Broken("{corp: 6f1c0b7e-2d3a-4a58-9a1c-0d5f6c7b8a90}", "{corp: 12}", "{corp: 12}", "quote it"),
    Broken("requests_per_minute: 60", "requests_per_minute: 1_000", "1_000", "no quotes, underscores"),
    Broken("requests_per_minute: 60", "requests_per_minute: '60'", "'60'", "a whole number here"),
    Broken("requests_per_minute: 60", "requests_per_minute: 0", "_minute: 0", "the smallest number here is 1"),
    Broken("requests_per_minute: 60", "requests_per_minute: 60.0", "60.0", "a whole number here"),
    Broken("requests_per_minute: 60", "requests_per_minute: false", "_minute: false", "a whole number here"),
    Broken("most_tokens: 4096", "most_tokens: 4k", "most_tokens: 4k", "a whole number here"),
    Broken("at_most: 1,", "at_most: false,", "at_most: false", "write a number"),
    Broken("policy: 1", "policy: 2", "policy: 2", "reads version 1"),
    Broken("policy: 1", "policy: true", "policy: true", "reads version 1"),
    Broken("public: true", "public: false", "public: false", "there is no false to write"),
    Broken("suspended: true", "suspended: false", "suspended: false", "there is no false to write"),
    Broken("suspended: true", "suspended: no", "suspended: no", "there is no false to write"),
    Broken("unlisted: refuse", "unlisted: refused", "unlisted: refused", "the nearest is `refuse`"),
    Broken("unlisted: refuse", "unlisted: false", "unlisted: false", "write one of `refuse`, `drop` here"),
    Broken("otherwise: lower", "otherwise: cut", "otherwise: cut", "no word of this format"),
    Broken("deny: model-missing", "deny: internal", "deny: internal", "no word of this format"),
    Broken("dialect: openai-chat", "dialect: openai-chats", "openai-chats", "the nearest is `openai-chat`"),
    Broken("token_type: at+jwt", "token_type: at", "token_type: at\n", "the nearest is `at+jwt`"),
    Broken("[RS256, ES256]", "[RS256, HS256]", "HS256", "no word of this format"),
    Broken("[RS256, ES256]", "[none]", "[none]", "no word of this format"),
    Broken("each: subject", "each: client", "each: client\n    may", "the nearest is `subject`"),
    Broken("special_tokens: refuse", "special_tokens: false", "special_tokens: false", "write one of `refuse`"),
    Broken("body_limit: 2MiB", "body_limit: 2097152", "body_limit: 2097152", "write text here"),
    Broken("body_limit: 2MiB", "body_limit: 2MB", "body_limit: 2MB", "such as 2MiB"),
    Broken("clock_skew: 30s", "clock_skew: 30", "clock_skew: 30", "write text here"),
    Broken("not_after: 2027-01-31", "not_after: 31.1.2027", "31.1.2027", "written as 2027-01-31"),
    Broken("sha256: 7a1f", "sha256: XYZ7a1f", "XYZ7a1f", "the key itself never stands in a policy"),
    Broken(
        "{tunnel: {group: ml-users}}", "{tunnel: {group: ml-users}, corp: x}", "corp: x}", "write exactly one key here"
    ),
]
EMPTY = [
    Broken("may: [models]", "may: []", "may: []", "an empty list is an error"),
    Broken("models: [local]\n", "models: []\n", "models: []", "an empty list is an error"),
    Broken("endpoints:\n", "endpoints: {}\nx:\n", "endpoints: {}", "an empty list or mapping is an error"),
    Broken("limits:\n", "limits: {}\nx:\n", "limits: {}", "an empty list or mapping is an error"),
    Broken("clients:\n", "clients: {}\nx:\n", "clients: {}", "an empty list or mapping is an error"),
    Broken("algorithms: [RS256, ES256]", "algorithms: []", "algorithms: []", "an empty list is an error"),
    Broken("needs: [llm.embed]", "needs: []", "needs: []", "an empty list is an error"),
    Broken("accept: [standard, top_k]", "accept: []", "accept: []", "an empty list is an error"),
    Broken(
        "may_enable: [client:batch, group:reasoning]", "may_enable: []", "may_enable: []", "an empty list is an error"
    ),
    Broken("keys:                             #", "keys: []\n    from: #", "keys: []", "an empty list is an error"),
    Broken(
        "deadlines: {first_byte: 300s, total: 1800s}", "deadlines: {}", "deadlines: {}", "an empty mapping", INTERNAL
    ),
    Broken("corp: 6f1c0b7e-2d3a-4a58-9a1c-0d5f6c7b8a90", "", "is: {}", "an empty list or mapping is an error"),
    Broken("tokens_per_day: 5000000", "tokens_per_day:", "tokens_per_day:\n", "this key has no value"),
    Broken("tokens_per_day: 5000000", "tokens_per_day: ~", "tokens_per_day: ~", "this key has no value"),
    Broken("plane: partner", "plane: null", "plane: null", "this key has no value"),
    Broken("cors: {origins: []}", "cors:", "cors:", "this key has no value"),
    Broken("access_logs: [", "access_logs: [null, ", "access_logs: [null", "this key has no value"),
    Broken("summary: >", 'summary: "  "\nx: >', 'summary: "  "', "say in one or two sentences"),
    Broken("card: Qwen/Qwen3-32B", 'card: ""', 'card: ""', "must not be empty"),
]
DOUBLED = [
    Broken("may: [chat, models]", "may: [chat, chat]", "may: [chat, chat]", "stands in the list twice"),
    Broken("models: [local, reasoner]", "models: [local, local]", "[local, local]", "stands in the list twice"),
    Broken("  acme:\n    is", "  batch:\n    is", "  batch:\n    is:\n", "`batch` stands here twice"),
    Broken(
        "  local:    {", "  local: {engine: x, served_as: y}\n  local: {", "  local: {engine: main", "stands here twice"
    ),
]
PATTERNS = [
    Broken("POST /v1/chat/completions", "POST /v1/*", "POST /v1/*", NO_PATTERNS),
    Broken("POST /v1/chat/completions", "POST /v1/{path}", "POST /v1/{path}", NO_PATTERNS),
    Broken("POST /v1/chat/completions", "POST ^/v1/.+$", "POST ^/v1/.+$", NO_PATTERNS),
    Broken("models: [local, reasoner, embed]", "models: ['gpt-4.*']", "gpt-4.*", NO_PATTERNS),
    Broken("models: [local, reasoner, embed]", "models: ['(a+)+$']", "(a+)+$", NO_PATTERNS),
    Broken("models: [local, reasoner, embed]", "models: ['*']", "models: ['*']", NO_PATTERNS),
    Broken("may: [chat, models]", "may: ['*']", "may: ['*']", NO_PATTERNS),
    Broken("may: [chat, models]", "may: ['!embeddings']", "may: ['!", NO_PATTERNS),
    Broken("corp: 6f1c0b7e-2d3a-4a58-9a1c-0d5f6c7b8a90", "corp: '*'", "corp: '*'", NO_PATTERNS),
    Broken("group: ml-users", "group: ml-*", "group: ml-*", NO_PATTERNS),
    Broken("group:reasoning", "group:reason*", "group:reason*", NO_PATTERNS),
    Broken("client:batch", "'client:*'", "'client:*'", NO_PATTERNS),
    Broken("hosts: []", "hosts: ['*.example.com']", "*.example.com", NO_PATTERNS),
    Broken("origins: []", "origins: ['*']", "origins: ['*']", NO_PATTERNS),
    Broken("[standard, top_k]", "['*']", "accept: ['*']", NO_PATTERNS),
    Broken("[llm.embed]", "['llm.*']", "'llm.*'", NO_PATTERNS),
    Broken("audience: vllm-gateway/partner", "audience: vllm-*", "audience: vllm-*", NO_PATTERNS),
    Broken("issuer: https://login", "issuer: https://*.login", "https://*.login", NO_PATTERNS),
    Broken("served_as: deepseek", "served_as: deep*", "  reasoner: {", NO_PATTERNS),
    Broken("dialect: openai-chat", "dialect: openai-*", "openai-*", NO_PATTERNS),
    Broken("from: [10.20.0.0/16,", "from: ['10.*',", "'10.*'", NO_PATTERNS, INTERNAL),
    Broken('level: ["1", "2"]', 'level: ["*"]', 'level: ["*"]', NO_PATTERNS, CONTROL),
]
UNSEEN = [
    Broken("summary: >", 'summary: "Partners \\u202e may chat."\nx: >', "summary: ", "U+202E"),
    Broken("card: Qwen/Qwen3-32B", 'card: "Qwen\\u200b"', "  local: ", "U+200B"),
    Broken("name: no credential", 'name: "no\\rcredential"', 'name: "no', "U+000D"),
    Broken("card: Qwen/Qwen3-32B", 'card: "Qwen\\n"', "  local: ", "U+000A"),
    Broken("access_logs: [", 'access_logs: ["a\\tb", ', "access_logs:", "a tab"),
    Broken("initech app: ", '"initech\\0app": ', "initech\\0app", "U+0000"),
    Broken("flow_logs: [", "flow_logs: [\u00adx, ", "flow_logs", "U+00AD"),
]


@pytest.mark.parametrize("broken", UNKNOWN_KEYS, ids=lambda broken: broken.new)
def test_an_unknown_key_is_refused_with_the_nearest_one(broken: Broken) -> None:
    assert_refused(broken)


@pytest.mark.parametrize("broken", MISSING_KEYS, ids=lambda broken: broken.old)
def test_a_missing_key_is_told_with_what_it_is_for(broken: Broken) -> None:
    assert_refused(broken)


@pytest.mark.parametrize("broken", [*WRONG_VALUES, *EMPTY, *DOUBLED], ids=lambda broken: broken.new)
def test_a_wrong_value_is_refused_with_what_to_write(broken: Broken) -> None:
    assert_refused(broken)


@pytest.mark.parametrize("broken", PATTERNS, ids=lambda broken: broken.new)
def test_a_pattern_is_refused_because_there_are_none(broken: Broken) -> None:
    assert_refused(broken)


@pytest.mark.parametrize("broken", UNSEEN, ids=lambda broken: broken.at)
def test_text_that_a_reviewer_would_not_see_is_refused(broken: Broken) -> None:
    assert_refused(broken)


def test_requests_of_cases_may_hold_what_a_hostile_caller_sends() -> None:
    text = edited(PARTNER, ("content: hi", 'content: "\\u202e\\0"'), ("reasoning_effort: null", "reasoning_effort: ~"))
    assert not unfit(read(text, "f"))


@pytest.mark.parametrize(
    "edit",
    [
        ("summary: >", "summary: |"),
        ('flow_logs: ["VPC flow logs, 90 days"]', "flow_logs:\n    - |\n      two\n      lines"),
        ("    - {name: no credential, who", "    - {name: 'no\n\n        credential', who"),
    ],
)
def test_prose_may_have_several_lines(edit: tuple[str, str]) -> None:
    assert not unfit(read(edited(PARTNER, edit), "f"))


@pytest.mark.parametrize("name", [PARTNER, INTERNAL, CONTROL])
def test_the_worked_examples_are_documents(name: str) -> None:
    tree = read(example(name), name)
    assert not unfit(tree)
    assert type_document(tree).plane == name


def test_all_problems_come_at_once() -> None:
    text = edited(
        PARTNER, ("plane: partner", "plane: Partner"), ("unlisted: refuse", "unlisted: x"), ("each: sub", "each: x")
    )
    with pytest.raises(PolicyError) as caught:
        type_document(read(text, "f"))
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("key", ["<0>", "<9>", "[key]", "properties", "0"])
def test_a_key_that_looks_like_a_mark_of_the_reader_is_an_unknown_key(key: str) -> None:
    text = edited(PARTNER, ("{group: ml-users}", f"{{group: ml-users, '{key}': 1}}"))
    with pytest.raises(PolicyError, match="there is no key"):
        type_document(read(text, "f"))


def test_one_entry_can_be_typed_anew_and_the_rest_is_kept() -> None:
    document = compiled(PARTNER).document
    entry = {"allow": "GET /v2", "dialect": "openai-models"}
    changed = retyped(document, "endpoints", "models", entry)
    assert changed.endpoints["models"].allow == "GET /v2"
    assert changed.endpoints["chat"] is document.endpoints["chat"]
    assert changed.clients is document.clients
    assert document.endpoints["models"].allow == "GET /v1/models"
    assert "models" not in retyped(document, "endpoints", "models", None).endpoints
    models = retyped(document, "models", "embed", {"engine": "e", "served_as": "s"}).models
    assert models is not None
    assert models["embed"].engine == "e"


@pytest.mark.parametrize("entry", [{"allow": "GET /v2"}, {"allow": "GET /v2", "dialect": "x"}, {}, 7])
def test_an_entry_that_cannot_be_typed_is_refused(entry: object) -> None:
    with pytest.raises(PolicyError):
        retyped(compiled(PARTNER).document, "endpoints", "models", entry)


def test_the_last_entry_of_an_area_cannot_be_left_out() -> None:
    document = compiled(INTERNAL).document
    for name in list(document.limits)[1:]:
        document = retyped(document, "limits", name, None)
    with pytest.raises(PolicyError):
        retyped(document, "limits", next(iter(document.limits)), None)
