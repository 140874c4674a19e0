"""The commands: each reads its arguments, calls the room that does the work, and prints what it gives.

Enters: the command line and the environment. Leaves: an exit status: 0 holds, 1 something was found, 2 usage or
configuration. Rooms are imported by the command that needs them, so that help and completion do not wait.
"""

# ruff: noqa: PLC0415  (as said above)
from __future__ import annotations

import argparse
import os
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gateway import __version__
from gateway import cli_inputs as inputs
from gateway.cli_inputs import Misused

if TYPE_CHECKING:
    from collections.abc import Sequence


HOLDS, FOUND, MISUSED = 0, 1, 2
_HIGHEST_PORT = 65535
_LONGEST_WAIT_S = 600.0


class _Parser(argparse.ArgumentParser):
    """Says in one sentence what was wrong."""

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.exit(MISUSED, f"{self.prog}: {message}; see '{self.prog} --help'.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Gives its exit status."""
    options = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except Misused as error:
        sys.stderr.write(f"{error}\n")
        return MISUSED
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return HOLDS


def parser() -> argparse.ArgumentParser:
    """Describe the commands."""
    top = _Parser(prog="vllm-gateway", description="The only exposed origin in front of vLLM.", allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"vllm-gateway {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, run: object, text: str, *, json: bool = False) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        added.set_defaults(run=run)
        if json:
            added.add_argument("--json", action="store_true", help="print JSON for machines")
        return added

    command("serve", _serve, "Serve the policies as the GATEWAY_* environment says.")
    demo = command("demo", _demo, "Show everything on this machine: an engine without a model, a gateway, a key.")
    demo.add_argument("--port", type=_port, default=0, help="the gateway's port; a free one when absent")
    demo.add_argument("--once", action="store_true", help="end after the show")
    check = command(
        "check", _check, "Check policy files: schema, meaning, cases, and whether the cases bite.", json=True
    )
    check.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", help="files or folders; GATEWAY_POLICIES when absent"
    )
    explain = command("explain", _explain, "Say what a policy does with one request, and why.", json=True)
    explain.add_argument("plane", metavar="PLANE", help="a policy file, or the name of a plane in GATEWAY_POLICIES")
    explain.add_argument("who", metavar="WHO", help="a caller of the file's cases, or 'nobody'")
    explain.add_argument("ask", metavar="ASK", help="method and target, such as 'POST /v1/chat/completions'")
    explain.add_argument(
        "body", nargs="?", type=Path, metavar="BODY.json", help="a file with the body; '-' reads it from here"
    )
    text = "Make keys, and tell what one is."
    key = commands.add_parser("key", help=text, description=text, allow_abbrev=False)
    keys = key.add_subparsers(metavar="COMMAND", required=True)
    text = "Make a key, shown once, and the stanza for the policy."
    new = keys.add_parser("new", help=text, description=text, allow_abbrev=False)
    new.set_defaults(run=_key_new)
    new.add_argument("client", metavar="CLIENT", help="the client of the policy that it is for")
    new.add_argument(
        "--not-after", type=date.fromisoformat, metavar="DATE", help="its last good day, such as 2027-01-31 (UTC)"
    )
    new.add_argument("--json", action="store_true", help="print JSON for machines")
    text = "Say what a key is and whose; it is read from standard input, so that no shell remembers it."
    known = keys.add_parser("check", help=text, description=text, allow_abbrev=False)
    known.set_defaults(run=_key_check)
    known.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", help="files or folders; GATEWAY_POLICIES when absent"
    )
    known.add_argument("--json", action="store_true", help="print JSON for machines")
    token = command("token", _token, "Fetch an access token by client credentials, to try a plane.", json=True)
    where = token.add_mutually_exclusive_group(required=True)
    where.add_argument("--issuer", metavar="URL", help="the issuer, whose metadata name the token endpoint")
    where.add_argument("--token-url", metavar="URL", help="the token endpoint itself")
    token.add_argument("--client-id", required=True, metavar="ID")
    token.add_argument(
        "--client-secret-file", type=Path, metavar="FILE", help="the secret; read from standard input when absent"
    )
    token.add_argument(
        "--client-certificate",
        nargs=2,
        type=Path,
        metavar=("CERT", "KEY"),
        help="show this certificate; without a secret's file it is the whole credential (RFC 8705)",
    )
    token.add_argument("--scope", metavar="SCOPES", help="scopes, with a space between them")
    token.add_argument("--resource", metavar="URI", help="the audience, as RFC 8707 asks for it")
    token.add_argument("--audience", metavar="TEXT", help="the audience, as Auth0 asks for it")
    token.add_argument("--post", action="store_true", help="send the secret in the form instead of a header field")
    token.add_argument(
        "--for", dest="policy", type=Path, metavar="POLICY", help="say on standard error what this policy makes of it"
    )
    _imports(commands)
    _wishes(
        command("doctor", _doctor, "Look at each layer in order, and name the first one that is broken.", json=True)
    )
    _logs(command("usage", _usage, "Add up audit logs: requests and tokens by day, client and model.", json=True))
    command("schema", _schema, "Print the JSON Schema of policy files.")
    return top


