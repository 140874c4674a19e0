"""What npm oidc-provider issues is accepted as it comes, and nothing more than that."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from gateway.cli import main
from tests.e2e.site import MODELS, wait
from tests.idp.conftest import BASIC, BOUND, ELSEWHERE, JWT, OPAQUE
from tests.simulators.prover import Prover

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.idp.conftest import Idp


def test_a_token_by_client_credentials_opens_the_gate(
    idp: Idp, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fetched with the gateway's own command."""
    secret = tmp_path / "secret"
    secret.write_text("secret-of-app\n", "utf-8")
    who = ["--issuer", idp.issuer, "--client-id", "app", "--client-secret-file", str(secret)]
    assert main(["token", *who, "--resource", JWT, "--scope", "chat"]) == 0
    assert idp.status(capsys.readouterr().out.strip()) == 200
    secret.write_text("wrong\n", "utf-8")
    assert main(["token", *who, "--resource", JWT]) == 1
    assert "invalid_client" in capsys.readouterr().err


def test_a_token_for_somebody_else_or_without_the_scope_does_not(idp: Idp) -> None:
    assert idp.status(idp.token(ELSEWHERE)) == 401
    assert idp.status(idp.token(BOUND)) == 401
    answer = idp.ask(f"Bearer {idp.token(JWT, 'models')}")
    assert (answer.status, answer.code) == (403, "scope-missing")
    good = idp.token(JWT)
    for position in range(0, len(good), 37):
        other = "A" if good[position] != "A" else "B"
        assert idp.status(f"{good[:position]}{other}{good[position + 1 :]}") == 401


def test_an_opaque_token_opens_the_gate_until_it_is_revoked(idp: Idp) -> None:
    token = idp.token(OPAQUE)
    assert "." not in token
    assert idp.status(token) == 200
    assert idp.ask(f"Bearer {idp.token(OPAQUE, 'models')}").code == "scope-missing"
    idp.post("/token/revocation", urlencode({"token": token}).encode(), authorization=BASIC)
    wait(lambda: idp.status(token) == 401, "the end of the cached answer", 10)
    assert idp.status("opaque-and-made-up") == 401


def test_keys_rotate_during_traffic_and_nobody_notices(idp: Idp) -> None:
    old = idp.token(JWT)
    statuses: list[int] = []
    over = threading.Event()

    def keep_asking() -> None:
        while not over.is_set():
            statuses.append(idp.status(old))
            statuses.append(idp.status(idp.token(JWT)))

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        for _ in range(3):
            time.sleep(1.2)
            assert len(idp.control(rotate=True)) > 1
        time.sleep(1.2)
    finally:
        over.set()
        asking.join()
    assert len(statuses) > 20
    assert set(statuses) == {200}
    idp.control(drop=True)
    wait(lambda: idp.status(old) == 401, "the end of the old key", 15)
    assert idp.status(idp.token(JWT)) == 200


def test_a_bound_token_is_good_with_its_key_and_with_nothing_else(idp: Idp) -> None:
    prover = Prover("somebody")
    proof = prover.proof("", "POST", f"{idp.issuer}/token", ath=None)
    token = idp.token(BOUND, DPoP=proof)
    url = f"http://{idp.proofs[0]}:{idp.proofs[1]}{MODELS}"
    asked = idp.ask(f"DPoP {token}", proofs=True, DPoP=prover.proof(token, "GET", url))
    assert (asked.status, "use_dpop_nonce" in (asked.value("www-authenticate") or "")) == (401, True)
    nonce = asked.value("dpop-nonce")
    good = prover.proof(token, "GET", url, nonce)
    assert idp.ask(f"DPoP {token}", proofs=True, DPoP=good).status == 200
    assert idp.ask(f"DPoP {token}", proofs=True, DPoP=good).status == 401
    thief = Prover("thief").proof(token, "GET", url, nonce)
    assert idp.ask(f"DPoP {token}", proofs=True, DPoP=thief).status == 401
    assert idp.ask(f"Bearer {token}", proofs=True).status == 401
    bearer = idp.token(BOUND)
    assert idp.ask(f"Bearer {bearer}", proofs=True).status == 401


def test_a_bound_token_is_no_bearer_token_on_another_plane(idp: Idp) -> None:
    for resource in (JWT, OPAQUE):
        proof = Prover("somebody").proof("", "POST", f"{idp.issuer}/token", ath=None)
        assert idp.status(idp.token(resource, DPoP=proof)) == 401


def test_when_the_provider_is_gone_who_was_known_stays_and_nobody_comes_in(idp: Idp) -> None:
    """Last, since it is not started again."""
    signed, opaque, unseen = idp.token(JWT), idp.token(OPAQUE), idp.token(OPAQUE)
    assert idp.status(signed) == idp.status(opaque) == 200
    idp.process.kill()
    idp.process.wait()
    assert idp.status(signed) == 200
    answer = idp.ask(f"Bearer {unseen}")
    assert (answer.status, answer.code) == (503, "keys-unavailable")
    wait(lambda: idp.status(opaque) == 503, "the end of the cached answer", 10)
