"""Room 3's last step and room 6's: a request is counted and gets a place, and pays for what it used when it leaves.

Enters: a ``Grant``, then the request that goes to the engine, then what became of it. Leaves: a ``Passage``, or the
``Refusal`` for a limit that was reached. It knows the order in which limits are asked and how a broken answer is
charged; the numbers are the ledger's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gateway.dialects.call import Usage
from gateway.dialects.media import payloads
from gateway.dialects.registry import FACTS
from gateway.limits.charge import MOST, prompt_tokens
from gateway.limits.fields import LimitFields
from gateway.limits.ledger import Holder, Lease, Refused
from gateway.ports import Ending
from gateway.reasons import Reason
from gateway.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from gateway.dialects.registry import Facts
    from gateway.identity.principal import Principal
    from gateway.limits.ledger import Ledger
    from gateway.limits.limit import Limit
    from gateway.policy.decision import Grant
    from gateway.policy.model import Client, Model, Plane
    from gateway.ports import Delivery, UpstreamRequest


class Turnstile:
    """The limits of one plane, as its policy stands now."""

    def __init__(self, plane: Plane, ledger: Ledger) -> None:
        self._plane = plane.name
        self._holders = {name: Holder(plane.name, name) for name in plane.clients}
        self._ledger = ledger
        self._fields = {client.name: LimitFields(client.limit) for client in plane.clients.values()}

    async def count(self, client: Client, principal: Principal) -> None:
        """Count a request of a client that is refused already. Raises ``Unavailable(LEDGER_UNAVAILABLE)``."""
        counting = self._ledger.count(self._holder(client, principal), client.limit)
        if counting is not None:
            await counting

    def enter(self, grant: Grant) -> Passage | Awaitable[Passage | Refusal]:
        """Count a request and give it a place: at once, where that can be. Raises ``Unavailable``, for the ledger."""
        client = grant.client
        holder = self._holders[client.name]
        if client.each_subject:
            holder = self._holder(client, grant.principal)
        lease = self._ledger.enter(holder, client.limit)
        return self._passage(grant, lease) if isinstance(lease, Lease) else self._entered(grant, lease)

    async def _entered(self, grant: Grant, lease: Refused | Awaitable[Lease | Refused]) -> Passage | Refusal:
        """Wait for the ledger, and word its refusal."""
        answer = lease if isinstance(lease, Refused) else await lease
        if isinstance(answer, Refused):
            return _refusal(answer, grant.client.limit, self._fields[grant.client.name])
        return self._passage(grant, answer)

    def _passage(self, grant: Grant, lease: Lease) -> Passage:
        return Passage(self._ledger, lease, self._fields[grant.client.name], FACTS[grant.endpoint.dialect])

    def _holder(self, client: Client, principal: Principal) -> Holder:
        """Say whose limits hold: the client's, or those of one person, by what was verified and nothing else."""
        if not client.each_subject:
            return self._holders[client.name]
        return Holder(self._plane, client.name, principal.subject or principal.id)


