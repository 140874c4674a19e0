"""Every API besides chat, on real sockets: what a caller sends, and what reached the engine."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.e2e.asking import forwarded, refused, unsalted
from tests.e2e.raw_http import request
from tests.e2e.site import KEYS, REAL_MODEL, running, wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.simulator.record import Recorded
    from tests.e2e.raw_http import Answer
    from tests.e2e.site import Site

KEY = KEYS["KEY-ABC"]
AUDIO = "/v1/audio/transcriptions"
MIB = 1024 * 1024
RECORDING = b"RIFF\r\n--" + bytes(range(256)) * 64
WAV = ('file"; filename="../../caller.wav"\r\nContent-Type: audio/wav', RECORDING)
MODEL = ('model"', b"whisper")
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Run a gateway that serves them all, with a place of its own for temporary files."""
    folder = tmp_path_factory.mktemp("apis")
    with running(folder, policies=("apis.yaml", "lenient.yaml")) as one:
        yield one


@pytest.fixture(scope="module")
def sdk(site: Site) -> Iterator[openai.OpenAI]:
    """Give OpenAI's SDK, unchanged but for its base URL and key."""
    with openai.OpenAI(base_url=f"http://{site.host}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def post(site: Site, target: str, body: object) -> bytes:
    return site.request(target, token=KEY, body=body)


def form(
    site: Site, *parts: tuple[str, bytes], target: str = AUDIO, content_type: str = "", end: bytes = b"--b--\r\n"
) -> bytes:
    """Write a form; each part is the rest of its Content-Disposition, with further lines, and its content."""
    body = b"".join(
        b'--b\r\nContent-Disposition: form-data; name="%b\r\n\r\n%b\r\n' % (name.encode(), content)
        for name, content in parts
    )
    fields = {"Authorization": f"Bearer {KEY}", "Content-Type": content_type or "multipart/form-data; boundary=b"}
    return request(target, site.host, method="POST", headers=fields, body=body + end)


def parts_of(seen: Recorded) -> tuple[dict[str, str], str, str]:
    """Take the gateway's form apart: its fields, the head of its file, and the content of it (latin-1)."""
    (content_type,) = seen.header("content-type")
    boundary = content_type.removeprefix("multipart/form-data; boundary=")
    assert len(boundary) == 32
    first, *rest = seen.body.split(f"--{boundary}\r\n")
    assert first == ""
    assert seen.header("content-length") == [str(len(seen.body))]
    last = rest.pop()
    assert last.endswith(f"\r\n--{boundary}--\r\n")
    head, _, content = last.removesuffix(f"\r\n--{boundary}--\r\n").partition("\r\n\r\n")
    fields: dict[str, str] = {}
    for one in rest:
        name, _, text = one.removesuffix("\r\n").partition("\r\n\r\n")
        name = name.removeprefix('Content-Disposition: form-data; name="').removesuffix('"')
        fields[name] = f"{fields[name]} {text}" if name in fields else text
    return fields, head, content


# JSON


def test_texts_are_embedded_and_conversations_are_not(site: Site, sdk: openai.OpenAI) -> None:
    before = len(site.reached())
    answer = sdk.embeddings.create(model="embed", input=["a", "b"], user="x", dimensions=4)
    assert [len(one.embedding) for one in answer.data] == [4, 4]
    (seen,) = site.reached()[before:]
    assert unsalted(seen.json) == {
        "model": REAL_MODEL,
        "input": ["a", "b"],
        "dimensions": 4,
        "encoding_format": "base64",
    }
    for body in (
        {"messages": [{"role": "user", "content": "hi"}]},
        {"input": "a", "messages": [[{"role": "user", "content": "hi"}]]},
        {"input": "a", "cache_salt": "of another"},
        {"input": "a", "late_chunking_params": {}},
    ):
        refused(site, post(site, "/v1/embeddings", body), 400, "parameter-not-accepted")
    for given in ([{"role": "user", "content": "hi"}], [[{"role": "user", "content": "hi"}]]):
        refused(site, post(site, "/v1/embeddings", {"input": given}), 400, "parameter-invalid")
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.embeddings.create(model="embed", input=["a", "b", "c"])
    assert (caught.value.code, caught.value.param) == ("parameter-over-cap", "input")


def test_documents_are_ranked_and_counted(site: Site) -> None:
    body = {"query": "red fox", "documents": ["a dog", {"content": [PICTURE]}, "x " * 4000 + "fox"], "user": "x"}
    answer = site.ask(post(site, "/v1/rerank", body))
    assert answer.status == 200
    assert next(one["index"] for one in answer.json["results"]) == 2
    seen = site.reached()[-1]
    assert (seen.target, unsalted(seen.json)) == (
        "/v1/rerank",
        {"model": REAL_MODEL, "query": "red fox", "documents": body["documents"]},
    )
    assert site.record(answer)["usage"]["prompt"] == answer.json["usage"]["prompt_tokens"] > 4000


@pytest.mark.parametrize(
    "body, code, param",
    [
        ({"query": "a"}, "parameter-invalid", "documents"),
        ({"query": "a", "documents": ["a"] * 4}, "parameter-over-cap", "documents"),
        ({"query": "a" * 101, "documents": ["a"]}, "parameter-over-cap", "query"),
        (
            {"query": "a", "documents": ["a"], "chat_template_kwargs": {}},
            "parameter-not-accepted",
            "chat_template_kwargs",
        ),
        (
            {"query": "a", "documents": ["a"], "mm_processor_kwargs": {}},
            "parameter-not-accepted",
            "mm_processor_kwargs",
        ),
        ({"model": "m", "query": "a", "documents": ["a"]}, "model-not-permitted", "model"),
        (
            {"query": "a", "documents": {"content": [{**PICTURE, "image_url": {"url": "http://169.254.169.254/"}}]}},
            "parameter-invalid",
            "documents.content[0].image_url.url",
        ),
    ],
)
def test_a_ranking_that_is_refused_is_refused_by_name(site: Site, body: object, code: str, param: str) -> None:
    status = 404 if code == "model-not-permitted" else 400
    answer = refused(site, post(site, "/v1/rerank", body), status, code)
    assert answer.json["error"]["param"] == param


def test_one_pair_is_scored_and_nothing_besides(site: Site) -> None:
    seen = forwarded(site, post(site, "/v1/score", {"queries": "a", "documents": ["a", "b"]}))
    assert unsalted(seen.json) == {"model": REAL_MODEL, "queries": "a", "documents": ["a", "b"]}
    answer = site.ask(post(site, "/v1/score", {"text_1": "a", "text_2": "a b"}))
    assert site.record(answer)["usage"]["prompt"] == 7
    refused(site, post(site, "/v1/score", {"text_1": "a"}), 400, "parameter-invalid")
    refused(site, post(site, "/v1/score", {"text_1": "a", "documents": "b"}), 400, "parameter-invalid")
    refused(site, post(site, "/v1/score", {"text_1": "a", "text_2": "b" * 21}), 400, "parameter-over-cap")


def test_the_tokenizer_is_asked_only_where_a_policy_names_it(site: Site) -> None:
    chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    answer = site.ask(post(site, "/tokenize", chat))
    assert answer.json["count"] == 20
    assert site.record(answer)["usage"] is None
    thinking = {"chat_template_kwargs": {"enable_thinking": True}}
    assert site.ask(post(site, "/tokenize", {**chat, **thinking})).json["count"] == 14
    assert forwarded(site, post(site, "/tokenize", {"model": "m", "prompt": "a"})).json == {
        "model": REAL_MODEL,
        "prompt": "a",
    }
    assert forwarded(site, post(site, "/detokenize", {"model": "m", "tokens": [1, 2]})).target == "/detokenize"
    refused(site, post(site, "/tokenize", {**chat, "chat_template": "{{ x }}"}), 400, "parameter-not-accepted")
    refused(site, post(site, "/tokenize", {**chat, "prompt": "a"}), 400, "parameter-invalid")
    refused(site, post(site, "/tokenize", {"model": "m"}), 400, "parameter-invalid")
    refused(site, post(site, "/tokenize", {"model": "embed", "prompt": "a"}), 404, "model-not-permitted")
    refused(site, post(site, "/detokenize", {"model": "m", "tokens": [1] * 9}), 400, "parameter-over-cap")
    refused(site, post(site, "/v1/tokenize", chat))


# Forms


def test_the_sdk_has_a_recording_transcribed(site: Site, sdk: openai.OpenAI) -> None:
    answer = sdk.audio.transcriptions.create(
        model="whisper",
        file=("secret name.wav", io.BytesIO(RECORDING)),
        language="de",
        prompt="Grüße",
        response_format="verbose_json",
        temperature=0.5,
        timestamp_granularities=["word", "segment"],
        chunking_strategy="auto",
    )
    assert answer.text == "word0 word1 word2 word3"
    fields, head, content = parts_of(site.reached()[-1])
    assert fields == {
        "model": REAL_MODEL,
        "language": "en",
        "prompt": "Grüße".encode().decode("latin-1"),
        "response_format": "verbose_json",
        "temperature": "0.5",
        "timestamp_granularities[]": "word segment",
        "max_completion_tokens": "448",
    }
    assert head == 'Content-Disposition: form-data; name="file"; filename="audio"\r\nContent-Type: audio/x-wav'
    assert content.encode("latin-1") == RECORDING
    assert "secret" not in site.reached()[-1].body


def test_the_sdk_has_a_recording_transcribed_while_it_listens(site: Site, sdk: openai.OpenAI) -> None:
    raw = sdk.audio.transcriptions.with_raw_response.create(
        model="whisper", file=("a.mp3", RECORDING), stream=True, extra_body={"stream_include_usage": True}
    )
    chunks: list[Any] = list(raw.parse())
    assert "".join(one.choices[0]["delta"]["content"] for one in chunks if one.choices) == " word0 word1 word2 word3"
    fields, _, _ = parts_of(site.reached()[-1])
    assert fields["stream"] == fields["stream_include_usage"] == "true"
    (record,) = site.records(raw.headers["x-request-id"])
    assert record["usage"]["completion"] == 4


def test_the_sdk_has_a_recording_translated(site: Site, sdk: openai.OpenAI) -> None:
    with pytest.deprecated_call():  # by OpenAI, not by vLLM
        answer = sdk.audio.translations.create(
            model="whisper", file=("a.wav", RECORDING), temperature=0.2, extra_body={"vllm_xargs": "x"}
        )
    assert answer.text == "word0 word1 word2 word3"
    fields, _, _ = parts_of(site.reached()[-1])
    assert fields == {"model": REAL_MODEL, "max_completion_tokens": "448"}


def test_what_is_dropped_from_a_form_is_named(site: Site) -> None:
    extra = ('x[y]"', b"1"), ('temperature"', b"0.2")
    answer = site.ask(form(site, WAV, MODEL, *extra, target="/v1/audio/translations"))
    assert answer.value("x-gateway-changes") == "drop x?y?, drop temperature"


def test_the_file_may_come_before_the_fields(site: Site) -> None:
    for trickle in (False, True):
        before = len(site.reached())
        assert site.ask(form(site, WAV, MODEL), trickle=trickle).status == 200
        (seen,) = site.reached()[before:]
        fields, _, content = parts_of(seen)
        assert fields["model"] == REAL_MODEL
        assert content.encode("latin-1") == RECORDING


def test_a_form_may_come_in_chunks_without_a_length(site: Site) -> None:
    whole = form(site, WAV, MODEL)
    head, _, body = whole.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:9], body[9:5000], body[5000:]))
    data = b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", b""]) + chunks + b"0\r\n\r\n"
    assert parts_of(forwarded(site, data))[2].encode("latin-1") == RECORDING


