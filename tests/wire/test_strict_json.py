from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.reasons import Malformed, Reason
from gateway.wire.strict_json import DEEPEST, dumps, loads, loads_value

REFUSED = {
    "empty (json-076)": b"",
    "whitespace (json-077)": b"   ",
    "null (json-075)": b"null",
    "text": b'"a"',
    "number": b"1",
    "list": b"[{}]",
    "byte order mark (json-052)": b"\xef\xbb\xbf{}",
    "UTF-16 with a mark (json-053)": '{"a":1}'.encode("utf-16"),
    "UTF-16 without (json-054)": '{"a":1}'.encode("utf-16-le"),
    "UTF-32 (json-055)": '{"a":1}'.encode("utf-32"),
    "invalid UTF-8 (json-067)": b'{"a":"\xff"}',
    "invalid UTF-8 in a name": b'{"\xff":1}',
    "overlong UTF-8": b'{"a":"\xc0\xaf"}',
    "surrogate in UTF-8": b'{"a":"\xed\xa0\x80"}',
    "lone high surrogate": b'{"a":"\\ud800"}',
    "lone low surrogate": b'{"a":"\\udc00"}',
    "lone surrogate in a name": b'{"\\ud800":1}',
    "repeated name (json-018)": b'{"a":1,"a":2}',
    "repeated name, escaped (json-020)": b'{"a":{"b":1,"\\u0062":2}}',
    "repeated name in a list": b'{"a":[{"b":1,"b":1}]}',
    "NaN (json-058)": b'{"a":NaN}',
    "Infinity": b'{"a":Infinity}',
    "minus Infinity": b'{"a":-Infinity}',
    "overflow to infinity": b'{"a":1e400}',
    "overflow to minus infinity": b'{"a":-1E+400}',
    "overflow by digits": b'{"a":' + b"9" * 400 + b".0}",
    "integer above 64 bits": b'{"a":18446744073709551616}',
    "integer below 64 bits": b'{"a":-9223372036854775809}',
    "integer of 5,000 digits (json-060)": b'{"a":' + b"9" * 5000 + b"}",
    "something behind": b"{} {}",
    "NUL behind": b"{}\x00",
    "cut off (framing-037)": b'{"a":1',
    "trailing comma": b'{"a":1,}',
    "comment": b'{"a":1/**/}',
    "single quotes": b"{'a':1}",
    "leading zero": b'{"a":01}',
    "plus sign": b'{"a":+1}',
    "control character": b'{"a":"\x01"}',
    "unknown escape": b'{"a":"\\q"}',
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
def test_ambiguous_json_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        loads(data)
    assert refused.value.reason is Reason.BODY_MALFORMED
    assert refused.value.detail


ACCEPTED = {
    "integers at their bounds": (
        b'{"a":18446744073709551615,"b":-9223372036854775808}',
        {"a": 2**64 - 1, "b": -(2**63)},
    ),
    "floats": (b'{"a":0.1,"b":1.0,"c":1e308}', {"a": 0.1, "b": 1.0, "c": 1e308}),
    "underflow": (b'{"a":1e-400}', {"a": 0.0}),
    "surrogate pair": (b'{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}),
    "escaped NUL (json-066)": (b'{"a":"a\\u0000b"}', {"a": "a\0b"}),
    "white space around": (b' \r\n\t{"a": [null, true, {}]}\n', {"a": [None, True, {}]}),
    "the same name at two places": (b'{"a":{"b":1},"c":{"b":1}}', {"a": {"b": 1}, "c": {"b": 1}}),
    "an empty name": (b'{"":{}}', {"": {}}),
}


@pytest.mark.parametrize("data,value", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_one_sound_object_is_read_and_can_be_written_again(data: bytes, value: dict[str, Any]) -> None:
    assert loads(data) == value
    assert loads(dumps(loads(data))) == value


def test_a_boolean_stays_one_and_an_integral_float_too() -> None:
    assert [type(item) for item in loads(b'{"a":true,"b":1,"c":1.0}').values()] == [bool, int, float]


@pytest.mark.parametrize("pair", [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_is_read_to_the_bound_and_no_deeper(pair: tuple[bytes, bytes]) -> None:
    opened, closed = pair
    deepest = b'{"a":' + opened * (DEEPEST - 1) + b"1" + closed * (DEEPEST - 1) + b"}"
    dumps(loads(deepest))
    with pytest.raises(Malformed, match="nested"):
        loads(b'{"a":' + opened * DEEPEST + b"1" + closed * DEEPEST + b"}")


def test_endless_nesting_is_refused_like_any_other() -> None:
    with pytest.raises(Malformed):
        loads(b'{"a":' + b"[" * 1_000_000)


def test_the_detail_says_where_and_never_what() -> None:
    with pytest.raises(Malformed) as refused:
        loads(b'{"secret":1,\n"secret":2}')
    assert refused.value.detail == "a member name occurs twice at line 2 column 10"
    with pytest.raises(Malformed) as refused:
        loads(b'{"a":secret}')
    assert refused.value.detail == "expected value at line 1 column 6"


def test_any_kind_of_value_can_be_read_where_one_is_wanted() -> None:
    assert loads_value(b"[1]") == [1]
    assert loads_value(b"null") is None
    with pytest.raises(Malformed):
        loads_value(b"1e400")


def test_very_many_names_cost_less_than_a_second() -> None:
    """json-090: 150,000 names in one object."""
    body = b"{" + b",".join(b'"k%d":0' % number for number in range(150_000)) + b"}"
    begun = time.process_time()
    assert len(loads(body)) == 150_000
    assert time.process_time() - begun < 1


_SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
_VALUES = st.recursive(
    _SCALARS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), _VALUES, max_size=5))
def test_what_is_written_is_read_as_the_same(value: dict[str, Any]) -> None:
    assert loads(dumps(value)) == value


@given(st.binary(max_size=60))
def test_no_bytes_lead_to_another_error(data: bytes) -> None:
    with contextlib.suppress(Malformed):
        dumps(loads(b'{"a":' + data + b"}"))
