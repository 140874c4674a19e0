"""The arithmetic of ``limits.tally`` in the language of the server, so that one call is one step for all gateways.

Leaves: a ``Script`` for each thing that a ledger does. Time is the server's own, in whole microseconds. All keys of a
plane bear one hash tag, so that a cluster keeps them in one place; each key expires when it makes no difference.
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
local LEARNS = 8
local function text(number) return string.format('%.0f', number) end
local function begun(lease) return lease:match('^%d+') + 0 end
local function parts(call)
  local at, of = call:match('^(%d+):(.*)$')
  return at + 0, 'e:' .. of
end
local function rate(requests, most)
  local head = redis.call('LINDEX', requests, 0)
  while head and head + 0 <= now do
    redis.call('LPOP', requests)
    head = redis.call('LINDEX', requests, 0)
  end
  local counted = redis.call('LLEN', requests)
  return counted < most and 0 or redis.call('LINDEX', requests, counted - most) - now
end
local function kept(sums, calls)
  local found = redis.call('HMGET', sums, 'minute', 'day', 'spent')
  local used, spent = (found[1] or 0) + 0, 0
  if found[2] and found[2] + 0 == math.floor(now / DAY) then spent = found[3] + 0 end
  local head = redis.call('LINDEX', calls, 0)
  if not head and used ~= 0 then
    for _, name in ipairs(redis.call('HKEYS', sums)) do
      if name:sub(1, 2) == 'e:' then redis.call('HDEL', sums, name) end
    end
    used = 0
  end
  while head do
    local leaves, entry = parts(head)
    if leaves > now then break end
    redis.call('LPOP', calls)
    used = used - (redis.call('HGET', sums, entry) or 0)
    redis.call('HDEL', sums, entry)
    head = redis.call('LINDEX', calls, 0)
  end
  redis.call('HSET', sums, 'minute', text(used))
  return used, spent
end
local function reset(calls)
  local last = redis.call('LINDEX', calls, -1)
  return last and parts(last) - now or 0
end
local function place(leases, sums)
  local open, oldest = redis.call('ZRANGE', leases, 0, -1), now
  local mean = (redis.call('HGET', sums, 'mean') or 0) + 0
  for _, lease in ipairs(open) do oldest = math.min(oldest, begun(lease)) end
  return math.min(MINUTE, math.max(SECOND, oldest + mean - now, math.floor(mean / (#open + 1))))
end
"""

# KEYS: requests (list of the times at which each leaves its minute), leases (sorted by the time at which they end, each
# "<begun>:<id>"), sums (hash; here: mean, the microseconds that a place was held) and calls, as below
# ARGV: most requests, most open, id of the lease ('' counts alone), microseconds that a lease holds unless renewed
# Gives: 0 in, 1 over rate, 2 over concurrency; microseconds to wait; requests in the minute; microseconds to reset;
# the time, which is when the lease has begun. Where nobody gets in, besides: tokens of the minute; microseconds to
# their reset; tokens of the day.
_ENTER = """
local requests, leases, sums, calls = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local most, places, id, holds = ARGV[1] + 0, ARGV[2] + 0, ARGV[3], ARGV[4] + 0
local function answer(verdict, waits)
  local last = redis.call('LINDEX', requests, -1)
  local told = {verdict, waits, redis.call('LLEN', requests), last and last - now or 0, now}
  if verdict == 0 then return told end
  local known = redis.call('EXISTS', sums) == 1
  local used, spent = 0, 0
  if known then used, spent = kept(sums, calls) end
  told[6], told[7], told[8] = used, reset(calls), spent
  return told
end
local full = rate(requests, most)
if full > 0 then return answer(1, full) end
redis.call('RPUSH', requests, text(now + MINUTE))
redis.call('PEXPIRE', requests, KEPT_MS)
if id == '' then return answer(0, 0) end
redis.call('ZREMRANGEBYSCORE', leases, '-inf', text(now))
if redis.call('ZCARD', leases) >= places then
  return answer(2, math.max(place(leases, sums), rate(requests, most)))
end
redis.call('ZADD', leases, text(now + holds), text(now) .. ':' .. id)
redis.call('PEXPIRE', leases, math.ceil(holds / 1000))
return answer(0, 0)
"""

