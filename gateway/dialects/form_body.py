"""Forms with one file: how their text becomes the values that are judged, and how a judged form is written.

Enters: parts as ``wire.form_data`` reads them. Leaves: a ``Call`` whose fields have the types of the table, with the
media type of the file in place of its content; and the bytes that stand before and behind the file in the form that the
engine gets. The content of the file is seen by nobody here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gateway.dialects import openai_answers
from gateway.dialects.call import Call
from gateway.dialects.changes import changed
from gateway.dialects.checks import shown
from gateway.dialects.openai_body import OpenAIBody
from gateway.reasons import Malformed, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gateway.dialects.call import Replacement, Usage
    from gateway.dialects.fields import Field, Table
    from gateway.wire.form_data import PartHead

FILE = "file"
FILE_NAME = "audio"
"""The file name that engines see: a caller's own could be a path, or tell who somebody is."""

LONGEST_TEXT = 64 * 1024
"""Bytes of one text field."""

_UNNAMED_TYPE = "application/octet-stream"
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
# RFC 8259 §6  number = [ minus ] int [ frac ] [ exp ] ; short enough that no reader rounds it to infinity
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,32})?(?:[eE][+-]?[0-9]{1,2})?")
_WORDS = {"true": True, "false": False}


class FormBody(OpenAIBody):
    """A dialect of OpenAI's whose body is a form.

    ``read`` and ``write``, as in ``call.Dialect``, speak of a form as JSON, with ``file`` for its media type: so the
    cases of a policy are written and explained. What comes from callers goes through ``Form``.
    """

    table: Table

    def usage(self, data: bytes) -> Usage | None:  # type: ignore[override]  # the others share a plain function
        """Find the engine's count of tokens; a count of seconds is none."""
        found = openai_answers.usage(data)
        return None if found is None or found.prompt is None else found

    def written(self, call: Call, changes: Iterable[Replacement], boundary: str) -> tuple[bytes, bytes]:
        """Give what stands before the file and behind it in the judged form; total on every call that was permitted."""
        fields = changed(call.fields, changes)
        media_type = fields.pop(FILE, _UNNAMED_TYPE)
        head = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'
            for name, text in self._texts(fields)
        ]
        head.append(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{FILE}"; filename="{FILE_NAME}"\r\n'
            f"Content-Type: {media_type}\r\n\r\n"
        )
        return "".join(head).encode(), f"\r\n--{boundary}--\r\n".encode()

    def _texts(self, fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
        for name, value in fields.items():
            known = self.table.fields[name]
            for item in value if type(value) is list else [value]:
                text = ("true" if item else "false") if type(item) is bool else str(item)
                yield known.alias or name, text


@dataclass(slots=True)
class Form:
    """A form as it comes in, part by part; its text stays out of every repr."""

    table: Table
    fields: dict[str, Any] = field(default_factory=dict, repr=False)
    _known: Field | None = None
    _name: str = ""
    _text: bytearray | None = field(default=None, repr=False)

    def begin(self, head: PartHead) -> bool:
        """Begin a part; tell whether its content is that of the file.

        Raises ``Malformed`` with ``BODY_MALFORMED`` for what no form may have, ``PARAMETER_NOT_ACCEPTED`` for a second
        file and for a list that is not written as one, ``PARAMETER_INVALID`` for text that is a file and the reverse.
        """
        name = head.name
        self._known, self._name = self._field(name)
        lists = self._known is not None and "array" in self._known.kinds
        if self._name in self.fields and not lists:
            raise Malformed(Reason.BODY_MALFORMED, "stands twice in the form", param=shown(name))
        if name == FILE and self._known is not None:
            if not head.is_file:
                raise Malformed(Reason.PARAMETER_INVALID, "must be a file, with a file name", param=FILE)
            self.fields[FILE] = head.media_type or _UNNAMED_TYPE
            self._text = None
            return True
        if head.is_file:
            if self._known is None:
                raise Malformed(Reason.PARAMETER_NOT_ACCEPTED, "is no file of this form", param=shown(name))
            raise Malformed(Reason.PARAMETER_INVALID, "must be text, not a file", param=shown(name))
        if not head.plain:
            raise Malformed(Reason.PARAMETER_INVALID, "must be text/plain in UTF-8", param=shown(name))
        self._text = bytearray()
        return False

    def _field(self, name: str) -> tuple[Field | None, str]:
        """Find a field by its name in forms; one that has an alias there has no other name."""
        known = self.table.fields.get(name)
        if known is not None and known.alias is not None:
            raise Malformed(Reason.PARAMETER_NOT_ACCEPTED, f"is written {known.alias} in a form", param=name)
        if known is None:
            known = next((one for one in self.table.fields.values() if one.alias == name), None)
        return known, name if known is None else known.name

    def add(self, data: bytes) -> None:
        """Take a piece of text. Raises ``Malformed(PARAMETER_INVALID)`` for more than a field may have."""
        if self._text is not None:
            self._text += data
            if len(self._text) > LONGEST_TEXT:
                detail = f"is longer than {LONGEST_TEXT} bytes"
                raise Malformed(Reason.PARAMETER_INVALID, detail, param=shown(self._name))

    def end(self) -> None:
        """End a part. Raises ``Malformed(PARAMETER_INVALID)`` for text that is not in UTF-8."""
        if self._text is None:
            return
        try:
            text = self._text.decode("utf-8")
        except UnicodeDecodeError:
            raise Malformed(Reason.PARAMETER_INVALID, "is not UTF-8", param=shown(self._name)) from None
        kinds = self._known.kinds if self._known is not None else frozenset[str]()
        if "array" in kinds:
            self.fields.setdefault(self._name, []).append(text)
        else:
            self.fields[self._name] = _value(text, kinds)
        self._text = None

    @property
    def call(self) -> Call:
        """The form as the court reads it."""
        return Call(self.fields)


def _value(text: str, kinds: frozenset[str]) -> Any:  # noqa: ANN401  (a JSON value)
    """Give text the type of its field; where it is none of that type it stays text, and the court says so."""
    if "boolean" in kinds:
        return _WORDS.get(text, text)
    if "integer" in kinds and _INTEGER.fullmatch(text):
        return int(text)
    if "number" in kinds and _NUMBER.fullmatch(text):
        return float(text)
    return text
