-- A script is head.lua, an algorithm (all.lua: those it needs), and a tail. An
-- algorithm is three functions over KEYS[i], whose limit is rate, period and
-- capacity, the most units at once:
--   look(i, rate, period, capacity)
--        free, the units that could be taken now, below 0 in debt; and up to
--        four more values, its state as of now
--   wait(i, n, rate, period, capacity, state...)
--        µs until n more units are free, where they are not now
--   put(i, n, rate, period, capacity, state...)
--        takes n units, gives back -n, or only puts right what a changed limit
--        or clock has left; reset and free after it. Writes nothing in a peek.
--
-- KEYS[i]  always written KEYS[i] in a command, never copied, for servers that
--          check keys in the text of the script
-- ARGV[1]  now in µs; 0: the server's clock; -1: the algorithm needs none
-- ARGV[2]  the mode; 'peek' writes nothing. The tail has the others and the rest.
--
-- Reply: four integers a request
--   granted    units that were taken, or in a peek could be; 0 if refused
--   remaining  whole units that could be taken now
--   retry      µs until the same request would be allowed; 0 if it is, -1 never
--   reset      µs until the key is as if it had never been used
--
-- No number here reaches 2^53, so that doubles hold them all exactly. A product
-- may: + 0.0 makes it a double where Lua has integers, which would wrap around.
local floor, ceil = math.floor, math.ceil

local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local mode = ARGV[2]
local writes = mode ~= 'peek'

-- The whole part and the remainder of a * b / c, exact for c up to 2^45, also
-- where a * b is beyond 2^53: then by long multiplication, 7 bits of b a step.
local function muldiv(a, b, c)
  local product = (a + 0.0) * b
  if product < 9007199254740992 then
    local quotient = floor(product / c)
    return quotient, product - quotient * c
  end
  local skipped = floor(a / c)
  a = a - skipped * c
  local quotient, rest, digit = 0, 0, 4398046511104
  while digit >= 1 do
    rest = rest * 128 + a * (floor(b / digit) % 128)
    local whole = floor(rest / c)
    quotient, rest = quotient * 128 + whole, rest - whole * c
    digit = digit / 128
  end
  return floor((skipped + 0.0) * b + quotient), rest
end

-- The µs, rounded up, in which rate a period makes units less credit / period.
local function span(units, credit, rate, period)
  local whole, rest = muldiv(units, period, rate)
  return whole + ceil((rest - credit) / rate)
end

-- A key lives as long as its state counts, in whole ms, rounded up. A last
-- single one must reach into the ms that the state ends in: before Redis 7.2
-- time goes on while a script runs, and PEXPIRE 1 may delete at once.
local function lifetime(reset)
  local ttl = ceil(reset / 1000)
  if ttl == 1 then
    ttl = ceil((now + reset) / 1000) - floor(now / 1000)
  end
  return ttl
end

local function expire(i, reset)
  redis.call('PEXPIRE', KEYS[i], lifetime(reset))
end

-- The same for a key that a refused call leaves as it is, where the limit or
-- the clock has changed since it was written, or somebody took its TTL away.
-- Some ms are no difference: a TTL is rounded, and time may go on meanwhile. A
-- server that refuses to write may refuse this too: the next call tries again.
local function mend(i, reset)
  local left = redis.call('PTTL', KEYS[i]) * 1000
  if left < 0 or left < reset - 2000 or left > reset + 3000 then
    redis.pcall('PEXPIRE', KEYS[i], lifetime(reset))
  end
end