def test_a_large_recording_is_not_held_in_memory(site: Site) -> None:
    large = (WAV[0], b"\0" * (24 * MIB))
    assert site.ask(form(site, WAV, MODEL)).status == 200
    at_rest = peak = site.memory()
    data = form(site, large, MODEL)
    with site.connect(60) as connection:
        for at in range(0, len(data), MIB):
            connection.send(data[at : at + MIB])
            peak = max(peak, site.memory())
        assert connection.answer("POST").status == 200
    peak = max(peak, site.memory())
    assert peak - at_rest < 8 * MIB
    assert parts_of(site.reached()[-1])[2] == "\0" * (24 * MIB)


def test_a_form_over_its_limit_is_refused_while_it_comes(site: Site) -> None:
    answer = refused(
        site, form(site, (WAV[0], b"\0" * (2 * MIB)), MODEL, target="/v1/audio/translations"), 413, "body-too-large"
    )
    assert answer.closes


BAD_PARTS = [
    ([MODEL], "parameter-invalid", "file"),
    ([(WAV[0], b""), MODEL], "parameter-invalid", "file"),
    ([WAV, WAV, MODEL], "body-malformed", "file"),
    ([WAV, MODEL, MODEL], "body-malformed", "model"),
    ([('file"; filename="a"\r\nContent-Type: text/html', b"<p>"), MODEL], "parameter-invalid", "file"),
    (
        [('file"; filename="a"\r\nContent-Type: multipart/mixed; boundary=c', b"--c--"), MODEL],
        "parameter-invalid",
        "file",
    ),
    ([('file"', RECORDING), MODEL], "parameter-invalid", "file"),
    ([WAV, ('model"; filename="m"', b"whisper")], "parameter-invalid", "model"),
    ([WAV, MODEL, ('extra"; filename="x"', b"x")], "parameter-not-accepted", "extra"),
    ([WAV, MODEL, ('vllm_xargs"', b"{}")], "parameter-not-accepted", "vllm_xargs"),
    ([WAV, MODEL, ('use_beam_search"', b"true")], "parameter-not-accepted", "use_beam_search"),
    ([WAV, MODEL, ('timestamp_granularities"', b"word")], "parameter-not-accepted", "timestamp_granularities"),
    ([WAV, MODEL, ("timestamp_granularities[]", b"word")], "body-malformed", None),
    ([WAV, MODEL, ('timestamp_granularities[]"', b"minute")], "parameter-invalid", "timestamp_granularities[0]"),
    ([WAV, MODEL, ('temperature"', b"warm")], "parameter-invalid", "temperature"),
    ([WAV, MODEL, ('temperature"', b"nan")], "parameter-invalid", "temperature"),
    ([WAV, MODEL, ('stream"', b"1")], "parameter-invalid", "stream"),
    ([WAV, MODEL, ('stream_include_usage"', b"true")], "parameter-invalid", "stream_include_usage"),
    ([WAV, MODEL, ('prompt"', b"x" * 101)], "parameter-over-cap", "prompt"),
    ([WAV, MODEL, ('prompt"', b"<|im_start|>")], "parameter-invalid", "prompt"),
    ([WAV, MODEL, ('prompt"', b"\xff")], "parameter-invalid", "prompt"),
    ([WAV, MODEL, ('prompt"\r\nContent-Type: application/json', b"{}")], "parameter-invalid", "prompt"),
    ([WAV, ('model"', b"nope")], "model-not-permitted", "model"),
    ([WAV, ('model"\r\nX-Injected: 1', b"whisper")], "body-malformed", None),
    ([WAV, ('model"\nX-Injected: 1', b"whisper")], "body-malformed", None),
    ([WAV, ('model"; name="file"', b"whisper")], "body-malformed", None),
    ([('file"; filename="a"; filename*=utf-8\'\'b', RECORDING), MODEL], "body-malformed", None),
    ([('file"; filename="' + "x" * 5000 + '"', RECORDING), MODEL], "body-malformed", None),
    ([WAV, MODEL, *[('timestamp_granularities[]"', b"word")] * 70], "body-malformed", None),
]


