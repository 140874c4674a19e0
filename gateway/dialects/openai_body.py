"""What OpenAI's APIs with a JSON body have in common: they are read, written and counted alike.

Enters: bytes of a body, or a judged call. Leaves: ``Call``, the bytes that the engine gets, ``Usage``, errors in
OpenAI's shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.dialects import openai_answers
from gateway.dialects.call import Call
from gateway.dialects.changes import changed
from gateway.wire import strict_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.dialects.call import Replacement, Usage
    from gateway.reasons import Reason


class OpenAIBody:
    """A dialect of OpenAI's with a JSON body; see ``call.Dialect``."""

    name: str
    upstream: tuple[str, str] | None
    tells_usage: str | None = None
    delta: bytes = b"\n\n"  # each event, where an API does not tell more plainly
    lead: int = 0
    count_from: int = 0

    def read(self, body: bytes) -> Call:
        """Parse one strict JSON object. Raises ``Malformed(BODY_MALFORMED)``."""
        return Call(strict_json.loads(body))

    def write(self, call: Call, changes: Iterable[Replacement]) -> bytes:
        """Serialize the call anew, with the changes made."""
        return strict_json.dumps(changed(call.fields, changes))

    # Called for every piece of an answer, so without a call in between.
    usage = staticmethod(openai_answers.usage)
    engine_message = staticmethod(openai_answers.engine_message)

    def take_usage(self, events: bytes) -> tuple[Usage | None, bytes]:
        """Leave out nothing, where an API's count comes with something else."""
        return self.usage(events), events

    def ends(self, events: bytes) -> bool:
        """Tell whether the event that ends OpenAI's streams is the last one, and no error stands before it.

        vLLM writes an error as an event and ends the stream as if nothing had happened; within text, quotes are
        escaped.
        """
        return events.rstrip().endswith(b"data: [DONE]") and b'data: {"error"' not in events

    def error(self, reason: Reason, message: str, param: str | None, request_id: str, status: int) -> bytes:  # noqa: ARG002  (the port\'s)
        """Give the error object; OpenAI's has no place for the id, which stands in ``x-request-id``."""
        return openai_answers.error(reason, message, param, status)

    def error_event(self, reason: Reason, message: str, request_id: str) -> bytes:  # noqa: ARG002  (the port\'s)
        """Give the event that ends a stream that failed after its head."""
        return openai_answers.error_event(reason, message)