class Passage:
    """One request on its way through; whoever holds it calls ``leave`` once, whatever happened.

    ``delivery``: what became of the request at its engine, once that is known. ``usage``: what the request was charged
    for, once it has left, or what its engine counted where no tokens are charged (recordings); ``None`` for nothing.
    """

    __slots__ = ("_facts", "_fields", "_lease", "_ledger", "_most_tokens", "_prompt", "_request", "delivery", "usage")

    def __init__(self, ledger: Ledger, lease: Lease, fields: LimitFields, facts: Facts) -> None:
        self._ledger = ledger
        self._lease = lease
        self._fields = fields
        self._facts = facts
        self._prompt = self._most_tokens = 0
        self._request: UpstreamRequest | None = None
        self.delivery: Delivery | None = None
        self.usage: Usage | None = None

    @property
    def lines(self) -> list[bytes]:
        """The header lines that say what is left."""
        return self._fields.of_lease(self._lease).splitlines(keepends=True)

    def stamped(self, refusal: Refusal | None) -> Refusal | None:
        """Say what is left in a refusal for another reason, too."""
        return refusal if refusal is None or refusal.fields else replace(refusal, fields=tuple(self.lines))

    def reserve(
        self, request: UpstreamRequest, fields: Mapping[str, Any], most_tokens: int, model: Model
    ) -> Awaitable[Refusal | None] | None:
        """Count the most that a call can use, by its client's limits and its model's, and have its answer say so.

        ``None``: it was counted at once. From here on the call goes to its engine, and may cost something. ``fields``:
        what the caller said; ``most_tokens``: of all answers together. Raises ``Unavailable(LEDGER_UNAVAILABLE)``.
        """
        lease, most, limit, shared = self._lease, 0, self._lease.limit, model.limit
        if self._facts.counts_tokens:
            media, payload = payloads(request.body, fields)
            self._prompt = prompt = prompt_tokens(len(request.body) - payload, media)
            self._most_tokens = most_tokens
            tokens = prompt + most_tokens
            most = tokens if tokens < MOST else MOST  # noqa: FURB136  (a call costs more)
        if shared is not None or (most and (limit.tokens_per_minute is not None or limit.tokens_per_day is not None)):
            share = (Holder.of_model(lease.holder.plane, model.alias), shared) if shared is not None else None
            refused = self._ledger.reserve(lease, most, share)
            if refused is not None:
                return self._reserved(request, refused, model)
        self._go_on(request)
        return None

    async def _reserved(
        self, request: UpstreamRequest, refused: Refused | Awaitable[Refused | None], model: Model
    ) -> Refusal | None:
        """Wait for the ledger, and word its refusal."""
        answer = refused if isinstance(refused, Refused) else await refused
        if answer is not None and answer.shared and model.limit is not None:
            return _refusal(answer, model.limit, None, f" of the model `{model.alias}` for all its callers")
        if answer is not None:
            return _refusal(answer, self._lease.limit, self._fields)
        self._go_on(request)
        return None

    def _go_on(self, request: UpstreamRequest) -> None:
        """Let the call go to its engine: from here on it may cost something, and its answer says what is left."""
        self._request = request
        request.lines.append(self._fields.of_lease(self._lease))

    def leave(self) -> Awaitable[None] | None:
        """Free the place at once and pay; what is to be awaited, where the ledger is elsewhere."""
        request, tokens = self._request, 0
        if request is not None:
            if self._facts.counts_tokens:
                self.usage = used = self._used(request)
                if used is not None:
                    tokens = (used.prompt or 0) + (used.completion or 0)
            else:
                self.usage = request.meter.usage
        most = tokens if tokens < MOST else MOST  # noqa: FURB136  (as above)
        return self._ledger.settle(self._lease, most)

    def _used(self, request: UpstreamRequest) -> Usage | None:
        """Say what a call is charged for: by the engine's count, or by what was seen of a broken answer; never nothing.

        Where nothing was seen of an answer that an engine may have worked on, an event stream costs its prompt, since
        its first token would have been seen, and a plain answer the most that it could have had: so does any that came
        whole and says no number, as one in a coding does. A call that the engine refused or could not answer costs
        nothing.
        """
        told, delivery, produced = request.meter.usage or _UNTOLD, self.delivery, request.meter.produced
        whole = delivery is not None and delivery.whole
        if whole and told.prompt is not None and (told.completion is not None or not self._facts.generates):
            return told
        if told is _UNTOLD and not produced and (delivery is None or _free(delivery)):
            return None
        completion = max(told.completion or 0, produced)
        if told.completion is None and not produced and (whole or (told is _UNTOLD and not request.stream)):
            completion = self._most_tokens
        prompt = self._prompt if told.prompt is None else told.prompt
        return Usage(prompt, completion, told.reasoning, estimated=True)


_UNTOLD = Usage()


def _free(delivery: Delivery) -> bool:
    """Tell whether an answer of which nothing was counted or seen costs nothing: its engine refused it, or failed."""
    if not delivery.sent or delivery.ending is Ending.ANSWERED:
        return True
    failed = delivery.ending is Ending.FAILED or (delivery.ending is Ending.DELIVERED and not delivery.whole)
    return failed and delivery.reason is not Reason.ENGINE_TIMEOUT


def _refusal(refused: Refused, limit: Limit, fields: LimitFields | None, whose: str = "") -> Refusal:
    """Word a refusal; without ``fields``, the numbers are not the caller's to see."""
    lines = fields.of_refusal(refused).splitlines(keepends=True) if fields is not None else ()
    sentence = _sentence(refused, limit, f"the limit{whose} is")
    return Refusal.of_limit(refused.reason, sentence, retry_after=refused.retry_after, fields=lines)


def _sentence(refused: Refused, limit: Limit, beginning: str) -> str:
    if refused.reason is Reason.OVER_RATE:
        return f"{beginning} {limit.requests_per_minute} in any minute; try again in {refused.retry_after} s"
    if refused.reason is Reason.OVER_CONCURRENCY:
        return f"{beginning} {limit.concurrent_requests}; try again when one of them has ended"
    named = [(limit.tokens_per_minute, "in any minute"), (limit.tokens_per_day, "in a UTC day")]
    limits = " and ".join(f"{number} {span}" for number, span in named if number is not None)
    return f"{beginning} {limits}; try again in {refused.retry_after} s"