@pytest.mark.parametrize("trickle", [False, True])
@pytest.mark.parametrize("parts, code, param", BAD_PARTS)
def test_a_bad_part_is_refused_and_nothing_reaches_the_engine(
    site: Site, parts: list[tuple[str, bytes]], code: str, param: str | None, *, trickle: bool
) -> None:
    before = len(site.reached())
    answer = site.ask(form(site, *parts), trickle=trickle)
    assert (answer.status, answer.code) == (404 if code == "model-not-permitted" else 400, code)
    assert answer.json["error"]["param"] == param
    assert len(site.reached()) == before


@pytest.mark.parametrize(
    "content_type, status",
    [
        ("multipart/form-data", 415),
        ("multipart/form-data; boundary=", 415),
        ("multipart/form-data; boundary=c", 400),
        ("multipart/form-data; boundary=b; boundary=c", 415),
        ("multipart/mixed; boundary=b", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/json", 415),
        ('multipart/form-data; !="' + "\\" * 40, 415),
    ],
)
def test_a_form_says_what_it_is(site: Site, content_type: str, status: int) -> None:
    code = "media-type-not-accepted" if status == 415 else "body-malformed"
    refused(site, form(site, WAV, MODEL, content_type=content_type), status, code)


@pytest.mark.parametrize("end", [b"", b"--b", b"--b-", b"--c--"])
def test_a_form_without_its_end_never_reaches_the_engine(site: Site, end: bytes) -> None:
    refused(site, form(site, WAV, MODEL, end=end), 400, "body-malformed")


def test_a_caller_that_leaves_in_the_middle_of_its_file_reaches_nobody(site: Site) -> None:
    before = len(site.reached())
    with site.connect() as connection:
        connection.send(form(site, (WAV[0], b"\0" * MIB), MODEL)[: MIB // 2])
        wait(site.nameless_files, "a temporary file")
    wait(lambda: not site.nameless_files(), "the end of the temporary file")
    assert site.ask(form(site, WAV, MODEL)).status == 200
    assert len(site.reached()) == before + 1


def test_no_temporary_file_outlives_its_request(site: Site) -> None:
    large = (WAV[0], b"\0" * MIB)
    assert site.ask(form(site, large, MODEL)).status == 200
    refused(site, form(site, large, ('model"', b"nope")), 404, "model-not-permitted")
    wait(lambda: not site.nameless_files(), "the end of the temporary files")


def test_no_json_is_taken_for_a_form_and_no_form_for_json(site: Site) -> None:
    refused(site, post(site, AUDIO, {"model": "whisper", "file": "audio/wav"}), 415, "media-type-not-accepted")
    refused(site, form(site, WAV, MODEL, target="/v1/rerank"), 415, "media-type-not-accepted")


def test_the_engines_refusal_of_a_form_is_passed_on(site: Site) -> None:
    site.engine.state.models = ("another",)
    try:
        answer: Answer = site.ask(form(site, WAV, MODEL))
    finally:
        site.engine.state.models = (REAL_MODEL,)
    assert (answer.status, answer.code) == (404, "engine-error")


# What stays closed


def test_the_realtime_api_is_closed_and_says_so(site: Site) -> None:
    fields = {
        "Authorization": f"Bearer {KEY}",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version": "13",
    }
    data = request("/v1/realtime?model=m", site.host, method="GET", headers=fields)
    answer = refused(site, data, 400, "headers-malformed")
    assert "WebSocket, and with it the realtime API" in answer.json["error"]["message"]
    plain = request("/v1/realtime", site.host, method="GET", headers={"Authorization": f"Bearer {KEY}"})
    assert not refused(site, plain).closes
