"""``vllm-gateway doctor``: the layers in order, from the settings to the public address.

Enters: ``Surroundings``, which hold the policies and a port to each thing outside. Leaves: findings, told one by one in
the order in which they are found. It knows the order alone; what an answer means is for the findings' modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.identity.issuer import AccessTokenIssuer, CloudflareAccess, IntrospectionIssuer
from gateway.reasons import Unavailable
from gateway.review import issuer_findings
from gateway.review.configuration_findings import configuration
from gateway.review.diagnosis import Finding, Layer, Verdict
from gateway.review.engine_round import engine_round
from gateway.review.gateway_round import gateway_round, tunnel_round

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from gateway.identity.issuer import CallerTrust
    from gateway.review.surroundings import IssuerAt, Surroundings

    Tell = Callable[[Finding], None]


async def examine(site: Surroundings, tell: Tell) -> None:
    """Look at everything; ``tell`` is called with each finding."""
    for finding in configuration(site):
        tell(finding)
    broken: set[str] = set()
    for caller, trust in _trusted(site).items():
        async for finding in _issuer(site, site.issuers[caller], trust):
            tell(finding)
            if finding.verdict is Verdict.BROKEN:
                broken.add(caller)
    broken |= await engine_round(site, tell)
    answering = await gateway_round(site, broken, tell)
    await _ledger(site, tell)
    await tunnel_round(site, answering, tell)


def _trusted(site: Surroundings) -> Mapping[str, CallerTrust]:
    """Give the parties that somebody outside stands behind, by the names under which the settings know them."""
    found: dict[str, CallerTrust] = {}
    for plane in site.planes:
        found.update({name: trust for name, trust in plane.callers.items() if name in site.issuers})
        if plane.edge is not None:
            found[plane.edge.caller] = plane.edge
    return found


async def _issuer(site: Surroundings, at: IssuerAt, trust: CallerTrust) -> AsyncIterator[Finding]:
    """Look at one issuer by the way that the gateway itself goes."""
    if isinstance(trust, IntrospectionIssuer):
        subject = issuer_findings.subject_of(trust.caller, trust.issuer)
        try:
            yield issuer_findings.introspected(subject, at.variable, await at.ask.introspect())
        except Unavailable as failure:
            yield issuer_findings.no_introspection(subject, at.variable, failure)
    elif isinstance(trust, AccessTokenIssuer | CloudflareAccess):
        subject = issuer_findings.subject_of(trust.caller, trust.issuer)
        try:
            found = await at.ask.key_set()
        except Unavailable as failure:
            yield issuer_findings.unavailable(subject, at.variable, failure)
            return
        for finding in issuer_findings.keys(subject, trust, found):
            yield finding
        for finding in issuer_findings.clock(subject, trust, await at.ask.look(), site.now()):
            yield finding


async def _ledger(site: Surroundings, tell: Tell) -> None:
    """Ask the server of limits, if there is one."""
    if site.ledger is None:
        saw = "limits are counted in the memory of one gateway"
        tell(Finding(Layer.LEDGER, Verdict.OK, "", saw))
        return
    why = await site.ledger()
    if why:
        do = "is it up? GATEWAY_LEDGER, GATEWAY_LEDGER_PASSWORD_FILE; callers get 503 ledger-unavailable meanwhile"
        tell(Finding(Layer.LEDGER, Verdict.BROKEN, "GATEWAY_LEDGER", why, do))
    else:
        tell(Finding(Layer.LEDGER, Verdict.OK, "GATEWAY_LEDGER", "answers"))
