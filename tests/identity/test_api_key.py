from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.identity import api_key

OCTETS = st.binary(min_size=24, max_size=24)


@given(OCTETS)
def test_a_key_has_one_form_that_scanners_can_look_for(octets: bytes) -> None:
    key = api_key.new_key(octets)
    assert re.fullmatch(r"vgw_[0-9A-Za-z]{39}", key)
    assert api_key.has_valid_checksum(key)


@given(OCTETS, OCTETS)
def test_other_octets_make_another_key(one: bytes, two: bytes) -> None:
    assert (api_key.new_key(one) == api_key.new_key(two)) == (one == two)


def test_the_form_stays_as_it_is_from_version_to_version() -> None:
    assert api_key.new_key(bytes(24)) == "vgw_00000000000000000000000000000000026BYXP"
    assert api_key.new_key(bytes(range(24))) == "vgw_000A7dl5PEW67zZCpFU9uKaHnGgOvQKAR2eahrm"


@pytest.mark.parametrize("octets", [b"", bytes(23), bytes(25)])
def test_a_key_is_made_of_192_random_bits_and_no_fewer(octets: bytes) -> None:
    with pytest.raises(ValueError, match="24 random octets"):
        api_key.new_key(octets)


@given(OCTETS, st.integers(4, 42), st.sampled_from("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))
def test_one_wrong_character_spoils_the_checksum(octets: bytes, position: int, character: str) -> None:
    key = api_key.new_key(octets)
    mistyped = f"{key[:position]}{character}{key[position + 1 :]}"
    assert api_key.has_valid_checksum(mistyped) == (mistyped == key)


def test_what_is_cut_off_or_not_of_the_form_has_no_valid_checksum() -> None:
    key = api_key.new_key(bytes(range(24)))
    for text in ("", "vgw_", key[:-1], key[1:], f"{key}0", key.upper(), "ak_live_abc", f"xgw_{key[4:]}"):
        assert not api_key.has_valid_checksum(text)


def test_a_key_is_compared_by_the_hash_of_its_exact_text() -> None:
    """CWE-187: no prefix, no other case, nothing trimmed."""
    one = api_key.sha256_of("ak_live_abc")
    assert one == "8d329cc587c6388170a282536ed5217885c18984eb5a81be1ada180611005053"
    variants = ["ak_live_ab", "ak_live_abcd", "AK_LIVE_ABC", "ak_live_abc\n", " ak_live_abc", "%61k_live_abc"]
    assert one not in {api_key.sha256_of(text) for text in variants}
