"""What commands read before they work: files, secrets, settings, policies.

Enters: paths and options of the command line, the environment. Leaves: what was read, or ``Misused`` with a sentence.
"""

# ruff: noqa: PLC0415  (rooms are imported by the command that needs them)
from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gateway.policy.compile import Policy
    from gateway.settings import Settings


class Misused(Exception):  # noqa: N818  (says what is so)
    """The command cannot do its work as it was called; the text is a sentence."""


def body(path: Path | None) -> bytes:
    """Read a body from a file, or from standard input where that is asked for."""
    if path is None:
        return b""
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise Misused(f"{path} cannot be read: {error.strerror}.") from None


def policies() -> Sequence[Path]:
    """Give the paths of GATEWAY_POLICIES, which alone of all settings a reviewer needs."""
    from gateway.setting_values import files

    try:
        return files(os.environ.get("GATEWAY_POLICIES", "policies/"))
    except ValueError as error:
        raise Misused(f"GATEWAY_POLICIES {error}.") from None


def secret(what: str, path: Path | None = None) -> str:
    """Read a secret from a file, from whoever sits at the terminal, or from standard input."""
    from getpass import getpass

    try:
        if path is not None:
            text = path.read_text("utf-8")
        else:
            text = getpass(f"The {what}: ") if sys.stdin.isatty() else sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Misused(f"The {what} cannot be read: {error}.") from None
    if not text.strip():
        raise Misused(f"The {what} is empty.")
    return text.strip()


def file(path: Path) -> str:
    """Read a text file."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise Misused(f"{path} cannot be read: {why}.") from None


def compiled(paths: Sequence[Path]) -> list[Policy]:
    """Compile the policies at some paths."""
    from gateway.adapters.policy_files import PolicyFilesMissing, found
    from gateway.policy.compile import compile_policy
    from gateway.policy.source import PolicyError

    try:
        return [compile_policy(file.read_text("utf-8"), str(file)) for path in paths for file in found(path)]
    except (PolicyError, PolicyFilesMissing) as error:
        raise Misused(str(error)) from None


def settings() -> Settings:
    """Read all of ``GATEWAY_*``."""
    from gateway.settings import SettingsError, load_settings

    try:
        return load_settings(os.environ)
    except SettingsError as error:
        raise Misused(str(error)) from None
