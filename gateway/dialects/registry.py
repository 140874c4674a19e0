"""Which dialects there are, and what the policy compiler must know of each.

Leaves: ``FACTS`` for every name that a policy may write under ``dialect``, and ``DIALECTS`` for those that this
version serves: all but those of engine control.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gateway.dialects import anthropic_messages as anthropic
from gateway.dialects import openai_audio, score, tokenizer, unmet
from gateway.dialects.checks import Inspection, inside
from gateway.dialects.fields import Treatment
from gateway.dialects.openai_audio import TRANSCRIPTIONS, TRANSLATIONS, OpenAITranscriptions, OpenAITranslations
from gateway.dialects.openai_chat import CHAT, CHAT_CONTROLS, OpenAIChat
from gateway.dialects.openai_completions import COMPLETIONS, COMPLETIONS_CONTROLS, OpenAICompletions
from gateway.dialects.openai_embeddings import EMBEDDINGS, OpenAIEmbeddings
from gateway.dialects.openai_models import OpenAIModels
from gateway.dialects.openai_responses import RESPONSES, RESPONSES_CONTROLS, OpenAIResponses
from gateway.dialects.rerank import RERANK, Rerank
from gateway.dialects.score import SCORE, Score
from gateway.dialects.thinking_controls import NO_CONTROLS, ThinkingControls
from gateway.dialects.tokenizer import DETOKENIZE, TOKENIZE, Tokenizer
from gateway.reasons import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.dialects.call import Dialect
    from gateway.dialects.fields import Field, Table
    from gateway.dialects.unmet import Unmet


def _met(_body: Mapping[str, Any]) -> list[tuple[str, str]]:
    return []


_CLOSED: Mapping[Treatment, str] = {
    Treatment.FORCE: "only the policy sets it, under 'defaults' or 'force', and 'cache_salt' only the gateway",
    Treatment.THINKING: "it belongs to 'thinking' and is never listed",
    Treatment.DROP: "it is never sent to the engine",
    Treatment.FIXED: "any caller may send it, and one value is sent whatever anybody says",
}
_NOT_ACCEPTED = frozenset({Treatment.FORCE, Treatment.THINKING, Treatment.FIXED})
_NOT_SET = frozenset({Treatment.DROP, Treatment.THINKING, Treatment.FIXED})


@dataclass(frozen=True, slots=True)
class Facts:
    """What a policy can say of a dialect.

    ``uses_model``: the body names a model; with ``generates`` it must be one with ``most_tokens``, without one
    without. ``counts_tokens``: answers carry a count, so tokens can be limited. ``served``: this version has it.
    ``answer_default``: the longest answer where the API itself bounds one that nobody bounded. ``unmet``: names the
    fields of a body that mean nothing without others, each with the caller's fault in it, if any. ``controls``: the
    names of what says whether the model thinks. ``raw``: the prompt is all the caller's, so that he could begin a
    thought for the model. ``said``: the fields that say something to the model, where a body is JSON.
    """

    name: str
    has_body: bool
    uses_model: bool
    generates: bool
    counts_tokens: bool
    served: bool = False
    standard: frozenset[str] = frozenset()
    fields: Mapping[str, Field] = field(default_factory=dict, repr=False)
    required: tuple[str, ...] = ()
    answer_tokens: tuple[str, ...] = ()
    answer_default: int | None = None
    unmet: Unmet = field(default=_met, repr=False, compare=False)
    controls: ThinkingControls = NO_CONTROLS
    raw: bool = False
    said: tuple[str, ...] = ()

    def why_not_accepted(self, name: str) -> str | None:
        """Say why ``accept`` cannot list a dotted name; ``None`` if it can."""
        return self._why_not(name, _NOT_ACCEPTED, "accepted", "accepted")

    def why_not_set(self, name: str) -> str | None:
        """Say why ``defaults`` and ``force`` cannot set a dotted name; ``None`` if they can."""
        return self._why_not(name, _NOT_SET, "sent", "set")

    def value_fault(
        self,
        name: str,
        value: Any,  # noqa: ANN401  (a value of the policy file)
        inspection: Inspection | None = None,
    ) -> str | None:
        """Say why a value cannot be set for a dotted name that may be set; ``None`` if it can.

        ``inspection``: how strictly the endpoint looks at what callers send.
        """
        if value is None:
            return f"{name!r} must have a value"
        inspection = replace(inspection or Inspection(), dropped={})
        try:
            self.fields[name].check(value, inspection)
        except Malformed as fault:
            return f"{inside(name, fault).param} {fault.detail}"
        never = next(iter(inspection.dropped), None)
        return None if never is None else f"{never!r} within it is never sent to the engine"

    def _why_not(self, name: str, closed: frozenset[Treatment], never: str, cannot: str) -> str | None:
        known = self.fields.get(name)
        if known is None:
            return f"{self.name} knows no field {name!r}"
        if known.treatment is Treatment.MEMBERS:
            return self._members(name)
        if known.treatment is Treatment.REFUSE:
            return f"{name!r} is never {never}: {known.why}"
        return f"{name!r} cannot be {cannot}: {_CLOSED[known.treatment]}" if known.treatment in closed else None

    def _members(self, name: str) -> str:
        members = sorted(
            one.name
            for one in self.fields.values()
            if one.name.startswith(f"{name}.") and one.treatment in {Treatment.PASS, Treatment.CAP}
        )
        return f"{name!r} is a closed list: name its members, such as {', '.join(members)}"


def _served(
    name: str,
    table: Table,
    *,
    generates: bool,
    counts_tokens: bool = True,
    unmet: Unmet = _met,
    controls: ThinkingControls = NO_CONTROLS,
    raw: bool = False,
    form: bool = False,
) -> Facts:
    return Facts(
        name,
        has_body=True,
        uses_model=True,
        generates=generates,
        counts_tokens=counts_tokens,
        served=True,
        standard=table.standard,
        fields=table.fields,
        required=table.required,
        answer_tokens=table.answer_tokens,
        answer_default=table.answer_default,
        unmet=unmet,
        controls=controls,
        raw=raw,
        said=() if form else tuple(one.name for one in table.fields.values() if one.says and "." not in one.name),
    )


def _bodyless(name: str, *, served: bool = False) -> Facts:
    return Facts(name, has_body=False, uses_model=False, generates=False, counts_tokens=False, served=served)


FACTS: Mapping[str, Facts] = {
    facts.name: facts
    for facts in (
        _served("openai-chat", CHAT, generates=True, unmet=unmet.of_chat, controls=CHAT_CONTROLS),
        _served(
            "openai-completions",
            COMPLETIONS,
            generates=True,
            unmet=unmet.stream_options,
            controls=COMPLETIONS_CONTROLS,
            raw=True,
        ),
        _served("openai-responses", RESPONSES, generates=True, unmet=unmet.tool_choice, controls=RESPONSES_CONTROLS),
        _served(
            "anthropic-messages",
            anthropic.MESSAGES,
            generates=True,
            unmet=unmet.of_messages,
            controls=anthropic.MESSAGES_CONTROLS,
        ),
        _served(
            "anthropic-count-tokens",
            anthropic.COUNT_TOKENS,
            generates=True,
            counts_tokens=False,
            unmet=unmet.of_messages,
            controls=anthropic.COUNT_TOKENS_CONTROLS,
        ),
        _served("openai-embeddings", EMBEDDINGS, generates=False),
        _bodyless("openai-models", served=True),
        _bodyless("openai-model", served=True),
        _served("rerank", RERANK, generates=False),
        _served("score", SCORE, generates=False, unmet=score.unmet),
        _served(
            "openai-transcriptions",
            TRANSCRIPTIONS,
            generates=True,
            counts_tokens=False,
            unmet=openai_audio.unmet,
            form=True,
        ),
        _served(
            "openai-translations",
            TRANSLATIONS,
            generates=True,
            counts_tokens=False,
            unmet=openai_audio.unmet,
            form=True,
        ),
        _served("tokenize", TOKENIZE, generates=True, counts_tokens=False, unmet=tokenizer.unmet),
        _served("detokenize", DETOKENIZE, generates=True, counts_tokens=False),
        _bodyless("engine-sleep"),
        _bodyless("engine-wake"),
        _bodyless("engine-status"),
        _bodyless("engine-metrics"),
    )
}

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        OpenAIChat(),
        OpenAICompletions(),
        OpenAIResponses(),
        anthropic.AnthropicMessages(),
        anthropic.AnthropicCountTokens(),
        OpenAIEmbeddings(),
        OpenAIModels("openai-models"),
        OpenAIModels("openai-model"),
        Rerank(),
        Score(),
        OpenAITranscriptions(),
        OpenAITranslations(),
        Tokenizer("tokenize"),
        Tokenizer("detokenize"),
    )
}
