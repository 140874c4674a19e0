from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.inquiry import Reply
from gateway.review.diagnosis import Verdict
from gateway.review.engine_round import engine_round
from tests.policy.planes import MODELS, plane
from tests.review.patients import (
    KEYLESS,
    METRICS,
    REFUSED,
    SILENT,
    Answers,
    Model,
    Told,
    chat,
    engine,
    reply,
    surroundings,
)

CHAT = "POST /v1/chat/completions"


async def round_of(main: Answers, *replicas: Answers, **changes: object) -> tuple[Told, frozenset[str]]:
    """Look at an engine named main, of one replica or several, and nothing else."""
    only = replace(plane(), models={"local": MODELS["local"]})
    told = Told()
    site = surroundings(planes=[only], engines={"main": engine(main, *replicas)}, **changes)
    return told, await engine_round(site, told)


async def test_layers_are_looked_at_in_order_and_a_sound_engine_is_told_as_one() -> None:
    told, broken = await round_of(Model("local"))
    assert told.lines == [
        "ok engine: main at http://127.0.0.1:8000: answers, and /health says 200",
        "ok engine API: main at http://127.0.0.1:8000: vLLM 0.32.0 serves local (context 8192)",
        "ok model: local on main at http://127.0.0.1:8000: answered in 0 ms",
        (
            "ok model: local on main at http://127.0.0.1:8000: /v1/chat/completions does not think: enable_thinking is "
            "heeded (20 prompt tokens, 14 with it on)"
        ),
        "ok GPU: main at http://127.0.0.1:8000: 2 running, 0 waiting, KV cache 25% full",
        "not tried GPU: : there is no nvidia-smi on this host, so the engines' own numbers are all",
    ]
    assert broken == frozenset()


async def test_all_replicas_have_one_layer_looked_at_before_the_next() -> None:
    told, _ = await round_of(Model("local"), Model("local"))
    layers = [line.rpartition(" ")[2] for line in told.short]
    assert layers == sorted(layers, key=["engine", "API", "model", "GPU"].index)


async def test_an_engine_that_is_not_there_is_asked_nothing_more() -> None:
    down = Answers({"GET /health": REFUSED})
    told, broken = await round_of(down)
    assert down.targets == ["GET /health"]
    assert told.short[:4] == ["broken engine", "not tried engine API", "not tried model", "not tried GPU"]
    assert told.findings[3].saw == "behind the broken engine"
    assert broken == {"main"}


async def test_an_engine_that_refuses_our_key_is_asked_no_model() -> None:
    refusing = Model("local", **{"GET /v1/models": Reply(401)})
    told, broken = await round_of(refusing)
    assert told.short[:4] == ["ok engine", "broken engine API", "not tried model", "not tried GPU"]
    assert CHAT not in refusing.targets
    assert broken == {"main"}


async def test_of_a_missing_model_the_others_are_tried_all_the_same() -> None:
    models = {alias: MODELS[alias] for alias in ("local", "twice")}
    told = Told()
    site = surroundings(planes=[replace(plane(), models=models)], engines={"main": engine(Model("local"))})
    assert await engine_round(site, told) == {"main"}
    assert told.short.count("broken engine API") == 1
    assert "not tried model: twice on main at http://127.0.0.1:8000: this replica does not serve it" in told.lines
    assert "ok model" in told.short


async def test_a_model_that_another_replica_serves_is_missed_by_none() -> None:
    told, broken = await round_of(Model("local"), Model("other"))
    assert [one.verdict for one in told.findings if "does not serve 'local'" in one.saw] == [Verdict.WARNING]
    assert broken == frozenset()


async def test_a_replica_that_hangs_is_asked_about_no_other_model() -> None:
    models = {alias: MODELS[alias] for alias in ("local", "twice")}
    hanging = Model("local", "twice", **{CHAT: SILENT})
    told = Told()
    site = surroundings(planes=[replace(plane(), models=models)], engines={"main": engine(hanging)})
    assert await engine_round(site, told) == {"main"}
    assert hanging.targets.count(CHAT) == 1
    assert told.short.count("broken model") == 1
    assert "another model of this replica hangs" in [one.saw for one in told.findings]
    assert "ok GPU" in told.short


