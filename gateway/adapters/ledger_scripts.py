"""The arithmetic of ``limits.tally`` in the language of the server, so that one call is one step for all gateways.

Leaves: a ``Script`` for each thing that a ledger does. Time is the server's own, in whole microseconds. All keys of a
holder bear one hash tag, so that a cluster keeps them in one place; each key expires when it makes no difference.
Needs Redis 5 or any Valkey: scripts that ask the time may write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha1

SERVER_CLOCK = "local clock = redis.call('TIME')\n"
"""Tells seconds and microseconds; tests of the arithmetic put another clock here."""

_NUMBERS = """
local now = clock[1] * 1000000 + clock[2]
local MINUTE, DAY, SECOND = 60000000, 86400000000, 1000000
local KEPT_MS = 61000
local function text(number) return string.format('%.0f', number) end
"""

# KEYS: requests (list of the times at which each leaves its minute), leases (sorted by the time at which they end)
# ARGV: most requests, most open, id of the lease ('' counts alone), microseconds that a lease holds unless renewed
# Gives: 0 in, 1 over rate, 2 over concurrency; microseconds to wait; requests in the minute; microseconds to reset
_ENTER = """
local requests, leases = KEYS[1], KEYS[2]
local most, places, id, holds = ARGV[1] + 0, ARGV[2] + 0, ARGV[3], ARGV[4] + 0
local function first() return redis.call('LINDEX', requests, 0) end
local head = first()
while head and head + 0 <= now do
  redis.call('LPOP', requests)
  head = first()
end
local function wait()
  local counted = redis.call('LLEN', requests)
  if counted < most then return 0 end
  return redis.call('LINDEX', requests, counted - most) - now
end
local function answer(verdict, waits)
  local last = redis.call('LINDEX', requests, -1)
  return {verdict, waits, redis.call('LLEN', requests), last and last - now or 0}
end
local full = wait()
if full > 0 then return answer(1, full) end
redis.call('RPUSH', requests, text(now + MINUTE))
redis.call('PEXPIRE', requests, KEPT_MS)
if id == '' then return answer(0, 0) end
redis.call('ZREMRANGEBYSCORE', leases, '-inf', text(now))
if redis.call('ZCARD', leases) >= places then return answer(2, math.max(SECOND, wait())) end
redis.call('ZADD', leases, text(now + holds), id)
redis.call('PEXPIRE', leases, math.ceil(holds / 1000))
return answer(0, 0)
"""

# KEYS: sums (hash: minute, day, spent, and e:<id> for each call of the minute), calls (list of "<leaves>:<id>")
# ARGV: id, tokens, most in a minute, most on a day (-1: not limited)
# Gives: 0 or 1 refused; microseconds to wait; tokens of the minute; microseconds to its reset; tokens of the day; the
# day's number; microseconds into the day
_RESERVE = """
local sums, calls = KEYS[1], KEYS[2]
local id, amount, per_minute, per_day = ARGV[1], ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
local kept = redis.call('HMGET', sums, 'minute', 'day', 'spent')
local used, spent = (kept[1] or 0) + 0, 0
local day = math.floor(now / DAY)
local into_day = now - day * DAY
if kept[2] and kept[2] + 0 == day then spent = kept[3] + 0 end
local function parts(call)
  local at, of = call:match('^(%d+):(.*)$')
  return at + 0, 'e:' .. of
end
local head = redis.call('LINDEX', calls, 0)
while head do
  local leaves, entry = parts(head)
  if leaves > now then break end
  redis.call('LPOP', calls)
  used = used - (redis.call('HGET', sums, entry) or 0)
  redis.call('HDEL', sums, entry)
  head = redis.call('LINDEX', calls, 0)
end
local wait = 0
if per_minute >= 0 then
  local over = used + math.min(amount, per_minute) - per_minute
  if over > 0 then
    for _, call in ipairs(redis.call('LRANGE', calls, 0, -1)) do
      if over <= 0 then break end
      local leaves, entry = parts(call)
      over = over - (redis.call('HGET', sums, entry) or 0)
      wait = leaves - now
    end
  end
end
if per_day >= 0 and spent + math.min(amount, per_day) > per_day then wait = math.max(wait, DAY - into_day) end
if wait == 0 then
  spent = spent + amount
  if per_minute >= 0 then
    used = used + amount
    redis.call('RPUSH', calls, text(now + MINUTE) .. ':' .. id)
    redis.call('PEXPIRE', calls, KEPT_MS)
    redis.call('HSET', sums, 'e:' .. id, text(amount))
  end
end
redis.call('HSET', sums, 'minute', text(used), 'day', text(day), 'spent', text(spent))
redis.call('PEXPIRE', sums, math.ceil((DAY - into_day) / 1000) + KEPT_MS)
local last = redis.call('LINDEX', calls, -1)
return {wait > 0 and 1 or 0, wait, used, last and parts(last) - now or 0, spent, day, into_day}
"""

# KEYS: leases, sums; ARGV: id, tokens used, tokens reserved, day of the reservation
_SETTLE = """
local leases, sums = KEYS[1], KEYS[2]
local id, used, reserved = ARGV[1], ARGV[2] + 0, ARGV[3] + 0
local held = redis.call('ZREM', leases, id)
local counted = redis.call('HGET', sums, 'e:' .. id)
if counted then
  redis.call('HINCRBY', sums, 'minute', text(used - counted))
  redis.call('HSET', sums, 'e:' .. id, text(used))
end
if held == 1 and redis.call('HGET', sums, 'day') == ARGV[4] then
  redis.call('HINCRBY', sums, 'spent', text(used - reserved))
end
return held
"""

# KEYS: leases; ARGV: microseconds that they hold from now on, ids. Only what is there is renewed: one that was settled
# a moment ago must not come back.
_RENEW = """
local leases, holds = KEYS[1], ARGV[1] + 0
for index = 2, #ARGV do redis.call('ZADD', leases, 'XX', text(now + holds), ARGV[index]) end
redis.call('PEXPIRE', leases, math.ceil(holds / 1000))
return 0
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the digest under which a server that has seen it knows it."""

    text: str
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        """Work out the digest (the EVALSHA command wants SHA-1)."""
        object.__setattr__(self, "digest", sha1(self.text.encode(), usedforsecurity=False).hexdigest())


@dataclass(frozen=True, slots=True)
class Scripts:
    """What a ledger asks of the server."""

    enter: Script
    reserve: Script
    settle: Script
    renew: Script

    @classmethod
    def on(cls, clock: str = SERVER_CLOCK) -> Scripts:
        """Give the scripts with a clock: Lua that sets ``clock`` to seconds and microseconds."""
        return cls(*(Script(clock + _NUMBERS + body) for body in (_ENTER, _RESERVE, _SETTLE, _RENEW)))
