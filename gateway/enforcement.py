"""The policy enforcement point: leads one request through the six rooms; the only module that knows their order.

Enters: an ``Inbound`` request of one plane. Leaves: exactly one answer and exactly one audit record. Each room takes
the type that the room before it made, so no step can be skipped; the first refusal ends the walk. It knows ports, never
an adapter: it has no socket, no clock and no key of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from gateway.anonymous import Anonymous, Notice
from gateway.audit import AuditRecord, Outcome, Verdict
from gateway.dialects.form_body import FormBody
from gateway.dialects.openai_models import ModelEntry, model_body, models_body
from gateway.dialects.registry import DIALECTS
from gateway.engine.choice import mark
from gateway.gatehouse import Gatehouse, Visitor, bounds
from gateway.identity import dpop
from gateway.identity.challenge import challenge
from gateway.limits.waiting_room import RANKS
from gateway.policy.admissions import Admissions
from gateway.policy.court import Court
from gateway.policy.decision import Deny
from gateway.policy.model import Endpoint
from gateway.ports import Delivery, Ending, InboundT, UpstreamRequest
from gateway.reasons import Malformed, Reason, Unavailable
from gateway.refusal import Refusal
from gateway.turnstile import Passage, Turnstile
from gateway.upload import check_announced, receive, written
from gateway.wire.field_lines import NO_FIELDS
from gateway.wire.headers import RequestHeaders, media_type_is_json
from gateway.wire.target import Target, read_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.dialects.call import Dialect
    from gateway.dialects.openai_models import ServedModel
    from gateway.identity.credential import Credential
    from gateway.policy.decision import Grant
    from gateway.policy.model import Deadlines, Plane
    from gateway.ports import Ports, Spool
    from gateway.wire.hosts import HostRule


@dataclass(slots=True)
class _Reading:
    """Room 2's work: what is asked for, and by whom or else by which credential."""

    endpoint: Endpoint
    headers: RequestHeaders
    caller: Visitor | Credential


_ALWAYS = (b"cache-control: no-store\r\n", b"x-content-type-options: nosniff\r\n")
_OK = 200
# Looked up once: a member of an Enum, named where it is used, costs as much as a call.
_PERMIT, _DELIVERED, _WELL = Verdict.PERMIT, Ending.DELIVERED, Outcome.OK


