from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gateway.dialects.call import Call, Usage
from gateway.dialects.form_body import LONGEST_TEXT, Form
from gateway.dialects.openai_audio import TRANSCRIPTIONS, OpenAITranscriptions
from gateway.reasons import Malformed, Reason
from gateway.wire.form_data import PartHead

DIALECT = OpenAITranscriptions()


@dataclass(frozen=True)
class Change:
    action: str
    field: str
    value: Any = None


def head(name: str, *, is_file: bool = False, media_type: str | None = None, plain: bool = True) -> PartHead:
    return PartHead(name, is_file, media_type, plain)


def read(*parts: tuple[PartHead | str, bytes]) -> dict[str, Any]:
    """Read a form, each content in two pieces."""
    form = Form(TRANSCRIPTIONS)
    for one, content in parts:
        if form.begin(head(one) if isinstance(one, str) else one):
            form.end()
            continue
        form.add(content[:1])
        form.add(content[1:])
        form.end()
    return form.call.fields


def refusal(*parts: tuple[PartHead | str, bytes]) -> tuple[Reason, str | None, str]:
    with pytest.raises(Malformed) as caught:
        read(*parts)
    return caught.value.reason, caught.value.param, caught.value.detail


@pytest.mark.parametrize(
    "name, text, value",
    [
        ("model", b"whisper", "whisper"),
        ("prompt", "Grüße\r\n\r\n--b".encode(), "Grüße\r\n\r\n--b"),
        ("prompt", b"", ""),
        ("prompt", b"true", "true"),
        ("stream", b"true", True),
        ("stream", b"false", False),
        ("n", b"2", 2),
        ("seed", b"-9223372036854775808", -(2**63)),
        ("temperature", b"0.5", 0.5),
        ("temperature", b"1e-7", 1e-7),
        ("temperature", b"-0", 0.0),
        ("unlisted", b"1", "1"),
    ],
)
def test_text_has_the_type_of_its_field(name: str, text: bytes, value: object) -> None:
    found = read((name, text))
    assert found == {name: value}
    assert type(found[name]) is type(value)


@pytest.mark.parametrize(
    "name, text",
    [
        *[("stream", text) for text in ("True", "1", "yes", "", " true", "null")],
        *[("n", text) for text in ("1.0", "01", "+1", " 1", "1e3", "", "9" * 20, "0x1", "\u0661")],
        *[("temperature", text) for text in ("nan", "inf", ".5", "1.", "1e999", "1_0", "0,5", "")],
    ],
)
def test_what_is_not_of_its_type_stays_text_for_the_court_to_refuse(name: str, text: str) -> None:
    assert read((name, text.encode())) == {name: text}


def test_a_list_is_written_once_for_each_item() -> None:
    name = "timestamp_granularities[]"
    assert read((name, b"word"), (name, b"segment")) == {"timestamp_granularities": ["word", "segment"]}
    assert refusal(("timestamp_granularities", b"word")) == (
        Reason.PARAMETER_NOT_ACCEPTED,
        "timestamp_granularities",
        "is written timestamp_granularities[] in a form",
    )


def test_a_file_is_known_by_its_media_type() -> None:
    assert read((head("file", is_file=True, media_type="audio/wav", plain=False), b"")) == {"file": "audio/wav"}
    assert read((head("file", is_file=True), b"")) == {"file": "application/octet-stream"}


@pytest.mark.parametrize(
    "parts, reason, param",
    [
        ([("model", b"a"), ("model", b"b")], Reason.BODY_MALFORMED, "model"),
        ([("x y", b"a"), ("x y", b"a")], Reason.BODY_MALFORMED, "x?y"),
        ([(head("file", is_file=True), b""), (head("file", is_file=True), b"")], Reason.BODY_MALFORMED, "file"),
        ([("file", b"a")], Reason.PARAMETER_INVALID, "file"),
        ([(head("model", is_file=True), b"")], Reason.PARAMETER_INVALID, "model"),
        ([(head("other", is_file=True), b"")], Reason.PARAMETER_NOT_ACCEPTED, "other"),
        ([(head("model", media_type="audio/wav", plain=False), b"")], Reason.PARAMETER_INVALID, "model"),
        ([("model", b"\xff")], Reason.PARAMETER_INVALID, "model"),
        ([("model", b"x" * (LONGEST_TEXT + 1))], Reason.PARAMETER_INVALID, "model"),
    ],
)
def test_what_no_form_may_have_is_refused(
    parts: list[tuple[PartHead | str, bytes]], reason: Reason, param: str
) -> None:
    assert refusal(*parts)[:2] == (reason, param)


def test_text_may_be_as_long_as_a_field_may_be() -> None:
    assert len(read(("prompt", b"x" * LONGEST_TEXT))["prompt"]) == LONGEST_TEXT


def test_text_between_parts_belongs_to_nothing() -> None:
    form = Form(TRANSCRIPTIONS)
    form.add(b"x")
    form.end()
    assert form.fields == {}
    assert "whisper" not in repr(Form(TRANSCRIPTIONS, {"model": "whisper"}))


def test_a_judged_form_is_written_field_by_field_and_the_file_last() -> None:
    call = Call({"file": "audio/wav", "model": "a", "timestamp_granularities": ["word", "segment"], "user": "x"})
    changes = [
        Change("replace", "model", "org/whisper"),
        Change("drop", "user"),
        Change("set", "n", 2),
        Change("set", "temperature", 0.1),
        Change("set", "stream", value=True),
        Change("set", "stream_include_usage", value=False),
    ]
    before, behind = DIALECT.written(call, changes, "B")
    texts = [
        ("model", "org/whisper"),
        ("timestamp_granularities[]", "word"),
        ("timestamp_granularities[]", "segment"),
        ("n", "2"),
        ("temperature", "0.1"),
        ("stream", "true"),
        ("stream_include_usage", "false"),
    ]
    expected = "".join(
        f'--B\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n' for name, text in texts
    )
    file = '--B\r\nContent-Disposition: form-data; name="file"; filename="audio"\r\nContent-Type: audio/wav\r\n\r\n'
    assert before.decode() == expected + file
    assert behind == b"\r\n--B--\r\n"


def test_a_count_of_seconds_is_no_count_of_tokens() -> None:
    assert DIALECT.usage(b'{"text":"a","usage":{"type":"duration","seconds":3}}') is None
    assert DIALECT.usage(b'{"usage":{"prompt_tokens":3}}') == Usage(3)


def test_the_cases_of_a_policy_write_a_form_as_json() -> None:
    call = DIALECT.read(b'{"model":"a","file":"audio/wav"}')
    assert DIALECT.write(call, [Change("replace", "model", "b")]) == b'{"model":"b","file":"audio/wav"}'
