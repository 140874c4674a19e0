"""Two engines in processes of their own: routing by alias, one killed under load, back only behind its warm-up."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.e2e.pair import TOKENS, TWO_MODELS, two
from tests.e2e.site import wait

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS, AT_ONCE = 100, 10


def test_an_alias_leads_to_its_engine_under_the_name_there(tmp_path: Path) -> None:
    urls = {"ENGINES__MAIN__URLS": "{0}", "ENGINES__SECOND__URLS": "{1}"}
    with two(tmp_path, TWO_MODELS, models=("local", "org/other"), **urls) as site:
        wait(lambda: site.ready(0), "the first engine", 20)
        wait(lambda: site.replicas("second")[site.engines[1].url]["ready"], "the second engine", 20)
        for model in ("local", "other", "other"):
            assert site.chat(model=model)[0] == 200
        assert [len(engine.asked) for engine in site.engines] == [1, 2]
        assert site.engines[1].asked[0].json["model"] == "org/other"


def test_one_killed_under_load_takes_only_its_own_requests_along_and_is_back_behind_its_warm_up(tmp_path: Path) -> None:
    with two(tmp_path) as site:
        wait(lambda: site.ready(0) and site.ready(1), "both replicas", 20)
        first, second = site.engines
        done = threading.Semaphore(0)

        def one(number: int) -> bool:
            try:
                if number % 2:
                    return site.stream()
                status, body, identity, proxy_status = site.chat()
                if status == 200:
                    return bool(body["usage"]["completion_tokens"] == TOKENS)
                assert (status, len(identity)) in {(502, 32), (503, 32)}
                assert body["error"]["code"].startswith("engine-")
                assert (proxy_status or "").startswith("vllm-gateway; error=")
                return False
            finally:
                done.release()

        with ThreadPoolExecutor(AT_ONCE) as pool:
            results = [pool.submit(one, number) for number in range(REQUESTS)]
            for _ in range(REQUESTS // 4):
                done.acquire()
            first.kill()
            outcomes = [result.result() for result in results]
        failed = outcomes.count(False)
        assert sum(not seen.finished for seen in first.asked) <= failed <= AT_ONCE, "only what was in flight on it"
        assert len(first.asked) + len(second.asked) <= REQUESTS, "nothing ran twice"
        wait(lambda: sum(site.records().values()) == REQUESTS, "a record of each")
        assert not site.ready(0)
        assert site.chat()[0] == 200

        first.start()
        wait(lambda: site.ready(0), "the first replica again", 20)
        for _ in range(20):
            assert site.chat(messages=[{"role": "user", "content": str(_)}])[0] == 200
        posts = [seen.own_traffic for seen in first.requests if seen.method == "POST"]
        assert posts[:5] == [True] * 5, "the warm-up came first"
        assert not all(posts), "and then somebody"


def test_requests_that_begin_alike_go_to_one_replica_and_others_to_both(tmp_path: Path) -> None:
    with two(tmp_path) as site:
        wait(lambda: site.ready(0) and site.ready(1), "both replicas", 20)
        for number in range(12):
            messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": str(number)}]
            assert site.chat(messages=messages)[0] == 200
        assert sorted(len(engine.asked) for engine in site.engines) == [0, 12]
        for number in range(24):
            assert site.chat(messages=[{"role": "user", "content": f"{number} things"}])[0] == 200
        assert all(len(engine.asked) > 3 for engine in site.engines)


def test_an_engine_that_is_down_at_the_start_keeps_no_other_waiting_and_is_used_once_it_is_there(
    tmp_path: Path,
) -> None:
    urls = {"ENGINES__MAIN__URLS": "{0}", "ENGINES__SECOND__URLS": "{1}"}
    with two(tmp_path, TWO_MODELS, models=("local", "org/other"), **urls) as site:
        site.engines[1].kill()
        wait(lambda: site.ready(0), "the first engine", 20)
        wait(lambda: not site.replicas("second")[site.engines[1].url]["ready"], "the look at the second", 20)
        assert site.chat()[0] == 200
        status, body, _, proxy_status = site.chat(model="other")
        assert (status, body["error"]["code"]) == (503, "engine-unavailable")
        assert "engine-unavailable" in (proxy_status or "")
        site.engines[1].start()
        wait(lambda: site.replicas("second")[site.engines[1].url]["ready"], "the second engine", 20)
        assert site.chat(model="other")[0] == 200


def test_an_engine_that_takes_connections_and_says_nothing_is_taken_out(tmp_path: Path) -> None:
    """Stopped by SIGSTOP, the kernel still takes connections for it."""
    number = 0
    with two(tmp_path, DEADLINES__FIRST_BYTE="60s", ENGINES__MAIN__URLS="{0},{1}") as site:
        wait(lambda: site.ready(0) and site.ready(1), "both replicas", 20)
        process = site.engines[number].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            wait(lambda: not site.ready(number), "its end", 40)
            assert "engine-timeout" in site.replicas()[site.engines[number].url]["state"]
            for _ in range(5):
                assert site.chat(messages=[{"role": "user", "content": str(_)}])[0] == 200
        finally:
            process.send_signal(signal.SIGCONT)
        wait(lambda: site.ready(number), "its return", 20)


def test_reloads_under_load_lose_nothing(tmp_path: Path) -> None:
    with two(tmp_path) as site:
        wait(lambda: site.ready(0) and site.ready(1), "both replicas", 20)
        file = tmp_path / "policies" / "demo.yaml"
        text = file.read_text("utf-8")
        stop = threading.Event()

        def ask_on(number: int) -> tuple[int, int]:
            asked = served = 0
            while not stop.is_set():
                asked += 1
                served += site.chat(messages=[{"role": "user", "content": f"{number} {asked}"}])[0] == 200
            return asked, served

        with ThreadPoolExecutor(4) as pool:
            loads = [pool.submit(ask_on, number) for number in range(4)]
            for number in range(3):
                reloads = site.log().count("policies reloaded")
                file.write_text(text.replace("1MiB", f"{number + 2}MiB"), "utf-8")
                site.process.send_signal(signal.SIGHUP)
                wait(lambda: site.log().count("policies reloaded") > reloads, "a reload", 10)  # noqa: B023  (in this turn)
                asked = len(site.engines[0].asked) + len(site.engines[1].asked)
                wait(lambda: sum(len(engine.asked) for engine in site.engines) > asked + 8, "more load", 10)  # noqa: B023  (as above)
            stop.set()
            counts = [load.result() for load in loads]
        assert all(asked == served > 0 for asked, served in counts), counts
