from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from gateway.simulator.engine import GUARDED
from gateway.simulator.routes import ALWAYS, DEV_MODE
from tests.e2e.raw_http import request
from tests.simulator.conftest import KEY, Asking

# Extracted from a real vLLM 0.32.0: path, methods, whether --api-key guards it, whether development mode adds it.
ROWS = orjson.loads(Path(__file__).with_name("routes-0.32.0.json").read_bytes())
HTTP = [row for row in ROWS if row["kind"] == "http"]
BODIES = {"/v1/chat/completions": b'{"messages":[{"role":"user","content":"hi"}]}'}


def test_the_table_has_the_routes_of_the_real_server_and_no_other() -> None:
    assert len(ROWS) == 83
    assert {row["path"] for row in ROWS if row["kind"] != "http"} == {"/metrics", "/static", "/v1/realtime"}
    assert sorted((" ".join(row["methods"]), row["path"]) for row in HTTP) == sorted(
        (methods, path) for methods, path, _ in (*ALWAYS, *DEV_MODE)
    )
    assert {row["path"] for row in HTTP if row["dev_mode"]} == {path for _, path, _ in DEV_MODE}


def test_the_key_guards_what_it_guards_there() -> None:
    assert [row["path"] for row in ROWS if row["guarded"] is not row["path"].startswith(GUARDED)] == []


@pytest.mark.parametrize("row", HTTP, ids=lambda row: f"{row['methods'][0]} {row['path']}")
async def test_every_route_answers_and_asks_for_the_key_where_the_real_one_does(
    asking: Asking, row: dict[str, object]
) -> None:
    path = str(row["path"]).replace("{", "").replace("}", "")
    method = str(row["methods"][0])  # type: ignore[index]  # JSON
    body = BODIES.get(path, b"{}") if method == "POST" else None
    fields = {"Content-Type": "application/json"}
    without = await asking.raw(request(path, "h", method=method, headers=fields, body=body))
    assert (without.status == 401) is row["guarded"]
    fields["Authorization"] = f"Bearer {KEY}"
    keyed = await asking.raw(request(path, "h", method=method, headers=fields, body=body))
    assert keyed.status not in {401, 405, 307}
    assert keyed.body != b'{"detail":"Not Found"}'
