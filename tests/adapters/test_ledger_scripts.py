from __future__ import annotations

from hashlib import sha1

from gateway.adapters.ledger_scripts import SERVER_CLOCK, Script, Scripts


def test_a_script_is_known_by_the_digest_that_evalsha_wants() -> None:
    assert Script("return 1").digest == "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
    enter = Scripts.on().enter
    assert enter.digest == sha1(enter.text.encode(), usedforsecurity=False).hexdigest()


def test_time_is_the_servers_in_every_script() -> None:
    scripts = Scripts.on()
    for script in (scripts.enter, scripts.reserve, scripts.settle, scripts.renew, scripts.ping):
        assert script.text.startswith(SERVER_CLOCK)
        assert script.text.count("'TIME'") == 1


def test_no_script_touches_a_key_that_it_was_not_given() -> None:
    """A cluster refuses such a script, or runs it in the wrong place."""
    scripts = Scripts.on("")
    for script in (scripts.enter, scripts.reserve, scripts.settle, scripts.renew, scripts.ping):
        calls = [part.partition(")")[0] for part in script.text.split("redis.call(")[1:]]
        assert calls
        for call in calls:
            assert call.split(", ")[1] in {"requests", "leases", "sums", "calls"}, call
