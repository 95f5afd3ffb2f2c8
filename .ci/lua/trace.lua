-- usage: lua trace.lua ALGORITHM SEED STEPS    in the root of the repository
--
-- Runs an algorithm's script on random requests, with a small stand-in for
-- Redis, and prints all that it answers and writes. Dragonfly has Lua 5.4, where
-- Redis has 5.1: the traces of both must be the same, and no number that leaves
-- a script may be a double there, as it would be written with a point.
local spread = table.unpack or unpack
local algorithm, seed, steps = arg[1], tonumber(arg[2]), tonumber(arg[3])

local function read(name)
  local file = assert(io.open('scripts/' .. name .. '.lua'))
  local text = file:read('*a')
  file:close()
  return text
end

-- Park and Miller's generator, which needs no more than doubles.
local function random(n)
  seed = seed * 16807 % 2147483647
  return math.floor(seed / 64) % n
end

local function of(list)
  return list[random(#list) + 1]
end

local function text(x)
  if math.type and math.type(x) == 'float' then
    error('a double leaves the script: ' .. x)
  end
  return type(x) == 'number' and string.format('%.0f', x) or x
end

-- One key, whose value is a table of fields, of times, or of the count; deadline in ms.
local now, value, deadline
local commands = {
  TIME = function()
    return { string.format('%d', math.floor(now / 1000000)), string.format('%d', math.floor(now % 1000000)) }
  end,
  HMGET = function(...)
    local reply = {}
    for i, field in ipairs({ ... }) do
      reply[i] = value and value[field] or false
    end
    return reply
  end,
  HSET = function(...)
    local fields = { ... }
    value = value or {}
    for i = 1, #fields, 2 do
      value[fields[i]] = fields[i + 1]
    end
  end,
  GET = function()
    return value and value[1] or false
  end,
  SET = function(count, _, ttl)
    value, deadline = { count }, math.floor(now / 1000) + tonumber(ttl)
  end,
  INCRBY = function(n)
    value[1] = string.format('%.0f', value[1] + n)
  end,
  LLEN = function()
    return value and #value or 0
  end,
  LINDEX = function(i)
    i = tonumber(i)
    return value[i < 0 and #value + i + 1 or i + 1] or false
  end,
  RPUSH = function(...)
    value = value or {}
    for _, time in ipairs({ ... }) do
      value[#value + 1] = time
    end
  end,
  LTRIM = function(first, last)
    local kept = {}
    for i = tonumber(first) + 1, tonumber(last) < 0 and #value or tonumber(last) + 1 do
      kept[#kept + 1] = value[i]
    end
    value = #kept > 0 and kept or nil
  end,
  DEL = function()
    value, deadline = nil, nil
  end,
  PEXPIRE = function(ttl)
    deadline = math.floor(now / 1000) + tonumber(ttl)
  end,
  PTTL = function()
    return deadline and math.floor(deadline - math.floor(now / 1000)) or -1
  end,
}
redis = {
  call = function(command, _, ...)
    local args = { ... }
    for i = 1, #args do
      args[i] = text(args[i])
    end
    print(command, table.concat(args, ' ', 1, math.min(#args, 8)))
    return assert(commands[command], command)(spread(args))
  end,
}

local script = assert((loadstring or load)(read('head') .. read(algorithm) .. read('tail')))

local units = { 1, 2, 3, 7, 100, 1000, 999983, 1000000, 1000000000, 999999999989, 1000000000000 }
local periods = { 1, 2, 7, 1000, 1001, 1500, 1000000, 999999999, 3600000000, 86400000000, 31622399999999, 31622400000000 }
local rate, period, capacity

local function change()
  rate, period = of(units), of(periods)
  if algorithm == 'sliding_window_log' then
    rate = of({ 1, 2, 3, 5, 10 })
  end
  capacity = rate
  if algorithm == 'token_bucket' or algorithm == 'leaky_bucket' then
    capacity = of(units)
    if (capacity + 0.0) * period / rate > 3.15e15 then
      rate, capacity = capacity, 1
    end
  end
end

now = 1700000000000000 + random(1000000)
for _ = 1, steps do
  if not rate or random(6) == 0 then
    change()
  end
  now = now + of({
    0, 1, random(5000), random(1000000), period, math.floor(period / rate), math.floor(period * random(100) / 50),
    -random(100000), random(30000) * random(30000) * random(1000),
  })
  if now < 1600000000000000 or now > 4000000000000000 then
    now = 1700000000000000
  end
  if deadline and now / 1000 >= deadline + 1 then
    value, deadline = nil, nil
  end
  KEYS = { 'key' }
  ARGV = { algorithm == 'fixed_window' and '-1' or '0', random(5) == 0 and 'peek' or 'take' }
  for i, number in ipairs({ rate, period, capacity, of({ 1, 1, random(20) + 1, capacity, math.floor(capacity / 2) + 1, capacity + 1 }) }) do
    ARGV[i + 2] = string.format('%.0f', number)
  end
  print('call', string.format('%.0f', now), table.concat(ARGV, ' '))
  local reply = script()
  for i = 1, #reply do
    reply[i] = text(reply[i])
  end
  print('reply', table.concat(reply, ' '))
end
