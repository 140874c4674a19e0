"""People with small limits: each test has some of its own, who have used nothing yet."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from tests.e2e.raw_http import Answer, Connection, ask, request
from tests.e2e.site import CHAT, HI, HOST, Site, running
from tests.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Counted:
    """A site with a plane of small limits."""

    site: Site
    address: tuple[str, int]

    def person(self, group: str, subject: str = "") -> Person:
        """Give somebody of a group: somebody new, unless named."""
        return Person(self, group, subject or f"person-{next(_NUMBERS)}")


@dataclass(frozen=True, slots=True)
class Person:
    """One person, with the limits of a group."""

    at: Counted
    group: str
    subject: str

    @property
    def token(self) -> str:
        """A good token."""
        return self.at.site.issuer.token(aud="vllm-gateway/counted", sub=self.subject, groups=[self.group])

    def request(
        self, body: object = None, *, target: str = CHAT, fields: Mapping[str, str] | None = None, **more: object
    ) -> bytes:
        """Write a request of this person's; without a body, a chat with some fields more."""
        data = body if isinstance(body, bytes) else orjson.dumps({**HI, **more} if body is None else body)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **(fields or {})}
        return request(target, self.host, method="POST", headers=headers, body=data)

    @property
    def host(self) -> str:
        """What the Host field must say."""
        return f"{self.at.address[0]}:{self.at.address[1]}"

    def ask(
        self, body: object = None, *, target: str = CHAT, fields: Mapping[str, str] | None = None, **more: object
    ) -> Answer:
        """Ask on a connection of its own."""
        return ask(self.at.address, self.request(body, target=target, fields=fields, **more))

    def play(self, script: str, **more: object) -> Answer:
        """Have the raw engine play a script."""
        return self.ask(self.script(script, **more))

    def script(self, name: str, **more: object) -> dict[str, Any]:
        """Write the body that makes the raw engine play a script."""
        return {"model": "raw", "messages": [{"role": "user", "content": f"script:{name}"}], "stream": True, **more}

    def connect(self) -> Connection:
        """Open a connection."""
        return Connection(self.at.address, timeout=10.0)


@contextmanager
def counting(folder: Path, **settings: str) -> Iterator[Counted]:
    """Run a site whose only planes are the usual ones and the counted one."""
    port = free_port()
    policies = ("policy.yaml", "lenient.yaml", "counted.yaml")
    with running(folder, policies=policies, LISTENERS__COUNTED=f"{HOST}:{port}", **settings) as site:
        yield Counted(site, (HOST, port))
