"""The gateway permits a request exactly if the bytes of its target are a path of the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st

from tests.e2e.raw_http import ask
from tests.e2e.site import CHAT, HI, MODELS, Site

if TYPE_CHECKING:
    from collections.abc import Callable

PATHS = {"GET": MODELS.encode(), "POST": CHAT.encode()}
# What a parser takes for the end of a target (RFC 9112 §3): these bytes make another target, not a strange one.
DELIMITERS = b" \r\n"
SUFFIXES = (b"/", b"?", b"#", b"?a=b", b"#x", b";", b";x=1", b"%00", b"%0a", b"%20", b"//", b"/.", b"/..", b"\\", b"\t")
PREFIXES = (b"/", b"/.", b"/x/..", b"//", b"http://127.0.0.1", b"\\", b"/%2e", b"x", b"*")


def escaped(path: bytes, position: int) -> bytes:
    """Escape one byte of a path."""
    at = position % len(path)
    return path[:at] + b"%%%02x" % path[at] + path[at + 1 :]


def flipped(path: bytes, position: int) -> bytes:
    """Flip the case bit of one byte."""
    at = position % len(path)
    return path[:at] + bytes([path[at] ^ 0x20]) + path[at + 1 :]


def doubled(path: bytes, position: int) -> bytes:
    """Write one byte twice."""
    at = position % len(path)
    return path[: at + 1] + path[at:]


def shortened(path: bytes, position: int) -> bytes:
    """Leave one byte out."""
    at = position % len(path)
    return path[:at] + path[at + 1 :]


def near_misses() -> st.SearchStrategy[bytes]:
    """Make targets that somebody else's normalisation would take for a path of the policy."""
    paths = st.sampled_from(list(PATHS.values()))
    changes: list[Callable[[bytes, int], bytes]] = [escaped, flipped, doubled, shortened]
    changed = st.builds(lambda path, change, at: change(path, at), paths, st.sampled_from(changes), st.integers(0, 99))
    surrounded = st.builds(lambda a, path, b: a + path + b, st.sampled_from(PREFIXES), paths, st.sampled_from(SUFFIXES))
    trailed = st.builds(bytes.__add__, paths, st.sampled_from(SUFFIXES))
    return st.one_of(paths, changed, surrounded, trailed)


@given(target=st.one_of(st.binary(max_size=60), near_misses()), method=st.sampled_from(sorted(PATHS)))
@example(target=PATHS["GET"], method="GET")
@example(target=PATHS["POST"], method="POST")
@example(target=PATHS["GET"], method="POST")
@example(target=b"", method="GET")
@example(target=b"/" + b"a" * 70_000, method="GET")
def test_only_the_very_bytes_of_a_path_are_let_through(site: Site, target: bytes, method: str) -> None:
    if set(target) & set(DELIMITERS):
        target = bytes(byte for byte in target if byte not in DELIMITERS)
    request = site.request("TARGET", method, body=HI if method == "POST" else None).replace(b"TARGET", target, 1)
    before = len(site.reached())
    answer = ask(site.address, request)
    permitted = target == PATHS[method]
    assert (answer.status == 200) is permitted
    assert answer.status in {200, 400, 404, 405, 414, 431}
    assert [seen.target for seen in site.reached()[before:]] == ([CHAT] if permitted and method == "POST" else [])
