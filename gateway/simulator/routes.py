"""Every route of vLLM 0.32 with every feature and development mode on: 83 rows, as FastAPI would route them.

Leaves: the table and the Starlette routes made of it. Starlette is what the real server routes with, so the matching
on the decoded path, the 307 for a slash, the 405 and the greedy ``/metrics*`` mount are the real ones.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from gateway.simulator import anthropic, audio, control, inference, scoring
from gateway.simulator.metrics import metrics
from gateway.simulator.responses import responses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.routing import BaseRoute
    from starlette.types import Receive, Scope, Send

    from gateway.simulator.state import EngineState

    Handler: TypeAlias = Callable[[EngineState, Request], Awaitable[Response]]


async def health(_: EngineState, __: Request) -> Response:
    """Answer 200 whatever the engine does."""
    return Response()


async def models(engine: EngineState, _: Request) -> Response:
    """List what is served, with its place on the engine's disk."""
    card = {"object": "model", "created": 1700000000, "owned_by": "vllm", "parent": None, "permission": []}
    served = [
        {"id": name, **card, "root": f"/models/{name}", "max_model_len": engine.max_model_len}
        for name in (*engine.models, *engine.adapters)
    ]
    return JSONResponse({"object": "list", "data": served})


async def load(engine: EngineState, _: Request) -> Response:
    """Tell how many requests run."""
    return JSONResponse({"server_load": len(engine.running)})


def fixed(value: object, status: int = 200) -> Handler:
    """Make a handler that always answers the same JSON."""

    async def handler(_: EngineState, __: Request) -> Response:
        return JSONResponse(value, status)

    return handler


async def page(_: EngineState, __: Request) -> Response:
    """Answer with a page of the interactive documentation."""
    return HTMLResponse("<!DOCTYPE html><title>FastAPI - Swagger UI</title>")


