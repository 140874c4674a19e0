"""What a model's first answers mean: whether it answers at all, and whether it thinks although it should not.

Enters: replies to the warm-up and to a ``ThinkingTrial``. Leaves: findings of the layer ``model``. Thought is told by
what the engine takes out for it and by its mark before the text; whether the template heeds the switch, by the count
of the prompt. That no thought came in a few tokens is no proof that none would: it is said as what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.engine.complaint import CORE_DIED, OUT_OF_MEMORY, complaint
from gateway.inquiry import Failure
from gateway.review.diagnosis import Finding, Layer, Verdict, told
from gateway.review.json_reading import items, member, read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.inquiry import Reply
    from gateway.policy.thinking_trial import ThinkingTrial

_OK, _BAD_REQUEST, _NOT_FOUND, _TOO_MANY, _SERVER_ERROR, _UNAVAILABLE = 200, 400, 404, 429, 500, 503
_REFUSED = (401, 403)
_MARK: Final = "<think>"
_SILENT: Final = (
    "the GPU or the engine core stands still while its API answers: nvidia-smi (Xid, ECC, 0 % use), "
    "the end of the engine's log; restart the engine"
)
_DO: Final[Mapping[str, str]] = {
    OUT_OF_MEMORY: "nvidia-smi: who else uses the GPU? lower --gpu-memory-utilization or --max-model-len; restart it",
    CORE_DIED: "the engine's log above the error, nvidia-smi; it must be restarted",
}


def asleep(subject: str) -> Finding:
    """Say that nothing was asked of an engine that sleeps: a request would hang until somebody wakes it."""
    do = "wake it: POST /wake_up to the engine, from its own host"
    return _found(Verdict.BROKEN, subject, "the engine sleeps, so a request would hang", do)


def answered(subject: str, reply: Reply) -> Finding:
    """Tell whether a model answers the smallest question that a caller could ask."""
    if reply.failure is not None:
        hangs = reply.failure is Failure.SILENT
        saw = f"no answer in {reply.seconds:.0f} s" if hangs else reply.why
        return _found(
            Verdict.BROKEN, subject, saw, _SILENT if hangs else "the engine's log: it ended under the request"
        )
    if reply.status == _OK:
        return _found(Verdict.OK, subject, f"answered in {reply.seconds * 1000:.0f} ms")
    said = _message(reply)
    known = complaint(reply.status, said)
    saw = f"{reply.status} to the warm-up" + (f" ({known})" if known else f": {told(said)}" if said else "")
    if reply.status in _REFUSED:
        return _found(
            Verdict.BROKEN, subject, saw, "the engine refuses the gateway's key here alone: what is before it?"
        )
    if reply.status == _NOT_FOUND:
        return _found(
            Verdict.BROKEN,
            subject,
            saw,
            "the engine has no such API or model: served_as, --served-model-name, --runner",
        )
    if reply.status in {_TOO_MANY, _UNAVAILABLE} and known not in _DO:
        return _found(Verdict.WARNING, subject, saw, "it is at its limit: IN_FLIGHT of the engine, more replicas")
    if reply.status >= _SERVER_ERROR:
        return _found(Verdict.BROKEN, subject, saw, _DO.get(known, "the engine's log above the error, nvidia-smi"))
    do = "its 'defaults' or 'force' may be what this model does not take; other calls may go through"
    return _found(Verdict.WARNING, subject, saw, do)


def thinking(subject: str, trial: ThinkingTrial, off: Reply, on: Reply | None) -> Finding:
    """Tell whether a model thinks although its switch is off, and whether the switch does anything."""
    if off.status != _OK:
        said = _message(off)
        saw = off.why if off.failure else f"{off.status}: {told(said)}"
        return _found(Verdict.WARNING, subject, f"{trial.path} could not be tried ({saw})", "see the line before")
    value = read(off.body)
    thought, text = thought_in(value, trial.dialect), _text(value, trial.dialect)
    without, with_it = _prompt_tokens(value), None if on is None else _prompt_tokens(read(on.body))
    heeded = without is not None and with_it is not None and without != with_it
    counts = f"{without} prompt tokens, {with_it} with it on"
    if thought and heeded and not _marked(text):
        return _found(
            Verdict.WARNING,
            subject,
            f"{trial.path} gives {'the whole' if not text else 'part of its'} answer as thought although "
            f"{trial.switch} is off in the prompt ({counts})",
            "the engine's --reasoning-parser does not see the switch of a request here: start it with "
            "--default-chat-template-kwargs '{\"enable_thinking\": false}', or with the parser of this model",
        )
    if thought:
        return _found(
            Verdict.WARNING,
            subject,
            f"{trial.path} thinks although nobody asked it to: {_in_vain(trial, counts, heeded=heeded)}",
            f"{_other_switch(trial)}; the gateway passes what it thinks on",
        )
    if trial.on is not None and without is not None and with_it is not None and not heeded:
        return _found(
            Verdict.WARNING,
            subject,
            f"{trial.path}: {trial.switch} changes nothing in the prompt ({counts})",
            f"{_other_switch(trial)}; of one that cannot think, none",
        )
    seen = f"{trial.switch} is heeded ({counts})" if heeded else "no thought came back"
    return _found(Verdict.OK, subject, f"{trial.path} does not think: {seen}")


def thought_in(value: Mapping[str, Any], dialect: str) -> bool:
    """Tell whether thought came back: taken out by the engine, counted by it, or with its mark before the text."""
    if dialect == "anthropic-messages":
        found: Any = _joined(value.get("content"), "thinking", "thinking")
    elif dialect == "openai-responses":
        reasoning = [item for item in items(value.get("output")) if member(item, "type") == "reasoning"]
        found = [item for item in reasoning if member(item, "content") or member(item, "summary")]
    else:
        message = member(value, "choices", 0, "message")
        found = member(message, "reasoning") or member(message, "reasoning_content")
    details = ("completion_tokens_details", "output_tokens_details")
    counted = any(member(value, "usage", name, "reasoning_tokens") for name in details)
    return bool(found) or counted or _marked(_text(value, dialect))


def _in_vain(trial: ThinkingTrial, counts: str, *, heeded: bool) -> str:
    if trial.on is None:
        return "thinking_switch says that there is no switch for it here"
    effect = "is off in the prompt, in vain" if heeded else "does nothing to the prompt"
    return f"{trial.switch} {effect} ({counts})"


def _other_switch(trial: ThinkingTrial) -> str:
    return f"set thinking_switch of {trial.alias!r} to what its template knows (thinking, reasoning_effort, …)"


def _text(value: Mapping[str, Any], dialect: str) -> str:
    """Give the text that a client shows."""
    if dialect == "anthropic-messages":
        return _joined(value.get("content"), "text", "text")
    if dialect == "openai-responses":
        parts = [member(item, "content") for item in items(value.get("output")) if member(item, "type") == "message"]
        return "".join(_joined(part, "output_text", "text") for part in parts)
    content = member(value, "choices", 0, "message", "content")
    return content if isinstance(content, str) else ""


def _marked(text: str) -> bool:
    return text.lstrip().startswith(_MARK)


def _joined(blocks: object, kind: str, name: str) -> str:
    texts = (member(block, name) for block in items(blocks) if member(block, "type") == kind)
    return "".join(text for text in texts if isinstance(text, str))


def _prompt_tokens(value: Mapping[str, Any]) -> int | None:
    usage = value.get("usage")
    tokens = member(usage, "prompt_tokens") or member(usage, "input_tokens")
    return tokens if isinstance(tokens, int) else None


def _message(reply: Reply) -> str:
    value = read(reply.body)
    said = member(value, "error", "message") or member(value, "error") or member(value, "message")
    return said if isinstance(said, str) else ""


def _found(verdict: Verdict, subject: str, saw: str, do: str = "") -> Finding:
    return Finding(Layer.MODEL, verdict, subject, saw, do)
