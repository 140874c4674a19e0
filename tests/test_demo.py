from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway import demo
from gateway.review.check import check
from gateway.simulator.__main__ import arguments
from gateway.simulator.record import read

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    """Run the demo in a process of its own."""
    with subprocess.Popen([sys.executable, "-m", "gateway", "demo"], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_the_demo_shows_what_goes_through_and_what_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run(sys.stdout, once=True) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+", lines[0])
    assert any(line.startswith("   The quick brown fox") for line in lines)
    for path in ("/invocations", "/sleep", "/collective_rpc"):
        (shown,) = [line for line in lines if line.startswith(f"  POST {path} -> ")]
        assert "404" in shown
        assert "no-such-endpoint" in shown
    assert "Of these 3 requests, 0 reached the engine. Past the gateway it would have answered:" in lines
    assert any(line.endswith("/invocations, without a key -> 200") for line in lines)


def test_its_lines_can_be_pasted_and_it_ends_well_when_told_to(running: subprocess.Popen[str]) -> None:
    assert running.stdout is not None
    said = []
    for line in running.stdout:
        said.append(line.strip())
        if line.startswith("Ctrl-C"):
            break
    commands = [line for line in said if line.startswith("curl ")]
    answers = [
        subprocess.run(["bash", "-c", line], capture_output=True, check=True, text=True).stdout for line in commands
    ]
    chat, stream, response, message, models, ranked, heard, refused = answers
    assert '"object":"chat.completion"' in chat
    assert stream.endswith("data: [DONE]\n\n")
    assert '"object":"response"' in response
    assert '"type":"message"' in message
    assert '"id":"local"' in models
    assert '"results":[{"index":1' in ranked
    assert heard.startswith('{"text":"word0')
    assert refused.startswith("HTTP/1.1 404 ")
    (folder,) = [Path(line.split()[4]).parent for line in said if line.startswith("The audit log is ")]
    callers = [seen.target for seen in read(folder / "engine.jsonl") if not seen.own_traffic]
    assert callers.count("/v1/chat/completions") == 3
    running.send_signal(signal.SIGTERM)
    assert running.wait(15) == 0
    assert not folder.exists()


def test_a_key_interrupts_it(running: subprocess.Popen[str]) -> None:
    assert running.stdout is not None
    running.stdout.readline()
    running.send_signal(signal.SIGINT)
    assert running.wait(15) == 0


def test_a_port_that_is_taken_is_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(demo.DemoFailed, match="cannot be used: Address already in use"):
            demo.run(sys.stdout, port=taken.getsockname()[1])


def test_the_process_that_ended_is_the_one_that_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        public, ops, _ = demo._free_ports(0)
        begun = demo._running(tmp_path, (public, ops, taken.getsockname()[1]), threading.Event())
        with pytest.raises(demo.DemoFailed, match=r"The engine did not start: .*in use"), begun:
            pass


def test_it_says_when_hardly_any_port_is_free() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(demo.DemoFailed, match=f"from {port} to {port} hardly any is free"):
            demo._free_ports(0, range(port, port + 1))


def test_any_key_of_the_engine_is_read_as_one(tmp_path: Path) -> None:
    """One in 64 begins with a dash."""
    assert arguments().parse_args(demo._engine(1, "-record", tmp_path)[1:]).api_key == "-record"


def test_settings_of_the_environment_are_not_the_demos(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(os.environ, "GATEWAY_NO_SUCH_SETTING", "x")
    assert demo.run(sys.stdout, once=True) == 0
    assert capsys.readouterr().out


def test_its_policy_holds_and_its_cases_bite() -> None:
    report = check([Path(demo.__file__).with_name("demo.yaml")])
    assert report.status == 0
    assert "ab" * 32 in demo.policy("ab" * 32)
