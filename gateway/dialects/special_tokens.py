"""The marks with which chat templates divide a prompt, typed into text by a caller.

Enters: text that a template will render. Leaves: whether a tokenizer may read a part of it as a turn, an end or a
tool of the template instead of as text. Only known forms count: ``<|...|>`` (Qwen, Llama 3, GLM, Phi, Harmony, Kimi,
Cohere) and its twin with fullwidth bars (DeepSeek), ``<|turn>`` and ``<turn|>`` (Gemma 4), ``<start_of_turn>`` (Gemma
3), ``[INST]`` with its family, ``<<SYS>>`` and ``<s>`` (Mistral, Llama 2), ``[gMASK]`` (GLM), ``]~b]`` (MiniMax),
``<extra_id_1>`` and ``<SPECIAL_10>`` (Nemotron), ``<seed:bos>`` (Seed), ``[|user|]`` (EXAONE),
``<beginning_of_sentence>`` (MiniMax-01), ``<reserved_106>`` (Baichuan), ``[UNUSED_TOKEN_146]`` (InternLM).

``<think>`` and ``<tool_call>`` are not among them: they begin no turn, and callers quote them whenever they send back
an earlier answer. The door that they would open, a final message that is continued, is closed by its own field.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gateway.reasons import Malformed
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Iterator

# U+FF5C, which looks like "|".
_BAR = "\N{FULLWIDTH VERTICAL LINE}"

# One pattern for each first character: one that begins with a single literal is searched for nearly at the speed of
# memchr, and text without that character is not searched at all. The look at the second character spares HTML and code
# the walk through all forms.
_ANGLE = re.compile(
    rf"<(?=[|/<{_BAR}abceirstvS])(?:"
    r"\|[^\s<>|]{1,64}\|?>"
    rf"|/?{_BAR}[^\s<>{_BAR}]{{1,64}}{_BAR}"
    r"|s>|/s>|bos>|eos>|sop>|eop>"
    r"|start_of_(?:turn|image|utterance)>|end_of_(?:turn|image|utterance)>"
    r"|</?SYS>>"
    r"|extra_id_\d{1,3}>|SPECIAL_\d{1,3}>|reserved_\d{1,3}>"
    r"|seed:[be]os>|beginning_of_sentence>|end_of_sentence>"
    r"|(?:turn|channel|tool|tool_call|tool_response|image|audio|video)\|>"
    r")"
)
_SQUARE = re.compile(
    r"\[(?=[/A-Zegs|])(?:"
    r"/?(?:INST|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CONTENT|SYSTEM_PROMPT|MODEL_SETTINGS)\]"
    r"|(?:TOOL_CALLS|ARGS|CALL_ID|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|PREFIX|SUFFIX|MIDDLE)\]"
    r"|(?:g|s|sg)?MASK\]"
    r"|\|(?:system|user|assistant|tool|endofturn)\|\]|UNUSED_TOKEN_\d{1,3}\]"
    r"|e~\["
    r")"
)
_MINIMAX = re.compile(r"\]~!?b[\]\[]")


def in_text(text: str) -> bool:
    """Tell whether text holds a special token."""
    return (
        ("<" in text and _ANGLE.search(text) is not None)
        or ("[" in text and _SQUARE.search(text) is not None)
        or ("]" in text and _MINIMAX.search(text) is not None)
    )


def in_json_text(text: str) -> bool:
    """Tell whether text that the engine parses as JSON once more, as it does arguments of tools, holds a special token.

    A token may hide behind its escapes. Escapes in text that is not strict JSON could spell anything, so they count.
    """
    if in_text(text):
        return True
    if "\\" not in text:
        return False
    try:
        return in_value(strict_json.loads_value(text.encode()))
    except Malformed:
        return True


def in_value(value: Any) -> bool:  # noqa: ANN401  (any JSON value)
    """Tell whether any name or text within a JSON value holds a special token; written as JSON, it is one text."""
    return in_text(strict_json.dumps(value).decode())


def texts(value: Any) -> Iterator[str]:  # noqa: ANN401
    """Give all texts and member names within a JSON value."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is str:
            yield item
        elif type(item) is dict:
            yield from item
            waiting.extend(item.values())
        elif type(item) is list:
            waiting.extend(item)
