"""The process: it begins, reloads, drains and ends as an operator expects."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
import stat
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.adapters.relaying import LAST, MODELS, STREAM, chunk, playing, warmed
from tests.adapters.wiring import Cut, get
from tests.running import answers, refused, running
from tests.simulators.certificates import Authority
from tests.small_house import INSIDE, KEY, POLICY, chat

if TYPE_CHECKING:
    from tests.adapters.relaying import Line
    from tests.simulators.certificates import Pair

EVENT = b'data: {"choices":[]}\n\n'
CONTROL = Path(__file__).parent / "policy" / "examples" / "control.yaml"


# Begin and end


async def test_a_gateway_serves_until_it_is_told_to_stop_and_ends_with_status_0(tmp_path: Path) -> None:
    socket_path = tmp_path / "inside.sock"
    (tmp_path / "inside.yaml").write_text(INSIDE, "utf-8")
    (tmp_path / "demo.yaml").write_text(POLICY, "utf-8")
    listeners = {"LISTENERS__INSIDE": f"unix:{socket_path}", "LISTENERS__OPS": "127.0.0.1:0"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        listeners["LISTENERS__OPS"] = f"127.0.0.1:{free.getsockname()[1]}"
    async with playing(answers) as (_, url), running(tmp_path, url, **listeners) as gateway:
        assert await gateway.chat() == (200, b'{"choices":[]}')
        assert (await gateway.ask(chat("anything"), "INSIDE"))[0] == 200
        assert stat.S_IMODE(socket_path.stat().st_mode) == 0o660
        status, body = await gateway.ask(get("/readyz").replace(b"host: x", b"host: localhost:1"), "OPS")
        assert status == 421, body
        ready = get("/readyz").replace(b"host: x", f"host: {gateway.address('OPS')}".encode())
        status, body = await gateway.ask(ready, "OPS")
        assert (status, json.loads(body)["planes"]["demo"]["engines"]["main"]["ready"]) == (200, True)
        gateway.tell(signal.SIGTERM)
        assert await gateway.ended() == 0
    assert not socket_path.exists()
    assert [line["event"] for line in gateway.lines if line["event"] in {"draining", "stopped"}] == [
        "draining",
        "stopped",
    ]
    assert {record["plane"] for record in gateway.records()} == {"demo", "inside"}


async def test_the_listener_for_operators_has_the_same_bounds_as_the_others(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(POLICY, "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        ops = f"127.0.0.1:{free.getsockname()[1]}"
    async with running(tmp_path, LISTENERS__OPS=ops, DEADLINES__HEAD="300ms", MAX_CONNECTIONS="1") as gateway:
        for listener in ("PUBLIC", "OPS"):
            status, body = await gateway.ask(b"GET /livez HTTP/1.1\r\n", listener)
            assert (status, b"did not arrive in time" in body) == (408, True)
            async with gateway.client(listener), gateway.client(listener) as second:
                assert await second.rest() == b""


async def test_what_a_policy_states_in_vain_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "inside.yaml").write_text(INSIDE, "utf-8")
    (tmp_path / "demo.yaml").write_text(POLICY, "utf-8")
    (tmp_path / "control.yaml").write_text(CONTROL.read_text("utf-8"), "utf-8")
    async with running(tmp_path, LISTENERS__CONTROL=f"unix:{tmp_path}/control.sock") as gateway:
        closed = await gateway.said("plane stays closed: its listener has no address")
        assert (closed["plane"], closed["listener"]) == ("inside", "inside")
        assert (await gateway.said("not enforced by this version"))["plane"] == "control"


async def test_a_policy_that_does_not_compile_is_status_2_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(POLICY.replace("body_limit: 1MiB", "body_limit: much"), "utf-8")
    assert f"{tmp_path}/demo.yaml:" in await refused(tmp_path)


async def test_a_list_of_revoked_tokens_that_cannot_be_read_is_status_2(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(POLICY, "utf-8")
    said = await refused(tmp_path, REVOKED_FILE=str(tmp_path / "none"))
    assert said == "GATEWAY_REVOKED_FILE cannot be used: No such file or directory.\n"


async def test_a_key_that_is_revoked_is_shut_out_while_no_policy_compiles(tmp_path: Path) -> None:
    revoked = tmp_path / "revoked"
    revoked.write_text("", "utf-8")
    async with running(tmp_path, REVOKED_FILE=str(revoked)) as gateway:
        assert (await gateway.chat())[0] != 401
        (tmp_path / "demo.yaml").write_text("policy: 2\n", "utf-8")
        revoked.write_text(sha256(KEY.encode()).hexdigest(), "utf-8")
        gateway.tell(signal.SIGHUP)
        await gateway.said("policies not reloaded: the old ones stay in force")
        assert (await gateway.chat())[0] == 401


async def test_no_policy_is_status_2(tmp_path: Path) -> None:
    assert "holds no *.yaml file" in await refused(tmp_path)


async def test_a_policy_and_settings_that_do_not_fit_are_status_2(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(POLICY, "utf-8")
    said = await refused(tmp_path, LISTENERS__INSIDE="127.0.0.1:9")
    assert said == (
        "The listener 'inside' is configured, but no policy file has it: "
        "write one, or remove GATEWAY_LISTENERS__INSIDE.\n"
    )


async def test_an_audit_log_that_cannot_be_opened_is_status_2(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(POLICY, "utf-8")
    said = await refused(tmp_path, AUDIT_LOG=str(tmp_path))
    assert said == "GATEWAY_AUDIT_LOG cannot be opened: Is a directory.\n"


async def test_an_address_that_is_taken_is_status_2_and_the_other_listeners_close(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(POLICY, "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ops = f"127.0.0.1:{taken.getsockname()[1]}"
        said = await refused(tmp_path, LISTENERS__OPS=ops)
    assert said.splitlines()[-1] == f"Cannot listen on {ops}: Address already in use."


# Drain


async def test_a_stream_under_way_comes_to_its_end_before_the_process_does(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(EVENT))
        await go.wait()
        await line.send(chunk(EVENT) + LAST)

    async with playing(warmed(play)) as (_, url), running(tmp_path, url) as gateway, gateway.client() as client:
        client.send(chat(gateway.address(), stream=True))
        await client.head()
        assert await client.chunk() == EVENT
        gateway.tell(signal.SIGTERM)
        await gateway.said("draining")
        await asyncio.sleep(0.2)
        with pytest.raises(ConnectionRefusedError):
            await gateway.chat()
        go.set()
        assert [await client.chunk(), await client.chunk()] == [EVENT, b""]
        assert await gateway.ended() == 0
    assert [record["outcome"] for record in gateway.records()] == ["engine-died"]  # it ended without [DONE]


async def test_the_ops_listener_tells_of_the_drain_until_the_end(tmp_path: Path) -> None:
    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(EVENT))
        await line.gone()

    with socket.create_server(("127.0.0.1", 0)) as free:
        ops = f"127.0.0.1:{free.getsockname()[1]}"
    more = {"LISTENERS__OPS": ops, "DEADLINES__DRAIN": "10s"}
    async with playing(warmed(play)) as (_, url), running(tmp_path, url, **more) as gateway, gateway.client() as client:
        client.send(chat(gateway.address(), stream=True))
        await client.head()
        gateway.tell(signal.SIGTERM)
        await gateway.said("draining")
        status, body = await gateway.ask(get("/readyz").replace(b"host: x", f"host: {ops}".encode()), "OPS")
        assert (status, json.loads(body)["problems"]) == (503, ["draining"])
        client.leave()
        assert await gateway.ended() == 0


@pytest.mark.parametrize("said", [b"", STREAM + chunk(EVENT)])
async def test_what_outlasts_the_drain_is_told_so_and_recorded(tmp_path: Path, said: bytes) -> None:
    async def play(line: Line) -> None:
        if said:
            await line.send(said)
        await line.gone()

    drain = {"DEADLINES__DRAIN": "1s"}
    async with (
        playing(warmed(play)) as (_, url),
        running(tmp_path, url, **drain) as gateway,
        gateway.client() as client,
    ):
        client.send(chat(gateway.address(), stream=True))
        await asyncio.sleep(0.3)
        gateway.tell(signal.SIGTERM)
        if said:
            await client.head()
            assert await client.chunk() == EVENT
            assert b'"code":"draining"' in await client.chunk()
            with pytest.raises(Cut):
                await client.chunk()
        else:
            answer = await client.answer()
            assert (answer.status, answer.headers["connection"]) == (503, "close")
            assert b'"code":"draining"' in answer.body
            assert await client.ended()
        assert await gateway.ended() == 0
    (record,) = gateway.records()
    assert (record["verdict"], record["reason"], record["outcome"]) == ("failure", "draining", "draining")


async def test_told_twice_it_does_not_wait(tmp_path: Path) -> None:
    async def play(line: Line) -> None:
        await line.send(STREAM + chunk(EVENT))
        await line.gone()

    async with playing(warmed(play)) as (_, url), running(tmp_path, url) as gateway, gateway.client() as client:
        client.send(chat(gateway.address(), stream=True))
        await client.head()
        gateway.tell(signal.SIGTERM)
        await gateway.said("draining")
        gateway.tell(signal.SIGINT)
        async with asyncio.timeout(5):
            assert await gateway.ended() == 0
    (record,) = gateway.records()
    assert record["outcome"] == "draining"


async def test_what_it_is_told_while_it_ends_does_not_change_its_status(tmp_path: Path) -> None:
    async with playing(answers) as (_, url), running(tmp_path, url) as gateway:
        assert await gateway.pestered() == 0


# Reload


async def test_a_changed_policy_is_put_in_place_without_a_restart(tmp_path: Path) -> None:
    async with playing(answers) as (_, url), running(tmp_path, url) as gateway:
        assert (await gateway.chat(n=2))[0] == 200
        (tmp_path / "demo.yaml").write_text(POLICY.replace("at_most: 2", "at_most: 1").replace("n: 2", "n: 1"), "utf-8")
        await gateway.said("policies reloaded")
        status, body = await gateway.chat(n=2)
        assert (status, json.loads(body)["error"]["code"]) == (400, "parameter-over-cap")
    first, second = gateway.records()
    assert first["policy"] != second["policy"]


@pytest.mark.parametrize("text", [POLICY.replace("body_limit: 1MiB", "body_limit: much"), INSIDE])
async def test_a_policy_that_cannot_be_put_in_place_leaves_the_old_one_in_force(tmp_path: Path, text: str) -> None:
    async with playing(answers) as (_, url), running(tmp_path, url) as gateway:
        (tmp_path / "demo.yaml").write_text(text, "utf-8")
        gateway.tell(signal.SIGHUP)
        said = await gateway.said("policies not reloaded: the old ones stay in force")
        assert said["problems"]
        assert (await gateway.chat())[0] == 200


async def test_files_that_are_gone_leave_the_old_policies_in_force(tmp_path: Path) -> None:
    async with playing(answers) as (_, url), running(tmp_path, url) as gateway:
        (tmp_path / "demo.yaml").unlink()
        gateway.tell(signal.SIGHUP)
        await gateway.said("policies not reloaded: the old ones stay in force")
        assert (await gateway.chat())[0] == 200


async def test_sighup_opens_the_audit_log_anew(tmp_path: Path) -> None:
    async with playing(answers) as (_, url), running(tmp_path, url) as gateway:
        await gateway.chat()
        for _ in range(100):  # a record is written behind its answer
            if gateway.records():
                break
            await asyncio.sleep(0.02)
        (tmp_path / "audit.jsonl").rename(tmp_path / "audit.jsonl.1")
        gateway.tell(signal.SIGHUP)
        await gateway.said("policies reloaded")
        await gateway.chat()
    assert len(gateway.records()) == 1
    assert len((tmp_path / "audit.jsonl.1").read_bytes().splitlines()) == 1


# The door as the process sets it


async def test_the_deadlines_and_bounds_of_the_settings_are_those_of_the_door(tmp_path: Path) -> None:
    more = {"DEADLINES__HEAD": "300ms", "MAX_CONNECTIONS": "1"}
    async with running(tmp_path, **more) as gateway, gateway.client() as client:
        client.send(b"GET / HTTP/1.1\r\n")
        await asyncio.sleep(0.05)
        async with gateway.client() as other:
            assert await other.ended()
        assert (await client.answer()).status == 408


# TLS


def _tls(pair: Pair, listener: str = "PUBLIC") -> dict[str, str]:
    return {f"TLS__{listener}__CERT": str(pair.cert), f"TLS__{listener}__KEY": str(pair.key)}


async def test_planes_and_operators_are_served_over_tls_and_drained_as_ever(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    with socket.create_server(("127.0.0.1", 0)) as free:
        ops = f"127.0.0.1:{free.getsockname()[1]}"
    tls = ssl.create_default_context(cafile=authority.ca)
    more = {**_tls(authority.server("public")), **_tls(authority.server("ops"), "OPS"), "LISTENERS__OPS": ops}
    go = asyncio.Event()

    async def play(line: Line) -> None:
        if line.head.startswith(b"GET"):
            await line.send(MODELS)
            return
        await line.send(STREAM + chunk(EVENT))
        await go.wait()
        await line.send(chunk(EVENT) + LAST)

    async with playing(warmed(play)) as (_, url), running(tmp_path, url, **more) as gateway:
        assert all(line["tls"] for line in gateway.lines if line["event"] == "listening")
        ready = get("/readyz").replace(b"host: x", f"host: {ops}".encode())
        assert (await gateway.ask(ready, "OPS", tls=tls))[0] == 200
        async with gateway.client(tls=tls) as client, gateway.client() as undecided:
            client.send(chat(gateway.address(), stream=True))
            await client.head()
            gateway.tell(signal.SIGTERM)
            await gateway.said("draining")
            assert await undecided.ended(), "a handshake that is not done is no request under way"
            assert (await gateway.ask(ready, "OPS", tls=tls))[0] == 503
            go.set()
            assert [await client.chunk(), await client.chunk(), await client.chunk()] == [EVENT, EVENT, b""]
        assert await gateway.ended() == 0


async def test_a_certificate_that_cannot_be_used_is_status_2_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(POLICY, "utf-8")
    pair = Authority(tmp_path, "ours").server()
    said = await refused(tmp_path, **{**_tls(pair), "TLS__PUBLIC__KEY": str(tmp_path / "none")})
    sentence = f"GATEWAY_TLS__PUBLIC__KEY: {tmp_path}/none cannot be read: No such file or directory."
    assert said.splitlines()[-1] == sentence


async def test_a_certificate_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    pair, other = old.server(), new.server("other")
    asked = get().replace(b"host: x", b"host: localhost")
    async with running(tmp_path, **_tls(pair)) as gateway:
        pair.cert.write_bytes(other.cert.read_bytes())
        pair.key.write_bytes(other.key.read_bytes())
        await gateway.said("certificate read again")
        assert (await gateway.ask(asked, tls=ssl.create_default_context(cafile=new.ca)))[0] == 421
        with pytest.raises(ssl.SSLCertVerificationError):
            await gateway.ask(asked, tls=ssl.create_default_context(cafile=old.ca))


async def test_an_answer_names_no_server(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway, gateway.client() as client:
        client.send(get("/metrics").replace(b"host: x", f"host: {gateway.address()}".encode()))
        answer = await client.answer()
    assert answer.status == 404
    assert "server" not in answer.headers
    assert "date" in answer.headers
