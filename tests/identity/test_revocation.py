from __future__ import annotations

from hashlib import sha256

import pytest

from gateway.identity import base64url
from gateway.identity.revocation import Revoked, fingerprints
from tests.simulators.signing import compact, default_keys, ec, part, signing_input

KEYS = default_keys()
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def token(name: str = "K1") -> str:
    message = signing_input({"alg": KEYS[name].algorithm}, {"jti": "j-1"})
    return compact(message, KEYS[name].sign(message))


def listed(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_a_token_is_named_by_its_id_or_by_its_hash() -> None:
    one, other = token(), token("ED")
    revoked = Revoked.parse(f"# left on a bus\nj-1\n\n{listed(other)}  # in a public repository\n")
    assert revoked.names(one, "j-1")
    assert not revoked.names(one, "j-2")
    assert not revoked.names(one, None)
    assert revoked.names(other, None)
    assert revoked.names(other, "j-2")


def test_an_empty_list_names_nothing() -> None:
    assert not Revoked().names(token(), "j-1")
    assert Revoked.parse("\n# nobody\n  \n") == Revoked()


def test_a_hash_may_be_written_in_capitals() -> None:
    assert Revoked.parse(listed(token()).upper()).names(token(), None)


def test_the_hash_of_an_opaque_token_or_key_counts_too() -> None:
    assert Revoked.parse(listed("ak_live_abc")).names("ak_live_abc", None)


def test_lines_may_end_as_windows_ends_them() -> None:
    assert Revoked.parse("j-1\r\nj-2\r\n").entries == {"j-1", "j-2"}


@pytest.mark.parametrize("line", ["two words", "a\tb", "x" * 256, "a\x00b", "j\u2028k"])
def test_a_line_that_is_no_entry_is_told_by_its_number(line: str) -> None:
    with pytest.raises(ValueError, match=r"^line 2 is no jti") as caught:
        Revoked.parse(f"j-1\n{line}\nj-3")
    assert line not in str(caught.value)


def test_the_second_form_of_an_ecdsa_signature_is_no_way_out() -> None:
    """Both (r, s) and (r, n - s) verify; each is revoked with the other."""
    good = token("E1")
    signed, _, signature = good.rpartition(".")
    octets = base64url.decode(signature.encode())
    twin = octets[:32] + (ORDER - int.from_bytes(octets[32:], "big")).to_bytes(32, "big")
    other = f"{signed}.{part(twin)}"
    assert other != good
    assert Revoked.parse(listed(good)).names(other, None)
    assert Revoked.parse(listed(other)).names(good, None)


def test_each_curve_has_its_order() -> None:
    scheme = KEYS["E1"].__class__("e3", "ES384", ec("a", "P-384"))
    message = signing_input({"alg": "ES384"}, {})
    good = compact(message, scheme.sign(message))
    prints = [*fingerprints(good)]
    assert len(prints) == 2
    signed, _, signature = good.rpartition(".")
    octets = base64url.decode(signature.encode())
    order = int("F" * 48 + "C7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973", 16)
    twin = f"{signed}.{part(octets[:48] + (order - int.from_bytes(octets[48:], 'big')).to_bytes(48, 'big'))}"
    assert [*fingerprints(twin)] == prints[::-1]


def test_other_signatures_have_one_form() -> None:
    assert [*fingerprints(token())] == [listed(token())]
    for text in ("opaque", "a.b", "a.b.c!", "ak_live_abc.d"):
        assert [*fingerprints(text)] == [listed(text)]
