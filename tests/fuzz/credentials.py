"""Fuzz targets for what proves who is asking: the credential fields, and signed tokens in compact form.

Enters: any bytes. Leaves: nothing, or an ``AssertionError``. No key is involved: it is the reading that is tested.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass

from gateway.identity import compact_jws
from gateway.identity.credential import CredentialReader
from gateway.identity.issuer import ApiKeys, CloudflareAccess, IntrospectionIssuer
from gateway.reasons import Malformed, Reason
from tests.fuzz.readers import shape

_REASONS = {Reason.CREDENTIAL_MISSING, Reason.CREDENTIAL_INVALID, Reason.CREDENTIAL_AMBIGUOUS}
_BOTH = ApiKeys("keys", frozenset({"authorization", "x-api-key"}))
_ACCESS = CloudflareAccess("cf", "team", "a" * 64)
_ASKED = IntrospectionIssuer("asked", "https://login.example", "gateway")
_KEYS = {"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08": "keys"}  # of "test"
READERS = (
    CredentialReader({}, {}),
    CredentialReader({"keys": _BOTH}, _KEYS),
    CredentialReader({"cf": _ACCESS, "keys": _BOTH}, _KEYS),
    CredentialReader({"asked": _ASKED, "keys": _BOTH}, _KEYS, edge=True),
)


@dataclass(frozen=True)
class Fields:
    """The credential fields of a request."""

    authorization: bytes | None
    x_api_key: bytes | None
    access_assertion: bytes | None
    dpop: bytes | None
    credential_repeated: bool


def fuzz_credential(data: bytes) -> None:
    """Whatever comes in whichever fields: one credential, taken from one of them as it is, or a refusal."""
    control, *values = data[:1] or b"\0", *data[1:].split(b"\n")
    present = [value if control[0] >> bit & 1 else None for bit, value in enumerate([*values, b"", b"", b""][:4])]
    fields = Fields(present[0], present[1], present[2], present[3], credential_repeated=control[0] & 16 != 0)
    for reader in READERS:
        try:
            credential = reader.read(fields)
        except Malformed as malformed:
            assert malformed.reason in _REASONS  # noqa: PT017
            assert not any(value and len(value) > 40 and value in malformed.detail.encode() for value in present)  # noqa: PT017
            continue
        assert not fields.credential_repeated
        carried = {
            "authorization": fields.authorization,
            "x-api-key": fields.x_api_key,
            "cf-access-jwt-assertion": fields.access_assertion,
        }[credential.carrier]
        assert carried is not None
        assert credential.text
        assert credential.text.isascii()
        assert carried.endswith(credential.text.encode())
        scheme = carried[: -len(credential.text)].lower()
        assert scheme in ({b"bearer ", b"dpop "} if credential.carrier == "authorization" else {b""})
        assert len(credential.text) < 20 or credential.text not in repr(credential)
        assert reader.read(fields) == credential


def fuzz_compact_jws(data: bytes) -> None:
    """Check that a token that is taken apart can be put together in one way only, and its parts are strict JSON."""
    control, text = (data[0], data[1:]) if data else (0, b"")
    if control & 1:  # the parts come decoded, so that a change reaches the JSON and not only its spelling
        text = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in text.split(b"\n"))
    token = text.decode("latin-1")
    signed = compact_jws.is_signed(token)
    try:
        jws = compact_jws.parse(token)
    except Malformed as malformed:
        assert malformed.reason is Reason.CREDENTIAL_INVALID  # noqa: PT017
        return
    assert signed
    assert len(token) <= compact_jws.MOST_CHARACTERS
    header, payload, signature = text.split(b".")
    assert jws.signing_input == header + b"." + payload
    assert urlsafe_b64encode(jws.signature).rstrip(b"=") == signature
    assert type(jws.header.algorithm) is str
    assert jws.header.key_id is None or 0 < len(jws.header.key_id) <= compact_jws.LONGEST_KEY_ID
    assert shape(compact_jws.parse(token).claims) == shape(jws.claims)
    assert repr(jws) == "CompactJws(…)"
