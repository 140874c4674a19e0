"""All fuzz targets by name, and what they begin with: seeds from the corpus of attacks, and the words of each grammar.

A target takes any bytes and raises nothing, or it has found something.
"""

from __future__ import annotations

from ast import literal_eval
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from tests.fuzz.chat import fuzz_chat
from tests.fuzz.connections import fuzz_differential, fuzz_edge
from tests.fuzz.credentials import fuzz_compact_jws, fuzz_credential
from tests.fuzz.forms import fuzz_form
from tests.fuzz.messages import fuzz_message_events, fuzz_messages
from tests.fuzz.readers import fuzz_event_stream, fuzz_headers, fuzz_response, fuzz_strict_json, fuzz_target
from tests.fuzz.records import fuzz_audit, fuzz_log
from tests.fuzz.responses import fuzz_response_events, fuzz_responses
from tests.simulators.raw_engine import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TARGETS: dict[str, Callable[[bytes], None]] = {
    "target": fuzz_target,
    "headers": fuzz_headers,
    "strict-json": fuzz_strict_json,
    "form": fuzz_form,
    "event-stream": fuzz_event_stream,
    "response": fuzz_response,
    "credential": fuzz_credential,
    "compact-jws": fuzz_compact_jws,
    "chat": fuzz_chat,
    "responses": fuzz_responses,
    "response-events": fuzz_response_events,
    "messages": fuzz_messages,
    "message-events": fuzz_message_events,
    "edge": fuzz_edge,
    "differential": fuzz_differential,
    "audit": fuzz_audit,
    "log": fuzz_log,
}

KEPT = Path(__file__).parent / "corpus"
_ATTACKS = Path(__file__).parents[1] / "corpus" / "attacks.json"
_LONGEST_SEED = 8192

_WORDS: dict[str, tuple[str, ...]] = {
    "target": ("target",),
    "headers": ("fields",),
    "strict-json": ("json",),
    "form": ("form",),
    "event-stream": ("events",),
    "response": ("http", "answers"),
    "credential": ("credential",),
    "compact-jws": ("json", "jose"),
    "chat": ("json", "calls"),
    "responses": ("json", "responses"),
    "response-events": ("events", "responses"),
    "messages": ("json", "messages"),
    "message-events": ("events", "messages"),
    "edge": ("http",),
    "differential": ("http",),
    "audit": ("records",),
    "log": ("records",),
}


@cache
def words(name: str) -> tuple[bytes, ...]:
    """Give the words of a target's grammars; the files have the form of libFuzzer's dictionaries."""
    files = [Path(__file__).parent / "words" / f"{grammar}.dict" for grammar in _WORDS[name]]
    lines = [line for file in files for line in file.read_text("ascii").splitlines()]
    return tuple(literal_eval(f"b{line}") for line in lines)


@cache
def seeds(name: str) -> tuple[bytes, ...]:
    """Give what a target begins with: what was kept, and what the corpus of attacks has for it."""
    kept = [path.read_bytes() for path in sorted((KEPT / name).glob("*"))]
    return tuple(dict.fromkeys([*kept, *(seed for seed in _from_attacks(name) if len(seed) <= _LONGEST_SEED)]))


def _from_attacks(name: str) -> Iterator[bytes]:
    if name == "response":
        for script in SCRIPTS.values():
            yield b"\0" + b"".join(step for step in script if isinstance(step, bytes))
    if name == "event-stream":
        yield b"\3data: {}\n\ndata: a\r\n\r\ndata: b\rdata: c\r\r: comment\n\ndata: [DONE]\n\n"
    if name == "form":
        file = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nRIFF\r\n--c\r\n'
        yield b"\1" + file + b'--b\r\nContent-Disposition: form-data; name="n"\r\n\r\n2\r\n--b--\r\n'
    if name == "compact-jws":
        yield b"\0eyJhbGciOiJSUzI1NiJ9.e30.AA"
    for case in orjson.loads(_ATTACKS.read_bytes()):
        given = case["input"]
        if given["kind"] == "raw_http":
            yield from _from_request(name, given["raw"].replace("{{HOST}}", "x").encode("latin-1"))
        elif given["kind"] == "json" and name in {"strict-json", "chat"} and given.get("body"):
            yield given["body"].replace('"m"', '"local"').encode("latin-1")
        elif given["kind"] == "jwt" and name == "compact-jws" and "header" in given:
            yield b"\1" + b"\n".join([orjson.dumps(given["header"]), orjson.dumps(given["claims"]), b"signature"])


def _from_request(name: str, raw: bytes) -> Iterator[bytes]:
    """Take out of a hostile request what a target reads."""
    start, *lines = raw.partition(b"\r\n\r\n")[0].split(b"\r\n")
    match name:
        case "edge":
            yield b"\1" + raw
        case "differential" | "audit" | "log":
            yield raw
        case "target":
            yield start.partition(b" HTTP/")[0].partition(b" ")[2]
        case "headers":
            yield b"\0" + b"\n".join(lines)
        case "credential":
            yield from (b"\1" + line[15:] for line in lines if line.lower().startswith(b"authorization: "))
        case _:
            pass
