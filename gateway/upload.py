"""A form with a file on its way in: read while it comes, its file put where it needs no memory.

Enters: an ``Inbound`` whose body is a form, and an empty ``Spool``. Leaves: the ``Call`` that the court judges, once
the last boundary was there; and, when it was judged, what the engine gets. Nothing of a form goes to an engine before.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from gateway.dialects.form_body import FILE, Form
from gateway.ports import Upload
from gateway.reasons import Malformed, Reason
from gateway.wire.form_data import FormReader, PartHead, boundary_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.dialects.call import Call, Replacement
    from gateway.dialects.form_body import FormBody
    from gateway.ports import Inbound, Spool
    from gateway.wire.headers import RequestHeaders


async def receive(inbound: Inbound, headers: RequestHeaders, at_most: int, dialect: FormBody, spool: Spool) -> Call:
    """Read a form of at most so many bytes.

    Raises ``Malformed`` with the reasons of bodies and parameters, ``Unavailable(SPOOL_UNAVAILABLE)``, and
    ``ConnectionError`` when the caller left.
    """
    reader = FormReader(boundary_of(headers.content_type))
    check_announced(headers, at_most)
    form = Form(dialect.table)
    into_file = False
    async with aclosing(inbound.pieces(at_most)) as pieces:
        async for piece in pieces:
            content = []
            for event in reader.feed(piece):
                if isinstance(event, PartHead):
                    into_file = form.begin(event)
                elif event is None:
                    form.end()
                elif into_file:
                    content.append(event)
                else:
                    form.add(event)
            if content:
                await spool.write(b"".join(content))
    reader.finish()
    if FILE in form.fields and not spool.size:
        raise Malformed(Reason.PARAMETER_INVALID, "is empty", param=FILE)
    return form.call


def written(
    dialect: FormBody, call: Call, changes: Iterable[Replacement], spool: Spool, boundary: str
) -> tuple[bytes, Upload]:
    """Give the beginning of the judged form, and the rest of it."""
    head, tail = dialect.written(call, changes, boundary)
    return head, Upload(boundary, spool, tail)


def check_announced(headers: RequestHeaders, at_most: int) -> None:
    """Refuse a body by what its head says of it: its length, or a content coding. Raises ``Malformed``."""
    if headers.content_length is not None and headers.content_length > at_most:
        raise Malformed(Reason.BODY_TOO_LARGE, f"this endpoint reads at most {at_most} bytes")
    if headers.content_encoding is not None:
        raise Malformed(Reason.MEDIA_TYPE_NOT_ACCEPTED, "content codings are not accepted")
