-- usage: lua trace.lua DIRECTORY ALGORITHM SEED STEPS    with the scripts that TestScriptsAreWhole writes
--
-- Runs an algorithm's scripts, or those of 'all' at once, on random requests,
-- with a small stand-in for Redis, and prints all that they answer and write. Dragonfly has Lua 5.4, where
-- Redis has 5.1: the traces of both must be the same, and no number that leaves
-- a script may be a double there, as it would be written with a point.
local spread = table.unpack or unpack
local directory, algorithm, seed, steps = arg[1], arg[2], tonumber(arg[3]), tonumber(arg[4])

local function read(name)
  local file = assert(io.open(directory .. '/' .. name .. '.lua'))
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

-- A key has a value, a table of fields, of times, or of the count, and a deadline in ms.
local now, store = nil, {}
local commands = {
  TIME = function()
    return { string.format('%d', math.floor(now / 1000000)), string.format('%d', math.floor(now % 1000000)) }
  end,
  HMGET = function(key, ...)
    local reply = {}
    for i, field in ipairs({ ... }) do
      reply[i] = key.value and key.value[field] or false
    end
    return reply
  end,
  HGET = function(key, field)
    return key.value and key.value[field] or false
  end,
  HSET = function(key, ...)
    local fields = { ... }
    key.value = key.value or {}
    for i = 1, #fields, 2 do
      key.value[fields[i]] = fields[i + 1]
    end
  end,
  HSETNX = function(key, field, value)
    key.value = key.value or {}
    key.value[field] = key.value[field] or value
  end,
  GET = function(key)
    return key.value and key.value[1] or false
  end,
  MGET = function(...)
    local values = {}
    for i, key in ipairs({ ... }) do
      values[i] = key.value and key.value[1] or false
    end
    return values
  end,
  SET = function(key, count, _, ttl)
    key.value, key.deadline = { count }, math.floor(now / 1000) + tonumber(ttl)
  end,
  INCRBY = function(key, n)
    key.value[1] = string.format('%.0f', key.value[1] + n)
  end,
  DECRBY = function(key, n)
    key.value[1] = string.format('%.0f', key.value[1] - n)
  end,
  LLEN = function(key)
    return key.value and #key.value or 0
  end,
  LINDEX = function(key, i)
    i = tonumber(i)
    return key.value[i < 0 and #key.value + i + 1 or i + 1] or false
  end,
  RPUSH = function(key, ...)
    key.value = key.value or {}
    for _, time in ipairs({ ... }) do
      key.value[#key.value + 1] = time
    end
  end,
  LTRIM = function(key, first, last)
    local kept = {}
    for i = tonumber(first) + 1, tonumber(last) < 0 and #key.value + tonumber(last) + 1 or tonumber(last) + 1 do
      kept[#kept + 1] = key.value[i]
    end
    key.value = #kept > 0 and kept or nil
  end,
  LREM = function(key, n, time)
    n = -tonumber(n)
    for i = key.value and #key.value or 0, 1, -1 do
      if n > 0 and key.value[i] == time then
        table.remove(key.value, i)
        n = n - 1
      end
    end
    key.value = key.value and #key.value > 0 and key.value or nil
  end,
  DEL = function(key)
    local there = key.value and 1 or 0
    key.value, key.deadline = nil, nil
    return there
  end,
  PEXPIRE = function(key, ttl)
    key.deadline = math.floor(now / 1000) + tonumber(ttl)
  end,
  PTTL = function(key)
    return key.deadline and math.floor(key.deadline - math.floor(now / 1000)) or -1
  end,
}

local function at(name)
  local key = store[name] or {}
  store[name] = key
  if not key.value or key.deadline and now / 1000 >= key.deadline + 1 then
    key.value, key.deadline = nil, nil
  end
  return key
end

redis = {
  call = function(command, name, ...)
    local args = { ... }
    for i = 1, #args do
      args[i] = text(args[i])
    end
    print(command, name or '', table.concat(args, ' ', 1, math.min(#args, 8)))
    if command == 'MGET' then
      for i = 1, #args do
        args[i] = at(args[i])
      end
    end
    return assert(commands[command], command)(command == 'TIME' or at(name), spread(args))
  end,
}

redis.pcall = redis.call

local algorithms = { 'token_bucket', 'leaky_bucket', 'fixed_window', 'sliding_window_log', 'sliding_window_counter' }
local compile = loadstring or load
local decide, several, reserve, all
if algorithm == 'all' then
  all = { [2] = 'two', [4] = 'few', [5] = 'all' }
  for i, name in pairs(all) do
    all[i] = assert(compile(read(name)))
  end
else
  decide = assert(compile(read(algorithm)))
  several = assert(compile(read(algorithm .. '_batch')))
  reserve = assert(compile(read(algorithm .. '_reserve')))
end

local units = { 1, 2, 3, 7, 100, 1000, 999983, 1000000, 1000000000, 999999999989, 1000000000000 }
local periods = { 1, 2, 7, 1000, 1001, 1500, 1000000, 999999999, 3600000000, 86400000000, 31622399999999, 31622400000000 }

local function change(limit)
  limit.rate, limit.period = of(units), of(periods)
  if limit.algorithm == 'sliding_window_log' then
    limit.rate = of({ 1, 2, 3, 5, 10 })
  end
  limit.capacity = limit.rate
  if limit.algorithm == 'token_bucket' or limit.algorithm == 'leaky_bucket' then
    limit.capacity = of(units)
    if (limit.capacity + 0.0) * limit.period / limit.rate > 3.15e15 then
      limit.rate, limit.capacity = limit.capacity, 1
    end
  end
end

local function some(capacity)
  return of({ 1, 1, random(20) + 1, capacity, math.floor(capacity / 2) + 1, capacity + 1 })
end

local function run(script, keys, ...)
  KEYS, ARGV = keys, { ... }
  for i = 1, #ARGV do
    ARGV[i] = type(ARGV[i]) == 'number' and string.format('%.0f', ARGV[i]) or ARGV[i]
  end
  print('call', string.format('%.0f', now), table.concat(ARGV, ' '))
  local reply = script()
  for i = 1, #reply do
    reply[i] = text(reply[i])
  end
  print('reply', table.concat(reply, ' '))
end

local limits = {}
for i, name in ipairs(algorithms) do
  limits[i] = { number = i, algorithm = algorithm == 'all' and name or algorithm, key = 'key' .. i }
  change(limits[i])
end
local open = {}

now = 1700000000000000 + random(1000000)
for step = 1, steps do
  local l = limits[algorithm == 'all' and random(#limits) + 1 or 1]
  if random(6) == 0 then
    change(l)
  end
  now = now + of({
    0, 1, random(5000), random(1000000), l.period, math.floor(l.period / l.rate), math.floor(l.period * random(100) / 50),
    -random(100000), random(30000) * random(30000) * random(1000),
  })
  if now < 1600000000000000 or now > 4000000000000000 then
    now = 1700000000000000
  end
  local clock = l.algorithm == 'fixed_window' and '-1' or '0'
  if algorithm == 'all' then
    local keys, argv = {}, {}
    -- The limits by which TestScriptsAreWhole makes each.
    local picked = of({ { 3, 5 }, { 4, 1, 2, 1 }, { 1, 2, 3, 4, 5 } })
    for i = 1, #picked do
      local one = limits[picked[i]]
      keys[i] = one.key .. (i == 4 and #picked == 4 and 'b' or '')
      for _, number in ipairs({ one.number, one.rate, one.period, one.capacity, some(one.capacity) }) do
        argv[#argv + 1] = number
      end
    end
    run(all[#keys], keys, '0', random(5) == 0 and 'peek' or 'take', spread(argv))
  elseif random(3) > 0 then
    local mode, n = of({ 'take', 'take', 'upto', 'charge', 'peek' }), some(l.capacity)
    if mode == 'charge' and random(2) == 0 then
      n = -n
    end
    if random(3) > 0 then
      run(decide, { l.key }, clock, mode, n, l.rate, l.period, l.capacity)
    elseif random(2) == 0 then
      run(several, { l.key, 'other', l.key }, clock, mode, '0', n, l.rate, l.period, l.capacity)
    else
      local fetch = mode ~= 'charge' and l.algorithm ~= 'sliding_window_log' and '1' or '0'
      run(several, { l.key, 'other' }, clock, mode, fetch, n, l.rate, l.period, l.capacity, 1, l.rate, l.period, l.capacity)
    end
  elseif random(2) == 0 then
    open[#open + 1] = 'reservation' .. step
    run(reserve, { l.key, open[#open] }, '0', 'reserve', some(l.capacity), l.rate, l.period, l.capacity, l.algorithm, step, 86400000)
  elseif #open > 0 then
    local n = of({ 0, 1, some(l.capacity) })
    run(reserve, { l.key, open[random(#open) + 1] }, '0', 'settle', n, l.rate, l.period, l.capacity, l.algorithm, 0, 0)
  end
end