# KEYS: requests, sums (hash: minute, day, spent, and e:<id> for each call of the minute), calls (list of
# "<leaves>:<id>"); where a model is limited too, its requests, leases, sums and calls
# ARGV: id, tokens, most in a minute, most on a day (-1: not limited), most requests; of the model besides: most
# requests, most open, most in a minute, most on a day, microseconds that a lease holds
# Gives: 0 in, 3 over tokens, and of the model 11 over rate, 12 over concurrency, 13 over tokens; microseconds to wait,
# until one more request fits as well; tokens of the minute; microseconds to its reset; tokens of the day; the day's
# number; microseconds into the day
_RESERVE = """
local id, amount = ARGV[1], ARGV[2] + 0
local day = math.floor(now / DAY)
local into_day = now - day * DAY
local verdict, wait = 0, 0
local function refuse(reason, waits)
  if waits > wait then verdict, wait = reason, waits end
end
local function tokens(reason, sums, calls, used, spent, per_minute, per_day)
  if amount == 0 then return end
  if per_minute >= 0 then
    local over = used + math.min(amount, per_minute) - per_minute
    local waits = 0
    if over > 0 then
      for _, call in ipairs(redis.call('LRANGE', calls, 0, -1)) do
        if over <= 0 then break end
        local leaves, entry = parts(call)
        over = over - (redis.call('HGET', sums, entry) or 0)
        waits = leaves - now
      end
    end
    refuse(reason, waits)
  end
  if per_day >= 0 and spent + math.min(amount, per_day) > per_day then refuse(reason, DAY - into_day) end
end
local function keep(sums, calls, used, spent, limited)
  if wait == 0 then
    spent = spent + amount
    if limited then
      used = used + amount
      redis.call('RPUSH', calls, text(now + MINUTE) .. ':' .. id)
      redis.call('PEXPIRE', calls, KEPT_MS)
      redis.call('HSET', sums, 'e:' .. id, text(amount))
    end
  end
  redis.call('HSET', sums, 'minute', text(used), 'day', text(day), 'spent', text(spent))
  redis.call('PEXPIRE', sums, math.ceil((DAY - into_day) / 1000) + KEPT_MS)
  return used, spent
end
local per_minute, per_day = ARGV[3] + 0, ARGV[4] + 0
local used, spent = kept(KEYS[2], KEYS[3])
tokens(3, KEYS[2], KEYS[3], used, spent, per_minute, per_day)
if #KEYS > 3 then
  local requests, leases, sums, calls = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
  local most, places, minutely, daily, holds = ARGV[6] + 0, ARGV[7] + 0, ARGV[8] + 0, ARGV[9] + 0, ARGV[10] + 0
  refuse(11, rate(requests, most))
  redis.call('ZREMRANGEBYSCORE', leases, '-inf', text(now))
  if redis.call('ZCARD', leases) >= places then refuse(12, place(leases, sums)) end
  local theirs, today = kept(sums, calls)
  tokens(13, sums, calls, theirs, today, minutely, daily)
  keep(sums, calls, theirs, today, minutely >= 0 or daily >= 0)
  if wait == 0 then
    redis.call('RPUSH', requests, text(now + MINUTE))
    redis.call('PEXPIRE', requests, KEPT_MS)
    redis.call('ZADD', leases, text(now + holds), id)
    redis.call('PEXPIRE', leases, math.ceil(holds / 1000))
  end
end
if wait > 0 then wait = math.max(wait, rate(KEYS[1], ARGV[5] + 0)) end
used, spent = keep(KEYS[2], KEYS[3], used, spent, per_minute >= 0 or per_day >= 0)
return {verdict, wait, used, reset(KEYS[3]), spent, day, into_day}
"""

# KEYS: leases and sums of the client, and of the model where it is limited
# ARGV: lease, tokens used, tokens reserved, day of the reservation. Who never learnt whether he was let in knows the
# lease only as ":<id>", and who never learnt whether tokens were reserved knows no day (-1). They may settle twice.
_SETTLE = """
local id, used, reserved = ARGV[1], ARGV[2] + 0, ARGV[3] + 0
local known = id:sub(1, 1) ~= ':'
local held = 0
if not known then
  local leases = KEYS[1]
  for _, lease in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
    if lease:sub(-#id) == id then id = lease end
  end
end
for pair = 1, #KEYS, 2 do
  local leases, sums = KEYS[pair], KEYS[pair + 1]
  held = redis.call('ZREM', leases, id)
  local counted = redis.call('HGET', sums, 'e:' .. id)
  if counted then
    redis.call('HINCRBY', sums, 'minute', text(used - counted))
    redis.call('HSET', sums, 'e:' .. id, text(used))
    if ARGV[4] == '-1' then redis.call('HINCRBY', sums, 'spent', text(used - counted)) end
  end
  if held == 1 and redis.call('HGET', sums, 'day') == ARGV[4] then
    redis.call('HINCRBY', sums, 'spent', text(used - reserved))
  end
  if held == 1 and known and ARGV[4] ~= '-1' then
    local lasted = now - begun(id)
    local mean = (redis.call('HGET', sums, 'mean') or 0) + 0
    mean = mean > 0 and mean + math.floor((lasted - mean) / LEARNS) or lasted
    redis.call('HSET', sums, 'mean', text(mean))
    redis.call('PEXPIRE', sums, math.ceil((DAY - now % DAY) / 1000) + KEPT_MS)
  end
end
return held
"""

# KEYS: sums of nobody. Asks whether the server is there and keeps what it is told: one that only reads lets nobody in.
_PING = """
local sums = KEYS[1]
redis.call('HSET', sums, 'now', text(now))
redis.call('PEXPIRE', sums, KEPT_MS)
return 0
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
    ping: Script

    @classmethod
    def on(cls, clock: str = SERVER_CLOCK) -> Scripts:
        """Give the scripts with a clock: Lua that sets ``clock`` to seconds and microseconds."""
        return cls(*(Script(clock + _NUMBERS + body) for body in (_ENTER, _RESERVE, _SETTLE, _RENEW, _PING)))
