-- A script is head.lua, an algorithm (all.lua: those it needs), decide.lua where
-- it is used, and a tail: one.lua, batch.lua, reserve.lua, few.lua or all.lua. An
-- algorithm is three functions over KEYS[i], whose limit is rate, period and
-- capacity, the most units at once:
--   look(i, rate, period, capacity)
--        free, the units that could be taken now, below 0 in debt; and up to
--        four more values, its state as of now. State that is not of this
--        library's making is none.
--   wait(i, n, rate, period, capacity, state...)
--        µs until n more units are free, where they are not now
--   put(i, n, rate, period, capacity, state...)
--        takes n units, gives back -n, or only puts right what a changed limit
--        or clock has left; reset and free after it. Writes nothing in a peek.
-- What Redis runs has the functions written out where they are called, as it
-- would make them anew for each call, which takes longer than to run them: see
-- inline.go for how they must be written.
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
local sub, format = string.sub, string.format
local struct = rawget(_G, 'struct') or {} -- miniredis has none
local pack, parse = struct.pack, struct.unpack

local now, stamp, fetched = -1, nil, nil
if ARGV[1] == '0' then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = tonumber(ARGV[1])
end
local mode = ARGV[2]
local writes = mode ~= 'peek'

-- The whole part and the remainder of a * b / c, exact for c up to 2^45, also
-- where a * b is beyond 2^53: then by long multiplication, 7 bits of b a step.
local function muldiv(a, b, c)
  local product = (a + 0.0) * b
  local r = product % c
  local q = (product - r) / c
  if product >= 9007199254740992 then
    local skipped, digit, left = floor(a / c), 4398046511104, nil
    left = a - skipped * c
    q, r = 0, 0
    while digit >= 1 do
      r = r * 128 + left * (floor(b / digit) % 128)
      local times = floor(r / c)
      q, r = q * 128 + times, r - times * c
      digit = digit / 128
    end
    q = floor((skipped + 0.0) * b + q)
  end
  return q, r
end

-- The µs, rounded up, in which rate a period makes units less credit / period.
local function span(units, credit, rate, period)
  local quotient, rest = muldiv(units, period, rate)
  return quotient + ceil((rest - credit) / rate)
end

-- A key lives as long as its state counts, in whole ms, rounded up. A last
-- single one must reach into the ms that the state ends in: before Redis 7.2
-- time goes on while a script runs, and PEXPIRE 1 may delete at once.
local function lifetime(reset)
  local ms = ceil(reset / 1000)
  if ms == 1 then
    ms = ceil((now + reset) / 1000) - floor(now / 1000)
  end
  return ms
end

-- The TTL of a key that a refused call leaves as it is, where the limit or
-- the clock has changed since it was written, or somebody took its TTL away.
-- Some ms are no difference: a TTL is rounded, and time may go on meanwhile. A
-- server that refuses to write may refuse this too: the next call tries again.
local function mend(i, reset)
  local left = redis.call('PTTL', KEYS[i]) * 1000
  if left < 0 or left < reset - 2000 or left > reset + 3000 then
    local ttl = lifetime(reset)
    redis.pcall('PEXPIRE', KEYS[i], ttl)
  end
end

-- The string at KEYS[i], false if there is none.
local function get(i)
  local value = fetched and fetched[i] or redis.call('GET', KEYS[i])
  return value
end

-- A state is three numbers, each a double of 8 bytes, the lowest first: that
-- takes a script the least time. Where a server has no struct, it is text. Some have more text after them.
local function read(state)
  local a, b, c, text
  if not pack then
    a, b, c, text = string.match(state, '^(%S+) (%S+) (%S+) (.*)$')
    a, b, c = tonumber(a), tonumber(b), tonumber(c)
  elseif #state >= 24 then
    a, b, c = parse('<ddd', state)
    text = #state > 24 and sub(state, 25) or ''
  end
  return a, b, c, text
end

local function write(a, b, c)
  local text
  if pack then
    text = pack('<ddd', a, b, c)
  else
    text = format('%.17g %.17g %.17g ', a, b, c)
  end
  return text
end

-- now as text, which Lua by itself cuts to 14 digits. In a Redis for 32 bits %d
-- can't write it; %.0f is slower.
local function write_stamp()
  if not stamp then
    stamp = format('%016d', now)
    if tonumber(stamp) ~= now then
      stamp = format('%016.0f', now)
    end
  end
end

-- The state of a bucket: see token_bucket.lua. units is nil if it is none.
local function bucket(state)
  local since, rest, units, more = read(state)
  if not (since and rest and units and since % 1 == 0 and since < 9007199254740992 and rest >= 0 and rest <= 1
      and units % 1 == 0 and units > -9007199254740992) then
    units = nil
  end
  return since, rest, units, more ~= '' and more or nil
end

-- Keeps the state of a bucket as long as it counts, if it was written.
local function keep(i, written, reset, units, part, name)
  if reset == 0 then
    if written then
      redis.call('DEL', KEYS[i])
    end
  elseif written then
    local state = write(now, part, units)
    local ttl = lifetime(reset)
    redis.call('SET', KEYS[i], name and state .. name or state, 'PX', ttl)
  else
    mend(i, reset)
  end
end

-- Where Lua has integers, a whole double is none: a reply must have some.
local function whole(reply)
  if math.type then
    for j = 1, #reply do
      reply[j] = floor(reply[j])
    end
  end
  return reply
end
