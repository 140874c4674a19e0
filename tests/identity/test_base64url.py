from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.identity import base64url

ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@given(st.binary(max_size=100))
def test_what_was_encoded_without_padding_is_decoded(octets: bytes) -> None:
    assert base64url.decode(urlsafe_b64encode(octets).rstrip(b"=")) == octets


@given(st.binary(min_size=1, max_size=40), st.data())
def test_no_second_text_decodes_to_the_same_octets(octets: bytes, data: st.DataObject) -> None:
    """RFC 4648 §3.5: with other surplus bits a signature would have several spellings."""
    text = bytearray(urlsafe_b64encode(octets).rstrip(b"="))
    position = data.draw(st.integers(0, len(text) - 1))
    text[position] = data.draw(st.sampled_from([byte for byte in ALPHABET if byte != text[position]]))
    try:
        assert base64url.decode(bytes(text)) != octets
    except ValueError:
        assert position == len(text) - 1


@pytest.mark.parametrize(
    "text",
    [
        b"YQ==",
        b"YWI=",
        b"YQ=",
        b"=",
        b"YR",
        b"YWJ",
        b"Y",
        b"YWJjZ",
        b"YW+j",
        b"YW/j",
        b"YW j",
        b"YWJj\n",
        b"YW!j",
        b"YW\xffj",
    ],
)
def test_padding_other_alphabets_surplus_bits_and_odd_lengths_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        base64url.decode(text)


def test_nothing_decodes_to_nothing() -> None:
    assert base64url.decode(b"") == b""
