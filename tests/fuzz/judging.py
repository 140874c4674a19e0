"""What holds for every API of JSON bodies: what is judged twice is judged alike, and counts are found or not found.

Enters: a dialect, the ways to accept its fields, and what must be true of a body that the engine gets. Leaves: two
checks that take any bytes and raise an ``AssertionError`` where they found something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects.registry import DIALECTS, FACTS
from gateway.policy.decision import Deny, Grant
from gateway.policy.judge import judge
from gateway.policy.model import Endpoint
from gateway.reasons import ANSWERS, Malformed, Reason
from gateway.wire import strict_json
from tests.policy.planes import plane, principal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.policy.model import Model, ParameterRules


class Judging:
    """One API, on a plane for each way to accept its fields."""

    def __init__(
        self,
        name: str,
        path: bytes,
        ways: Sequence[ParameterRules],
        holds: Callable[[dict[str, Any], ParameterRules, Model], None],
    ) -> None:
        self._dialect = DIALECTS[name]
        self._known = {field.partition(".")[0] for field in FACTS[name].fields}
        self._ways = ways
        self._endpoints = [Endpoint("api", "POST", path, name, parameters=rules) for rules in ways]
        self._planes = [plane(endpoints=[endpoint]) for endpoint in self._endpoints]
        self._holds = holds

    def bodies(self, data: bytes) -> None:
        """Check a body: what the engine gets of it holds what it must, and would be judged alike."""
        for number in range(len(self._planes)):
            sent, alias = self._sent(data, number)
            if sent:
                again = strict_json.loads(sent) | {"model": alias}  # the engine knows the model by another name
                assert self._sent(strict_json.dumps(again), number) == (sent, alias)

    def events(self, data: bytes) -> None:
        """Check an event of an engine: a count is a count, and looking for one never fails."""
        usage = self._dialect.usage(data)
        assert usage is None or all(count is None or count >= 0 for count in (usage.prompt, usage.completion))
        assert self._dialect.ends(data) in {True, False}

    def _sent(self, data: bytes, number: int) -> tuple[bytes, str]:
        """Give what the engine gets, and the alias of its model; nothing when it gets nothing."""
        try:
            call = self._dialect.read(data)
        except Malformed as malformed:
            assert malformed.reason is Reason.BODY_MALFORMED  # noqa: PT017
            return b"", ""
        rules, endpoint = self._planes[number], self._endpoints[number]
        verdict = judge(rules, Grant(rules.clients["acme"], endpoint, principal("acme")), call)
        if isinstance(verdict, Deny):
            assert 400 <= ANSWERS[verdict.reason].status < 500
            return b"", ""
        written = self._dialect.write(call, verdict.changes)
        body = strict_json.loads(written)
        assert verdict.model is not None
        assert body["model"] == verdict.model.served_as
        assert body.keys() <= self._known
        self._holds(body, self._ways[number], verdict.model)
        return written, verdict.model.alias
