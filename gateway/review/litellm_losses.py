"""What of a LiteLLM configuration has no counterpart here, and what to do about each.

Enters: a file that was read, and the paths that were carried over. Leaves: one problem for everything else that the
file states, so that nobody moves over and misses a rule without knowing. Values are never told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.dialects.registry import FACTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from gateway.policy.source import Path, Problem
    from gateway.review.litellm_file import LiteLlmFile

_TIME: Final = "time limits are GATEWAY_DEADLINES__…, or an endpoint's `deadlines` in the policy"
_RETRY: Final = "the gateway repeats only what cannot have run; everything else is the caller's SDK to repeat"
_CHOICE: Final = "replicas are chosen by their health and their requests in flight; there is nothing to weigh"
_FALLBACK: Final = "an alias means one model: no other answers in its place"
_PRICE: Final = "prices are not kept here; the audit record has each request's tokens"
_RECORDS: Final = "records go to GATEWAY_AUDIT_LOG and counts to /metrics; prompts and answers go nowhere"
_CACHE: Final = "answers are not cached"
_CALLERS: Final = "callers are the policy's clients, with keys of their own: `vllm-gateway key new CLIENT`"
_STATE: Final = "there is no database; what may change stands in the policy file"
_DEFAULT: Final = "a default of a body field stands in `parameters.<endpoint>.defaults`, for all models of the endpoint"
_HEADERS: Final = "header fields to the engine are built anew for each request; none can be added"
_NONE: Final = "this has no counterpart here"

ADVICE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("timeout", "stream_timeout", "request_timeout"), _TIME),
    **dict.fromkeys(("max_retries", "num_retries", "retry_policy", "retry_after", "model_group_retry_policy"), _RETRY),
    **dict.fromkeys(
        ("weight", "order", "routing_strategy", "routing_strategy_args", "allowed_fails", "cooldown_time"), _CHOICE
    ),
    **dict.fromkeys(
        ("fallbacks", "default_fallbacks", "context_window_fallbacks", "content_policy_fallbacks"), _FALLBACK
    ),
    **dict.fromkeys(("input_cost_per_token", "output_cost_per_token", "max_budget", "budget_duration"), _PRICE),
    **dict.fromkeys(("callbacks", "success_callback", "failure_callback", "set_verbose", "json_logs"), _RECORDS),
    **dict.fromkeys(("cache", "cache_params"), _CACHE),
    **dict.fromkeys(
        ("master_key", "custom_auth", "enable_jwt_auth", "litellm_jwtauth", "user_api_key_cache_ttl"), _CALLERS
    ),
    **dict.fromkeys(("database_url", "store_model_in_db", "redis_host", "redis_port", "redis_password"), _STATE),
    **dict.fromkeys(("headers", "extra_headers", "default_headers", "forward_client_headers_to_llm_api"), _HEADERS),
    "drop_params": "write `unlisted: drop` under `parameters.<endpoint>` of the policy",
    "additional_drop_params": "leave these fields out of `parameters.<endpoint>.accept`",
    "litellm_credential_name": "write `api_base` and `api_key` into the entry itself and import again",
    "include": "import each of the included files as well",
    "environment_variables": "set these in the environment of the process that reads them; this gateway reads none",
    "access_groups": "which client may use which model stands in `clients.<name>.models`",
    "allowed_routes": "which endpoints there are stands in `endpoints` of the policy",
    "extra_body": _DEFAULT,
}

_SECTIONS: Final = ("litellm_settings", "general_settings", "router_settings")
_FIELDS: Final = FACTS["openai-chat"].fields.keys() | FACTS["openai-embeddings"].fields.keys()


def advice(key: str) -> str:
    """Say what to do about a key that was not carried over."""
    return ADVICE.get(key) or (_DEFAULT if key in _FIELDS else _NONE)


def losses(file: LiteLlmFile, carried: Collection[Path]) -> Iterator[Problem]:
    """Yield a problem for everything that the file states and that is not among the ``carried`` paths."""
    for path in _stated(file):
        if path not in carried:
            yield file.problem(path, f"not carried over: {advice(str(path[-1]))}")


def _stated(file: LiteLlmFile) -> Iterator[Path]:
    """Yield the paths of all that a file states, each section and entry by its keys."""
    for name, section in file.data.items():
        if name == "model_list":
            continue
        if name in _SECTIONS and isinstance(section, dict):
            yield from ((name, str(key)) for key in section)
        else:
            yield (str(name),)
    for index, entry in enumerate(file.data["model_list"]):
        for key, value in entry.items():
            here: Path = ("model_list", index, str(key))
            if key in {"litellm_params", "model_info"} and isinstance(value, dict):
                yield from ((*here, str(inner)) for inner in value)
            else:
                yield here
