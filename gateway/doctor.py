"""``vllm-gateway doctor``: reads what ``serve`` reads, leads the doctor to it, and prints what is found.

Enters: the environment, and the wishes of the command line. Leaves: lines as they are found, or JSON at the end, and an
exit status. What an answer means is for ``review``; the ways to what is asked are made in ``doctor_ports``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.adapters.policy_files import PolicyFiles, PolicyFilesMissing
from gateway.app import Misfit, misfits
from gateway.doctor_ports import surroundings
from gateway.policy.source import PolicyError
from gateway.review.configuration_findings import unusable
from gateway.review.diagnosis import Diagnosis
from gateway.review.doctor import examine
from gateway.settings import SettingsError, load_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

    from gateway.doctor_ports import Wishes
    from gateway.review.diagnosis import Finding
    from gateway.review.surroundings import Surroundings


def run(environ: Mapping[str, str], wishes: Wishes, out: TextIO, *, as_json: bool) -> int:
    """Look at everything. Gives the exit status. Raises ``Misasked``."""
    diagnosis = Diagnosis()

    def tell(finding: Finding) -> None:
        diagnosis.findings.append(finding)
        if not as_json:
            out.write("\n".join([*finding.lines(), ""]))
            out.flush()  # a layer that hangs must not hide those before it

    try:
        site = _site(environ, wishes)
    except (SettingsError, Misfit) as error:
        problems = error.problems
    except (PolicyError, PolicyFilesMissing) as error:
        problems = tuple(str(error).splitlines())
    else:
        problems = ()
        try:
            asyncio.run(examine(site, tell))
        except KeyboardInterrupt:  # whoever waits for a layer that hangs has seen enough of it
            diagnosis.interrupted = True
    for finding in unusable(problems):
        tell(finding)
    out.write(f"{diagnosis.as_json() if as_json else diagnosis.conclusion}\n")
    return diagnosis.status


def _site(environ: Mapping[str, str], wishes: Wishes) -> Surroundings:
    """Read settings and policies as ``serve`` does. Raises what keeps it from starting, and ``Misasked``."""
    settings = load_settings(environ)
    planes = PolicyFiles(settings.policies).load()
    served = {plane.listener: plane for plane in planes if plane.listener in settings.listeners}
    problems = misfits(settings, served)
    if problems:
        raise Misfit(*problems)
    return surroundings(settings, planes, wishes)