async def test_a_model_that_refuses_the_question_is_tried_for_thought_no_more() -> None:
    refusing = Model("local", **{CHAT: Reply(400)})
    told, _ = await round_of(refusing)
    assert refusing.targets.count(CHAT) == 1
    assert "warning model" in told.short


async def test_an_engine_that_sleeps_is_not_asked_for_a_token() -> None:
    asleep = Model("local", **{"GET /metrics": Reply(200, {}, METRICS.replace(b'"awake"} 1.0', b'"awake"} 0.0'))})
    told, broken = await round_of(asleep)
    assert CHAT not in asleep.targets
    assert "broken model" in told.short
    assert broken == {"main"}


async def test_a_question_that_fails_is_not_asked_with_the_switch_on() -> None:
    class Failing(Model):
        async def __call__(self, method: str, target: str, *, within_s: float, body: bytes = b"") -> Reply:
            given = await super().__call__(method, target, within_s=within_s, body=body)
            return Reply(500) if self.targets.count(CHAT) > 1 and target == "/v1/chat/completions" else given

    failing = Failing("local")
    told, _ = await round_of(failing)
    assert failing.targets.count(CHAT) == 2
    assert any("could not be tried (500: )" in one.saw for one in told.findings)


async def test_models_have_their_own_patience() -> None:
    model = Model("local")
    await round_of(model, look_s=1.0, within_s=7.0)
    waits = {what: within_s for what, _, within_s in model.asked}
    assert (waits["GET /health"], waits[CHAT]) == (1.0, 7.0)


async def test_other_addresses_of_this_host_and_networks_are_looked_at() -> None:
    only = replace(plane(), models={"local": MODELS["local"]})
    elsewhere = {"10.0.0.5:8000": Answers({"GET /version": reply({"version": "0.32.0"})})}
    told = Told()
    beside = engine(Model("local"), elsewhere=elsewhere)
    await engine_round(surroundings(planes=[only], engines={"main": beside}), told)
    assert any("the same port answers on 10.0.0.5:8000" in one.saw for one in told.findings)
    told = Told()
    far = engine(Model("local"), loopback=False)
    await engine_round(surroundings(planes=[only], engines={"main": far}), told)
    assert any("is reached over a network" in one.saw for one in told.findings)


@pytest.mark.parametrize("dev_mode", [True, False])
async def test_body_02_what_development_mode_tells_of_media_is_asked_for_there_alone(*, dev_mode: bool) -> None:
    opened = replace(plane(media_hosts=frozenset({"a.example"})), models={"local": MODELS["local"]})
    info = "GET /server_info?config_format=json"
    config = {"model_config": {"allowed_media_domains": ["a.example"]}}
    told_there = reply({"vllm_env": {"VLLM_MEDIA_URL_ALLOW_REDIRECTS": False}, "vllm_config": config})
    more = {"GET /is_sleeping": reply({"is_sleeping": False}), info: told_there} if dev_mode else {}
    main = Model("local", **more)
    told = Told()
    await engine_round(surroundings(planes=[opened], engines={"main": engine(main)}), told)
    assert (info in main.targets) is dev_mode
    (found,) = [one for one in told.findings if "media" in one.saw]
    assert found.verdict is (Verdict.OK if dev_mode else Verdict.WARNING)


async def test_thought_is_told_for_the_model_that_thinks() -> None:
    told, broken = await round_of(Model("local", **{CHAT: chat(reasoning="Well")}))
    assert [one.subject for one in told.findings if "thinks although" in one.saw] == [
        "local on main at http://127.0.0.1:8000"
    ]
    assert broken == frozenset()


async def test_an_engine_without_metrics_is_told_as_one() -> None:
    told, _ = await round_of(Model("local", **{"GET /metrics": KEYLESS}))
    assert "warning GPU" in told.short
