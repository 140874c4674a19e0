"""What an engine's API says for itself: which models it serves, who may ask, what it opens to anybody.

Enters: replies of one replica. Leaves: findings of the layer ``engine API``. Facts are those of vLLM 0.32 and 0.33:
which paths the key guards, what exists in development mode, which flag names a model.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gateway.dialects.openai_models import served_models
from gateway.reasons import Malformed
from gateway.review.diagnosis import Finding, Layer, Verdict, told
from gateway.review.engine_findings import remedy
from gateway.review.json_reading import member, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gateway.dialects.openai_models import ServedModel
    from gateway.inquiry import Reply
    from gateway.policy.model import Model, Plane

OLDEST: Final = (0, 32)
"""The release below which known weaknesses are not mended."""

_OK = 200
_REFUSED = (401, 403)
_NOT_ALLOWED = 405
_VERSION = re.compile(r"(\d+)\.(\d+)")
_SHOWN = 5


def models(
    subject: str, variable: str, reply: Reply, *, has_key: bool
) -> tuple[Finding | None, Mapping[str, ServedModel]]:
    """Read the list of models. Gives what is broken, if anything, and what is served."""
    if reply.failure is not None:
        return _found(Verdict.BROKEN, subject, f"/v1/models: {reply.why}", remedy(reply.failure, variable)), {}
    if reply.status in _REFUSED:
        if has_key:
            saw, do = "refuses the gateway's key", f"{variable}__API_KEY must equal vLLM's VLLM_API_KEY (or --api-key)"
        else:
            saw, do = "demands a key, and the gateway has none", f"set {variable}__API_KEY_FILE to vLLM's VLLM_API_KEY"
        return _found(Verdict.BROKEN, subject, f"{saw} ({reply.status})", do), {}
    try:
        if reply.status == _OK:
            return None, served_models(reply.body)
    except Malformed:
        pass
    saw = f"/v1/models says {reply.status}, and no list of models"
    return _found(Verdict.BROKEN, subject, saw, f"is it vLLM's OpenAI server? {variable}__URLS"), {}


def names(
    subject: str, wanted: Sequence[Model], served: Mapping[str, ServedModel], elsewhere: frozenset[str]
) -> Iterator[Finding]:
    """Compare the names of the policies with those that a replica serves; ``elsewhere``: what other replicas serve."""
    shown = ", ".join(told(name, 60) for name in list(served)[:_SHOWN]) or "nothing"
    flag = "--served-model-name " + " ".join(dict.fromkeys(model.served_as for model in wanted))
    for model in wanted:
        entry = served.get(model.served_as)
        if entry is None:
            verdict = Verdict.WARNING if model.served_as in elsewhere else Verdict.BROKEN
            saw = f"does not serve {model.served_as!r} (model {model.alias!r} of the policy); it serves {shown}"
            do = f"start vLLM with {flag}, or write the name that it serves as served_as of {model.alias!r}"
            yield _found(verdict, subject, saw, do)
            continue
        if entry.max_model_len is not None and (model.most_tokens or 0) >= entry.max_model_len:
            saw = (
                f"has a context of {entry.max_model_len} tokens, and {model.alias!r} has most_tokens: "
                f"{model.most_tokens}: who names no max_tokens is refused by the engine"
            )
            do = f"lower most_tokens of {model.alias!r}, or raise --max-model-len"
            yield _found(Verdict.WARNING, subject, saw, do)


def aliases(subject: str, wanted: Sequence[Model], served: Mapping[str, ServedModel]) -> Iterator[Finding]:
    """Recommend that a model is served under the name by which callers ask: answers keep the engine's name."""
    named: dict[str, list[str]] = {}
    for model in wanted:
        named.setdefault(model.served_as, []).append(model.alias)
    for name, asked in named.items():
        if name in served and name not in asked:
            saw = f"answers to callers of {' and '.join(map(repr, asked))} name {name!r} as their model"
            do = f"some clients mind; serve it under its alias: --served-model-name {asked[0]}, served_as: {asked[0]}"
            yield _found(Verdict.WARNING, subject, saw, do)


def version(subject: str, reply: Reply, served: Mapping[str, ServedModel]) -> Finding:
    """Say what answers, and warn of a release with known weaknesses."""
    text = member(read(reply.body), "version")
    named = told(text, 40) if isinstance(text, str) and text else "of an unknown version"
    number = _VERSION.match(named)
    if number is not None and (int(number[1]), int(number[2])) < OLDEST:
        saw = f"vLLM {named} has known weaknesses that later releases have not"
        return _found(Verdict.WARNING, subject, saw, f"upgrade it to {OLDEST[0]}.{OLDEST[1]} or later")
    lengths = [
        told(name, 60) + (f" (context {entry.max_model_len})" if entry.max_model_len else "")
        for name, entry in list(served.items())[:_SHOWN]
    ]
    return _found(Verdict.OK, subject, f"vLLM {named} serves {', '.join(lengths) or 'no model'}")


def open_doors(subject: str, variable: str, *, keyless: Reply, sleeping: Reply, adapters: Reply) -> Iterator[Finding]:
    """Warn of what answers without a key: the list of models, development mode, adapters from anywhere."""
    if keyless.status == _OK:
        do = f"start vLLM with VLLM_API_KEY in its environment, and give it to {variable}__API_KEY_FILE: a second lock"
        yield _found(Verdict.WARNING, subject, "demands no key of whoever reaches it", do)
    if sleeping.status == _OK:
        saw = "is in development mode: /sleep, /collective_rpc and /update_weights ask nobody for a key"
        do = "start vLLM without VLLM_SERVER_DEV_MODE; if you need /sleep, on a socket that only the gateway may use"
        yield _found(Verdict.WARNING, subject, saw, do)
    if adapters.status == _NOT_ALLOWED:
        saw = "loads adapters for whoever asks: POST /adapters asks nobody for a key"
        yield _found(Verdict.WARNING, subject, saw, "start vLLM without VLLM_ALLOW_RUNTIME_LORA_UPDATING")


def media_hosts(planes: Sequence[Plane], engine: str) -> list[str]:
    """Give the hosts from which callers may have an engine fetch images and sounds."""
    asking = [plane for plane in planes if any(model.engine == engine for model in plane.models.values())]
    return sorted({host for plane in asking for host in plane.media_hosts})


def media(subject: str, hosts: Sequence[str], info: Reply | None) -> Finding:
    """Say with which flags an engine must be started for these hosts; ``info``: what development mode tells."""
    said = {} if info is None else read(info.body)
    redirects = member(said, "vllm_env", "VLLM_MEDIA_URL_ALLOW_REDIRECTS")
    allowed = member(said, "vllm_config", "model_config", "allowed_media_domains")
    if redirects is False and isinstance(allowed, list) and allowed and set(allowed) <= set(hosts):
        return _found(Verdict.OK, subject, "fetches media from hosts of the policy alone, and follows no redirect")
    if redirects is True:
        open_to = "it follows redirects, so an allowed host can lead it anywhere"
    elif redirects is False:
        open_to = "it may fetch from hosts that the policy does not name"
    else:
        open_to = "whether it fetches from others, or follows redirects, cannot be seen from here"
    saw = f"fetches the media of callers ({', '.join(hosts)}): {open_to}"
    do = f"start vLLM with --allowed-media-domains {' '.join(hosts)} and VLLM_MEDIA_URL_ALLOW_REDIRECTS=0"
    return _found(Verdict.WARNING, subject, saw, do)


def _found(verdict: Verdict, subject: str, saw: str, do: str = "") -> Finding:
    return Finding(Layer.ENGINE_API, verdict, subject, saw, do)