class Enforcement(Generic[InboundT]):
    """The PEP of one plane, as its policy stands now; a reload makes a new one."""

    def __init__(self, plane: Plane, hosts: HostRule, deadlines: Deadlines, ports: Ports[InboundT]) -> None:
        self.plane = plane
        self._hosts = hosts
        self._ports = ports
        self._turnstile = Turnstile(plane, ports.ledger)
        self._court = Court(plane)
        self._admissions = Admissions(plane)
        self._gatehouse = Gatehouse(plane, ports.authenticator, ports.clock, ports.proofs, bounds(ports.processes))
        endpoints = [endpoint for by_method in plane.endpoints.values() for endpoint in by_method.values()]
        self._endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self._deadlines = {endpoint.name: _resolved(endpoint.deadlines, deadlines) for endpoint in endpoints}
        self._default_dialect = DIALECTS["openai-chat"]
        self._anonymous = Anonymous(plane)
        self._plain = self._anonymous.plain_questions()  # what nearly everybody asks for
        self._pageless = self._anonymous.lines(None)

    async def serve(self, inbound: InboundT) -> None:
        """Answer one request and record it, whatever happens."""
        ports = self._ports
        begun = ports.clock.ticks()
        record = AuditRecord(ports.clock.now(), ports.new_id(), self.plane.name, self.plane.listener, self.plane.digest)
        record.peer = inbound.peer or "unix"
        record.method = inbound.method
        record.target = inbound.target
        try:
            try:
                refusal = await self._lead(inbound, record, begun)
            except Exception as error:  # noqa: BLE001  (sorted there)
                refusal = self._refusal_of(error, record)
            if refusal is not None:
                self._refuse(inbound, record, refusal)
        except BaseException:  # cancelled: the gateway stops before the answer is whole
            record.outcome = Outcome.DRAINING
            self._refuse(inbound, record, Refusal.of(Unavailable(Reason.DRAINING)))
            raise
        finally:
            record.bytes_in = inbound.bytes_in
            record.bytes_out = inbound.bytes_out
            record.total_ms = (ports.clock.ticks() - begun) * 1000
            ports.journal.note(record)

    def _refusal_of(self, error: Exception, record: AuditRecord) -> Refusal | None:
        """Turn whatever ended the walk into a refusal; ``None``: none is to be answered."""
        if isinstance(error, Malformed | Unavailable):
            return Refusal.of(error)
        if isinstance(error, ConnectionError):
            record.verdict, record.outcome = Verdict.PERMIT, Outcome.CLIENT_LEFT  # as far as it came
            return None
        self._ports.report_bug(record.id, error)  # a bug of ours: the caller gets no detail, the operator the place
        return Refusal.of(Unavailable(Reason.INTERNAL, type(error).__name__))

    async def _lead(self, inbound: InboundT, record: AuditRecord, begun: float) -> Refusal | None:
        """Walk through the rooms; give the refusal, or ``None`` when an answer is out."""
        ports = self._ports
        reading = self._read(inbound, record)
        if not isinstance(reading, _Reading):
            return await self._notify(inbound, record, reading)
        caller = reading.caller
        visitor = caller if isinstance(caller, Visitor) else await self._identified(inbound, reading.headers, caller)
        record.subject = visitor.principal.subject
        today = ports.clock.today()
        grant = self._admissions.admit(
            reading.endpoint, visitor.principal, visitor.address, today, reading.headers.known_as
        )
        if isinstance(grant, Deny):
            if grant.client is not None:
                record.client = grant.client.name
                await self._turnstile.count(grant.client, visitor.principal)
            return Refusal.of(grant)
        record.client = grant.client.name
        record.head_ms = (ports.clock.ticks() - begun) * 1000
        entered = self._turnstile.enter(grant)
        passage = entered if isinstance(entered, Passage) else await entered
        if isinstance(passage, Refusal):
            return passage
        dialect = DIALECTS[reading.endpoint.dialect]
        spool = ports.new_spool() if isinstance(dialect, FormBody) else None
        try:
            if dialect.upstream is None:
                return passage.stamped(await self._list_models(inbound, record, grant, passage.lines))
            request = await self._judge(inbound, record, reading, grant, passage, spool, today)
            if not isinstance(request, UpstreamRequest):
                return passage.stamped(request)
            del reading  # and the credential with it, for as long as the answer takes
            delivery = await ports.dispatcher.forward(request, inbound)
            passage.delivery = delivery
            return passage.stamped(self._close(record, delivery, dialect))
        except (Malformed, Unavailable) as cause:
            return passage.stamped(Refusal.of(cause))
        finally:
            if spool is not None:
                spool.close()
            leaving = passage.leave()
            record.usage = passage.usage
            if leaving is not None:
                await leaving

    async def _identified(self, inbound: InboundT, headers: RequestHeaders, credential: Credential) -> Visitor:
        """Find out who calls, where it is not known yet."""
        path = Target.parse(inbound.target).path.decode("ascii")
        asked = dpop.Asked(inbound.method, headers.host, path, inbound.certificate)
        return await self._gatehouse.enter(credential, headers, inbound.peer, asked)

    def _read(self, inbound: InboundT, record: AuditRecord) -> _Reading | Notice | Deny:
        """Room 2: syntax, then host, path, method, query, credential; a notice where no caller is needed."""
        if inbound.refusal is not None:
            raise inbound.refusal
        endpoint = self._plain.get((inbound.method, inbound.target))
        target = None if endpoint else read_target(inbound.target)
        fields, gatehouse = inbound.headers, self._gatehouse
        headers = RequestHeaders.read(
            fields, http_version=inbound.http_version, hosts=self._hosts, known=gatehouse.known_fields
        )
        inbound.headers = NO_FIELDS  # a stream may last for minutes: what nobody reads again must not last with it
        known_as = headers.known_as
        if known_as is None:
            inbound.lines = self._anonymous.lines(headers.origin)
            record.client_request_id = headers.request_id
            record.edge_ip = headers.cf_connecting_ip
            record.cf_ray = headers.cf_ray
        else:
            inbound.lines = self._pageless  # and it has none of the others
        if not self._ports.journal.ready:
            raise Unavailable(Reason.AUDIT_UNAVAILABLE)
        if endpoint is None:
            found = self._anonymous.found(inbound.method, target, headers, fields)
            if not isinstance(found, Endpoint):
                return found
            endpoint = found
        record.endpoint = endpoint.name
        if endpoint.dialect not in DIALECTS:
            return Deny(Reason.NO_SUCH_ENDPOINT, record=f"dialect {endpoint.dialect} is not served by this version")
        visitor = None if known_as is None else gatehouse.recognized(known_as, inbound.peer, record.time)
        if visitor is not None:
            record.credential = visitor.principal.kind._value_
            return _Reading(endpoint, headers, visitor)
        credential = gatehouse.read(headers, inbound.peer)
        record.credential = credential.kind._value_
        return _Reading(endpoint, headers, gatehouse.known(credential, headers, inbound.peer) or credential)

    async def _notify(self, inbound: InboundT, record: AuditRecord, notice: Notice | Deny) -> Refusal | None:
        """Answer what needs no caller, or give the refusal."""
        if isinstance(notice, Deny):
            return Refusal.of(notice)
        if notice.locked:
            await self._gatehouse.open_edge(notice.assertion)
        record.verdict, record.outcome, record.status = Verdict.PERMIT, Outcome.OK, _OK
        inbound.answer(_OK, [*_lines(record.id), *notice.lines], notice.body)
        return None

    async def _judge(
        self,
        inbound: InboundT,
        record: AuditRecord,
        reading: _Reading,
        grant: Grant,
        passage: Passage,
        spool: Spool | None,
        today: str,
    ) -> UpstreamRequest | Refusal:
        """Rooms 4 and 5: the body, only now read; the judgement; what is sent instead; the tokens that it may cost."""
        ports = self._ports
        endpoint = reading.endpoint
        dialect = DIALECTS[endpoint.dialect]
        at_most = endpoint.body_limit or 0
        if spool is not None and isinstance(dialect, FormBody):
            call = await receive(inbound, reading.headers, at_most, dialect, spool)
            begun = ports.clock.ticks()
        else:
            if not media_type_is_json(reading.headers.content_type):
                raise Malformed(Reason.MEDIA_TYPE_NOT_ACCEPTED, "this endpoint takes application/json in UTF-8")
            check_announced(reading.headers, at_most)
            body = inbound.body_at_hand(at_most)
            if body is None:
                body = await inbound.read_body(at_most)
            begun = ports.clock.ticks()
            call = dialect.read(body)
            del body  # it may hold images: from here on, what was parsed is the only copy
        salt = ports.salts.salt(self.plane.name, grant.client.name, today)
        ruled = self._court.rule(grant, call, salt)
        if isinstance(ruled, Deny):
            return Refusal.of(ruled)
        ruling, sent = ruled
        permit, record.changes = ruling.permit, ruling.words
        if permit.model is None or dialect.upstream is None:
            message = f"dialect {dialect.name} was permitted without a model"
            raise RuntimeError(message)
        record.model = permit.model.alias
        record.engine = permit.model.engine
        method, path = dialect.upstream
        request = UpstreamRequest(
            record.id,
            self.plane.name,
            permit.model.engine,
            method,
            path,
            sent,
            permit.stream,
            dialect,
            self._deadlines[endpoint.name],
            [*_lines(record.id), *ruling.lines],
            None,
            permit.model.served_as,
            mark(grant.client.name, call.fields) if ports.dispatcher.chooses(permit.model.engine) else None,
            ruling.hides_usage,
            RANKS[grant.client.limit.priority],
        )
        if spool is not None and isinstance(dialect, FormBody):
            request.body, request.upload = written(dialect, call, permit.changes, spool, ports.new_id())
        record.judge_ms = (ports.clock.ticks() - begun) * 1000
        reserving = passage.reserve(request, call.fields, permit.most_tokens, permit.model)
        refusal = None if reserving is None else await reserving
        return request if refusal is None else refusal

    async def _list_models(
        self, inbound: InboundT, record: AuditRecord, grant: Grant, limits: list[bytes]
    ) -> Refusal | None:
        """Answer ``GET /v1/models`` and ``/v1/models/{model}``: the client's models that the engines really serve."""
        endpoint = grant.endpoint
        aliases = grant.client.models if endpoint.model is None else (endpoint.model,)
        listed: list[ModelEntry] = []
        served = await self._served({self.plane.models[alias].engine for alias in aliases})
        for alias in aliases:
            model = self.plane.models[alias]
            entry = served.get(model.engine, {}).get(model.served_as)
            if entry is not None and alias in grant.client.models:
                listed.append(ModelEntry(alias, entry.created, entry.max_model_len))
        if endpoint.model is not None and not listed:
            return Refusal.of(Deny(Reason.MODEL_NOT_PERMITTED))
        body = models_body(listed) if endpoint.model is None else model_body(listed[0])
        inbound.answer(_OK, [*_lines(record.id), *limits, b"content-type: application/json\r\n"], body)
        record.verdict, record.status = Verdict.PERMIT, _OK
        record.outcome = Outcome.OK if inbound.answered else Outcome.CLIENT_LEFT
        return None

    async def _served(self, engines: Iterable[str]) -> dict[str, Mapping[str, ServedModel]]:
        """Ask the engines what they serve; one that does not answer serves nothing, and none is an ``Unavailable``."""
        answers: dict[str, Mapping[str, ServedModel]] = {}
        failure: Unavailable | None = None
        for engine in sorted(engines):
            try:
                answers[engine] = await self._ports.catalogue.served(engine)
            except Unavailable as unavailable:
                failure = unavailable
        if failure is not None and not answers:
            raise failure
        return answers

    def _close(self, record: AuditRecord, delivery: Delivery, dialect: Dialect) -> Refusal | None:
        """Write into the record how a dispatch ended; give the refusal that the caller has yet to get."""
        record.verdict = _PERMIT
        # To take a named tuple apart costs no more than two of its names.
        ending, reason, detail, record.engine_status, answer, first_byte_s, _ = delivery
        if first_byte_s is not None:
            record.first_byte_ms = first_byte_s * 1000
        if ending is _DELIVERED:
            record.status = _OK
            record.outcome = Outcome.ENGINE_DIED if detail else _WELL
            record.detail = detail
        elif ending is Ending.CLIENT_LEFT:
            record.outcome = Outcome.CLIENT_LEFT
        elif answer is not None:
            record.outcome = Outcome.OK
            return Refusal.of_engine(answer.status, dialect.engine_message(answer.body), answer.retry_after)
        elif reason is not None:
            record.outcome = _OUTCOMES.get((reason, detail), Outcome.ENGINE_DIED)
            return Refusal.of(Unavailable(reason, detail))
        return None

    def _refuse(self, inbound: InboundT, record: AuditRecord, refusal: Refusal) -> None:
        """Answer and record what did not go through."""
        record.reason = refusal.reason
        record.detail = refusal.record
        if refusal.made_here:
            ours = refusal.status >= 500 or refusal.reason in _ENGINES  # noqa: PLR2004
            record.verdict = Verdict.FAILURE if ours else Verdict.DENY
        if record.outcome is None and refusal.reason in _UNREACHED:
            record.outcome = Outcome.ENGINE_DIED
        if inbound.answered:
            record.status = _OK  # the head was out: the stream was cut off
            return
        record.status = refusal.status
        if refusal.reason in ENDS_CONNECTION:
            inbound.keep_alive = False
        endpoint = self._endpoints.get(record.endpoint or "")
        asked = challenge(
            refusal.reason,
            self.plane.name,
            endpoint.needs if endpoint else (),
            self._anonymous.metadata.url if self._anonymous.metadata else None,
            proofs=" ".join(dpop.ALGORITHMS) if self._gatehouse.takes_proofs else "",
            code=refusal.code,
        )
        lines = [b"x-request-id: %b\r\n" % record.id.encode("ascii"), *_ALWAYS, *refusal.lines(asked)]
        if asked and (nonce := self._gatehouse.nonce()):
            lines.append(b"dpop-nonce: %b\r\n" % nonce.encode("ascii"))
        inbound.answer(refusal.status, lines, refusal.body(self._dialect(record), record.id))

    def _dialect(self, record: AuditRecord) -> Dialect:
        """Give the API whose errors the callers of this path read, whatever is wrong; OpenAI's on a path of nobody."""
        methods = self.plane.endpoints.get(record.target.partition(b"?")[0], {})
        endpoint = methods.get(record.method) or next(iter(methods.values()), None)
        return DIALECTS.get(endpoint.dialect if endpoint else "", self._default_dialect)


ENDS_CONNECTION = frozenset(
    {
        Reason.TARGET_MALFORMED,
        Reason.TARGET_TOO_LONG,
        Reason.HEADERS_MALFORMED,
        Reason.HEADERS_TOO_LARGE,
        Reason.INTERNAL,
    }
)
"""Reasons behind which nothing more is read: who wrote such a head may mean another end of it (RFC 9112 §11.2), and
whatever went wrong inside ends with this connection.
"""


_ENGINES = frozenset(reason for reason in Reason if reason.value.startswith("engine-"))
_UNREACHED = _ENGINES - {Reason.ENGINE_OVERLOADED}  # who is sent away from the line before an engine never met it

_OUTCOMES = {
    (Reason.ENGINE_TIMEOUT, "idle"): Outcome.IDLE,
    (Reason.DRAINING, ""): Outcome.DRAINING,
}


def _lines(request_id: str) -> list[bytes]:
    """Give the header lines of an answer that goes through."""
    return [b"x-request-id: %b\r\n" % request_id.encode("ascii"), *_ALWAYS]


def _resolved(own: Deadlines, settings: Deadlines) -> Deadlines:
    return type(own)(own.first_byte or settings.first_byte, own.idle or settings.idle, own.total or settings.total)