async def static(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer for the mount of the offline documentation, which is empty."""
    await PlainTextResponse("Not Found", 404)(scope, receive, send)


# (methods, path, handler); those of DEV_MODE exist only with VLLM_SERVER_DEV_MODE=1.
DEV_MODE: tuple[tuple[str, str, Handler], ...] = (
    ("POST", "/abort_requests", control.abort_requests),
    ("POST", "/collective_rpc", control.collective_rpc),
    ("POST", "/finish_weight_update", control.no_weight_transfer),
    ("GET", "/get_world_size", fixed({"world_size": 1})),
    ("POST", "/init_weight_transfer_engine", control.no_weight_transfer),
    ("GET", "/is_paused", control.is_paused),
    ("GET", "/is_sleeping", control.is_sleeping),
    ("POST", "/pause", control.pause),
    ("POST", "/release_kv_cache_memory", health),
    ("POST", "/reset_encoder_cache", health),
    ("POST", "/reset_mm_cache", health),
    ("POST", "/reset_prefix_cache", health),
    ("POST", "/resume", control.resume),
    ("GET", "/server_info", control.server_info),
    ("POST", "/shutdown_weight_transfer_engine", control.no_weight_transfer),
    ("POST", "/sleep", control.sleep),
    ("POST", "/start_draft_weight_update", control.no_weight_transfer),
    ("POST", "/start_weight_update", control.no_weight_transfer),
    ("POST", "/update_weight_version", control.update_weight_version),
    ("POST", "/update_weights", control.no_weight_transfer),
    ("POST", "/wake_up", control.wake_up),
    ("POST", "/weight_checker", control.weight_checker),
    ("GET", "/weight_info", control.weight_info),
)
ALWAYS: tuple[tuple[str, str, Handler], ...] = (
    ("POST", "/adapters", control.load_adapter),
    ("DELETE", "/adapters/{adapter_name}", control.unload_adapter),
    ("POST", "/classify", fixed({"object": "list", "data": [{"index": 0, "label": "LABEL_0", "probs": [1.0]}]})),
    ("POST", "/cohere/v2/chat", inference.chat_completions),
    ("POST", "/cohere/v2/chat/render", inference.tokenize),
    ("POST", "/detokenize", inference.detokenize),
    ("GET HEAD", "/docs", page),
    ("GET HEAD", "/docs/oauth2-redirect", page),
    ("POST", "/fault_tolerance/apply", fixed({"status": "accepted"}, 202)),
    ("GET", "/fault_tolerance/status", fixed({"status": "ok"})),
    ("POST", "/generative_scoring", fixed({"object": "list", "data": [{"index": 0, "score": 0.5}]})),
    ("GET", "/health", health),
    ("POST", "/inference/v1/abort_requests", control.abort_requests),
    ("POST", "/inference/v1/generate", fixed({"request_id": "r", "choices": [{"index": 0, "token_ids": [1]}]})),
    ("POST", "/invocations", inference.invocations),
    ("POST", "/is_scaling_elastic_ep", fixed({"is_scaling_elastic_ep": False})),
    ("GET", "/kv_event_sources", fixed([])),
    ("GET", "/load", load),
    ("GET", "/metrics", metrics),
    ("GET HEAD", "/openapi.json", fixed({"openapi": "3.1.0", "info": {"title": "FastAPI", "version": "0.1.0"}})),
    ("GET", "/ping", health),
    ("POST", "/ping", health),
    ("POST", "/pooling", inference.embeddings),
    ("GET HEAD", "/redoc", page),
    ("POST", "/rerank", scoring.rerank),
    ("POST", "/scale_elastic_ep", control.scale_elastic_ep),
    ("POST", "/score", scoring.score),
    ("POST", "/start_profile", health),
    ("POST", "/stop_profile", health),
    ("POST", "/tokenize", inference.tokenize),
    ("GET", "/tokenizer_info", fixed({"tokenizer_class": "Qwen2Tokenizer", "chat_template": "{{ messages }}"})),
    ("POST", "/v1/audio/transcriptions", audio.transcriptions),
    ("POST", "/v1/audio/translations", audio.translations),
    ("POST", "/v1/chat/completions", inference.chat_completions),
    ("POST", "/v1/chat/completions/batch", inference.batch),
    ("POST", "/v1/chat/completions/derender", fixed({"detail": "generate_response is required"}, 400)),
    ("POST", "/v1/chat/completions/render", inference.tokenize),
    ("POST", "/v1/completions", inference.completions),
    ("POST", "/v1/completions/derender", fixed({"detail": "generate_response is required"}, 400)),
    ("POST", "/v1/completions/render", inference.tokenize),
    ("POST", "/v1/embeddings", inference.embeddings),
    ("POST", "/v1/load_lora_adapter", control.load_adapter),
    ("POST", "/v1/messages", anthropic.messages),
    ("POST", "/v1/messages/count_tokens", anthropic.count_tokens),
    ("POST", "/v1/messages/render", inference.tokenize),
    ("GET", "/v1/models", models),
    ("POST", "/v1/rerank", scoring.rerank),
    ("POST", "/v1/responses", responses),
    ("POST", "/v1/responses/render", inference.tokenize),
    ("GET", "/v1/responses/{response_id}", fixed({"error": {"message": "Response not found", "code": 404}}, 404)),
    ("POST", "/v1/responses/{response_id}/cancel", fixed({"error": {"message": "not found", "code": 404}}, 404)),
    ("POST", "/v1/score", scoring.score),
    ("POST", "/v1/systemone", fixed({"error": {"message": "Field required", "code": 400}}, 400)),
    ("POST", "/v1/unload_lora_adapter", control.unload_adapter),
    ("POST", "/v2/embed", inference.embeddings),
    ("POST", "/v2/rerank", scoring.rerank),
    ("GET", "/version", fixed({"version": "0.32.0"})),
)


def routes(engine: EngineState, *, dev_mode: bool) -> list[BaseRoute]:
    """Make the routes. The mount of the metrics takes everything that begins like it, as the real one does."""
    made: list[BaseRoute] = []
    for methods, path, handler in (*ALWAYS, *(DEV_MODE if dev_mode else ())):
        route = Route(path, partial(handler, engine))
        route.methods = set(methods.split())  # FastAPI adds no HEAD to a GET, Starlette does
        made.append(route)

    async def mounted_metrics(scope: Scope, receive: Receive, send: Send) -> None:
        response = await metrics(engine, Request(scope))
        await response(scope, receive, send)

    mount = Mount("/metrics", mounted_metrics)
    mount.path_regex = re.compile("^/metrics(?P<path>.*)$")
    return [*made, mount, Mount("/static", static)]
