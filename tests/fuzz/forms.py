"""Fuzz target for forms: ``multipart/form-data`` as it is read, and as it is written anew.

Enters: any bytes; the first octet chooses how the body is cut. Leaves: nothing, or an ``AssertionError`` that says
which promise was broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects.form_body import FILE, Form
from gateway.dialects.openai_audio import TRANSCRIPTIONS, OpenAITranscriptions
from gateway.reasons import Malformed, Reason
from gateway.wire.form_data import FormReader, PartHead
from tests.fuzz.readers import pieces

if TYPE_CHECKING:
    from collections.abc import Iterable

DIALECT = OpenAITranscriptions()
_REASONS = {Reason.BODY_MALFORMED, Reason.PARAMETER_INVALID, Reason.PARAMETER_NOT_ACCEPTED}


def read(parts: Iterable[bytes], boundary: bytes = b"b") -> tuple[dict[str, Any], bytes] | Reason:
    """Read a form as ``gateway.upload`` does; give its fields and the content of its file, or why it is none."""
    reader, form, content, into_file = FormReader(boundary), Form(TRANSCRIPTIONS), b"", False
    try:
        for part in parts:
            for event in reader.feed(part):
                if isinstance(event, PartHead):
                    assert event.name
                    assert not set(event.name) & set('"\r\n\\\0')
                    into_file = form.begin(event)
                elif event is None:
                    form.end()
                elif into_file:
                    content += event
                else:
                    form.add(event)
        reader.finish()
    except Malformed as malformed:
        assert malformed.reason in _REASONS  # noqa: PT017  (the target of a fuzzer, not a test)
        return malformed.reason
    return form.call.fields, content


def fuzz_form(data: bytes) -> None:
    """Check that a form is the same however it is cut, and that what is written of it is read as the same form."""
    control, body = (data[0], data[1:]) if data else (0, b"")
    found = read(pieces(control, body))
    whole = read([body])
    assert isinstance(found, Reason) == isinstance(whole, Reason)
    if isinstance(found, Reason):
        return
    assert found == whole
    fields, content = found
    form = Form(TRANSCRIPTIONS, {name: value for name, value in fields.items() if name in TRANSCRIPTIONS.fields})
    if FILE not in fields or b"\r\n--ours" in content:
        return
    before, behind = DIALECT.written(form.call, [], "ours")
    if any("\r\n--ours" in str(value) for value in fields.values()):
        return
    assert read([before + content + behind], b"ours") == (form.fields, content)