def _imports(commands: argparse._SubParsersAction[_Parser]) -> None:
    text = "Read another gateway's configuration, and write models and settings from it."
    importing = commands.add_parser("import", help=text, description=text, allow_abbrev=False)
    text = "LiteLLM's: entries of model_list become models and engines; what has no counterpart is named."
    litellm = importing.add_subparsers(metavar="GATEWAY", required=True).add_parser(
        "litellm", help=text, description=text, allow_abbrev=False
    )
    litellm.set_defaults(run=_import_litellm)
    litellm.add_argument("file", type=Path, metavar="CONFIG.yaml", help="the file that LiteLLM is started with")
    litellm.add_argument("--json", action="store_true", help="print JSON for machines")


def _wishes(doctor: argparse.ArgumentParser) -> None:
    """Describe what the doctor may do besides looking at what the settings name."""
    doctor.add_argument("--public-url", metavar="URL", help="the public origin, which is asked from outside in")
    doctor.add_argument(
        "--token-env", metavar="NAME", help="send one real request with the token or key in this environment variable"
    )
    doctor.add_argument("--plane", metavar="PLANE", help="the plane that this is for, if there are several")
    doctor.add_argument("--gateway", metavar="URL", help="ask that plane at this origin, not at its listener's address")
    doctor.add_argument(
        "--within", type=_seconds, default=60.0, metavar="SECONDS", help="how long a model may take to answer (60)"
    )


def _logs(usage: argparse.ArgumentParser) -> None:
    """Describe which records of which audit logs are meant."""
    usage.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="audit logs, also .gz; '-' reads from here; GATEWAY_AUDIT_LOG when absent",
    )
    usage.add_argument("--since", type=_day, metavar="DAY", help="the first day (UTC), as 2026-12-31")
    usage.add_argument("--until", type=_day, metavar="DAY", help="the last day (UTC)")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"a port is a number up to {_HIGHEST_PORT}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_WAIT_S:
        raise argparse.ArgumentTypeError(f"a number of seconds up to {_LONGEST_WAIT_S:g}")
    return seconds


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError("a day is written as 2026-12-31") from None


def _serve(_: argparse.Namespace) -> int:
    settings = inputs.settings()
    from gateway.server import serve

    return serve(settings)


def _demo(options: argparse.Namespace) -> int:
    from gateway import demo

    try:
        return demo.run(sys.stdout, port=options.port, once=options.once)
    except demo.DemoFailed as error:
        raise Misused(str(error)) from None


def _check(options: argparse.Namespace) -> int:
    from gateway.review.check import check

    report = check(options.paths or inputs.policies())
    if options.json:
        print(report.as_json())
    else:
        print(report.as_text(), file=sys.stderr if report.status == MISUSED else sys.stdout)
    return report.status


