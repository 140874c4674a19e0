"""Kept connections, large bodies, refusals and a server of limits that is far away, all at once.

Each alone is tested elsewhere; what they do to one another is not: whoever has an answer asks on while the request
before is still being settled.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from anyio.from_thread import start_blocking_portal

from tests.e2e.site import running, wait
from tests.e2e.test_chaos import places_held
from tests.valkey.late import late
from tests.valkey.stories import tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.raw_http import Answer
    from tests.e2e.site import Site
    from tests.valkey.server import Server
    from tests.valkey.stories import Asked

AWAY_S = 0.05
SEEDS, LENGTH = range(16), 12
PATIENT = {"DEADLINES__HEAD": "20s", "DEADLINES__BODY": "20s", "DEADLINES__FIRST_BYTE": "20s"}  # on a busy machine


@pytest.fixture
def far(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[Site]:
    """Run a gateway whose server is 50 ms away."""
    folder = tmp_path_factory.mktemp("far")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(late(server.port, AWAY_S)) as port,
        running(folder, LEDGER=f"redis://127.0.0.1:{port}", LEDGER_PASSWORD=server.password, **PATIENT) as site,
    ):
        yield site


def test_every_request_gets_its_own_answer_and_what_is_refused_gets_no_further(far: Site) -> None:
    def told(seed: int) -> list[tuple[Asked, Answer]]:
        return list(tell(far, seed, LENGTH))

    with ThreadPoolExecutor(len(SEEDS)) as threads:
        heard = [one for story in threads.map(told, SEEDS) for one in story]
    assert len(heard) == len(SEEDS) * LENGTH
    assert [(asked.name, answer.status) for asked, answer in heard if answer.status != asked.status] == []
    records = Counter((far.record(answer)["client_request_id"], answer.status) for _, answer in heard)
    assert records == Counter((asked.name, asked.status) for asked, _ in heard)
    bodies = "".join(seen.body for seen in far.reached())
    wrong = [asked.name for asked, _ in heard if bodies.count(f'"{asked.name} ') != asked.reaches]
    assert wrong == []
    wait(lambda: places_held(far) == 0, "the freedom of every place")
    assert "Traceback" not in far.log()
