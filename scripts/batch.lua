-- The tail of several requests, decided in their order.
-- ARGV[3]  '1' if each key is a string that is there once and looked at once:
--          then they are fetched together
-- ARGV[4] to ARGV[7]
--          n, rate, period in µs, capacity of all requests, or
-- ARGV[4*i] to ARGV[4*i+3]
--          of request i
-- One that fails must not fail the others. It has -1 for granted, and what it
-- says comes after all answers: its length and its bytes. A replica refuses
-- every write, so there nothing was done and the error is that of all.
local count = #KEYS
local reply, said, done, each = {}, {}, 0, #ARGV > 7

-- Decides those that are not done. An error leaves those after it.
local function decide_rest()
  -- A local is faster than a global or what is outside a function.
  local KEYS, ARGV, redis, tonumber, floor, ceil = KEYS, ARGV, redis, tonumber, floor, ceil
  local now, mode, writes, pack, parse, reply = now, mode, writes, pack, parse, reply
  local fetched, each = fetched, each
  local n, rate, period, capacity = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
  for i = done + 1, count do
    done = i
    if each then
      local r = 4 * i
      n, rate, period, capacity = tonumber(ARGV[r]), tonumber(ARGV[r + 1]), tonumber(ARGV[r + 2]), tonumber(ARGV[r + 3])
    end
    local took, left, again, full = decide(i, n, rate, period, capacity)
    local a = 4 * i
    reply[a - 3], reply[a - 2], reply[a - 1], reply[a] = took, left, again, full
  end
end

if ARGV[3] == '1' then
  fetched = redis.call('MGET', (table.unpack or unpack)(KEYS))
end
local rest = decide_rest
repeat
  local ok, err = pcall(rest)
  if not ok then
    local text = type(err) == 'table' and err.err or tostring(err)
    local readonly = string.match(text, 'READONLY.*')
    if readonly then
      return { err = readonly }
    end
    said[#said + 1] = sub(text, 1, 200)
    local a = 4 * done
    reply[a - 3], reply[a - 2], reply[a - 1], reply[a] = -1, 0, 0, 0
  end
until ok
for _, text in ipairs(said) do
  reply[#reply + 1] = #text
  for j = 1, #text do
    reply[#reply + 1] = string.byte(text, j)
  end
end
reply = whole(reply)
return reply