def _explain(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from gateway.review.explain import NobodyOfThatName, explain

    given = Path(options.plane)
    policies = inputs.compiled([given] if given.is_file() else inputs.policies())
    for policy in policies:
        if given.is_file() or policy.plane.name == options.plane:
            today = datetime.now(UTC).date().isoformat()
            try:
                explanation = explain(policy, options.who, options.ask, inputs.body(options.body), today)
            except NobodyOfThatName as error:
                raise Misused(str(error)) from None
            print(explanation.as_json() if options.json else explanation.as_text())
            return HOLDS if explanation.permitted else FOUND
    known = ", ".join(policy.plane.name for policy in policies)
    raise Misused(f"No plane is called {options.plane!r}, and no such file exists; there are: {known}.")


def _key_new(options: argparse.Namespace) -> int:
    import secrets

    from gateway.identity.api_key import RANDOM_OCTETS
    from gateway.review.key import new_key

    try:
        key = new_key(options.client, secrets.token_bytes(RANDOM_OCTETS), options.not_after)
    except ValueError as error:
        raise Misused(f"vllm-gateway key new: {error}.") from None
    print(key.as_json() if options.json else key.as_text())
    return HOLDS


def _key_check(options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from gateway.review.key_check import check_key

    planes = [policy.plane for policy in inputs.compiled(options.paths or inputs.policies())]
    found = check_key(inputs.secret("key"), planes, datetime.now(UTC).date().isoformat())
    print(found.as_json() if options.json else found.as_text())
    return HOLDS if found.good else FOUND


def _token(options: argparse.Namespace) -> int:
    import json
    import time

    from gateway.adapters.token_client import Application, NoToken, fetch
    from gateway.review.token_check import check_token

    planes = [policy.plane for policy in inputs.compiled([options.policy])] if options.policy else []
    certificate = tuple(options.client_certificate) if options.client_certificate else None
    alone = certificate is not None and options.client_secret_file is None
    secret = None if alone else inputs.secret("client secret", options.client_secret_file)
    method: Any = "client_secret_post" if options.post else "client_secret_basic"
    application = Application(
        options.client_id, secret, options.scope, options.resource, options.audience, method, certificate
    )
    try:
        answer = fetch(application, issuer=options.issuer, url=options.token_url)
    except NoToken as error:
        sys.stderr.write(f"{error}\n")
        return FOUND if error.refused else MISUSED
    token = str(answer.get("access_token", ""))
    print(json.dumps(answer) if options.json else token)
    checks = [check_token(token, plane, time.time()) for plane in planes]
    for check in checks:
        sys.stderr.write(f"{check.sentence}\n")
    return HOLDS if token and all(check.fits for check in checks) else FOUND


def _doctor(options: argparse.Namespace) -> int:
    from gateway.doctor import run
    from gateway.doctor_ports import Misasked, Wishes

    token = None if options.token_env is None else os.environ.get(options.token_env)
    if options.token_env is not None and token is None:
        raise Misused(f"The environment has no variable {options.token_env}.")
    wishes = Wishes(options.public_url, options.plane, options.gateway, token, options.within)
    try:
        return run(os.environ, wishes, sys.stdout, as_json=options.json)
    except Misasked as error:
        raise Misused(str(error)) from None


def _import_litellm(options: argparse.Namespace) -> int:
    from gateway.review.litellm import translate
    from gateway.review.litellm_file import NotImportable, read

    try:
        imported = translate(read(inputs.file(options.file), str(options.file)), os.environ)
    except NotImportable as error:
        raise Misused(str(error)) from None
    print(imported.as_json() if options.json else imported.as_text())
    for problem in () if options.json else imported.lost:
        sys.stderr.write(f"{problem}\n")
    return FOUND if imported.lost else HOLDS


def _usage(options: argparse.Namespace) -> int:
    import gzip

    from gateway.review.usage import UsageReport

    logged = os.environ.get("GATEWAY_AUDIT_LOG", "stdout")
    if not options.files and logged == "stdout":
        raise Misused("Name an audit log, or set GATEWAY_AUDIT_LOG to its path.")
    report = UsageReport(since=options.since or "", until=options.until or "9999")
    for name in options.files or [logged]:
        try:
            if name == "-":
                report.read(sys.stdin.buffer)
            else:
                with gzip.open(name) if name.endswith(".gz") else Path(name).open("rb") as lines:
                    report.read(lines)
        except OSError as error:
            raise Misused(f"{name} cannot be read: {error.strerror or error}.") from None
    print(report.as_json() if options.json else report.as_text())
    return FOUND if report.unreadable else HOLDS


def _schema(_: argparse.Namespace) -> int:
    from gateway.policy.schema import render

    print(render(), end="")
    return HOLDS
