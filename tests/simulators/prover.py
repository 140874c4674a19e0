"""A client that proves with each request that it has its key (RFC 9449 §4), well or badly."""

from __future__ import annotations

import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tests.simulators.signing import SigningKey, compact, ec, part, signing_input

if TYPE_CHECKING:
    from collections.abc import Mapping


class Prover:
    """A key and the proofs that are made with it."""

    def __init__(self, name: str = "prover", key: SigningKey | None = None) -> None:
        self.key = key or SigningKey("none", "ES256", ec(name))

    @property
    def jwk(self) -> dict[str, Any]:
        """The public key as it stands in the proof."""
        return {name: value for name, value in self.key.public.items() if name not in {"kid", "use"}}

    @property
    def thumbprint(self) -> str:
        """What a token that is bound to this key bears as ``cnf.jkt``."""
        return self.key.pair.thumbprint()

    def proof(
        self,
        token: str,
        method: str,
        url: str,
        nonce: str | None = None,
        header: Mapping[str, Any] | None = None,
        **changes: Any,  # noqa: ANN401  (any JSON value)
    ) -> str:
        """Make a proof, some claims or members of its header changed; ``None`` leaves one out."""
        good = {
            "htm": method,
            "htu": url,
            "iat": int(time.time()),
            "jti": uuid4().hex,
            "ath": part(sha256(token.encode()).digest()),
            "nonce": nonce,
        }
        claims = {name: value for name, value in {**good, **changes}.items() if value is not None}
        members = {"typ": "dpop+jwt", "alg": self.key.algorithm, "jwk": self.jwk, **(header or {})}
        message = signing_input({name: value for name, value in members.items() if value is not None}, claims)
        return compact(message, self.key.sign(message))
