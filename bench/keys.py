"""Throw-away keys and tokens of the benchmark, made when needed in out/keys and never kept longer than half a day."""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joserfc import jwk, jwt

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = Path(__file__).resolve().parent / "out" / "keys"
ISSUER = "http://127.0.0.1:9101"
AUDIENCE = "vllm-gateway/bench"
CLIENT = "bench-client"
LIFETIME = 12 * 3600  # seconds
ALGORITHMS: dict[str, Callable[[], Any]] = {
    "RS256": lambda: jwk.RSAKey.generate_key(2048, parameters={"kid": "bench-rs256"}),
    "ES256": lambda: jwk.ECKey.generate_key("P-256", parameters={"kid": "bench-es256"}),
    "Ed25519": lambda: jwk.OKPKey.generate_key("Ed25519", parameters={"kid": "bench-ed25519"}),
}


def make() -> Path:
    """Give the folder with a key set, a public key and a token for each algorithm, and a random API key."""
    made = KEYS / "made_at"
    if made.exists() and time.time() - float(made.read_text()) < LIFETIME / 2:
        return KEYS
    KEYS.mkdir(parents=True, exist_ok=True)
    now = int(time.time())
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": CLIENT,
        "azp": CLIENT,
        "client_id": CLIENT,
        "iat": now,
        "nbf": now,
        "exp": now + LIFETIME,
        "scope": "llm.chat llm.models",
        "groups": ["partners", "batch", "europe"],
    }
    public = []
    for algorithm, generate in ALGORITHMS.items():
        key = generate()
        header = {"alg": algorithm, "kid": key.kid, "typ": "at+jwt"}
        token = jwt.encode(header, claims | {"jti": secrets.token_hex(16)}, key, algorithms=[algorithm])
        (KEYS / f"{algorithm.lower()}.pub").write_bytes(key.as_pem(private=False))
        (KEYS / f"{algorithm.lower()}.jwt").write_text(token)
        public.append(key.as_dict(private=False) | {"alg": algorithm, "use": "sig"})
    (KEYS / "jwks.json").write_text(json.dumps({"keys": public}))
    (KEYS / "api.key").write_text("sk-" + secrets.token_urlsafe(24))  # LiteLLM takes no weak one
    made.write_text(str(now))
    return KEYS
