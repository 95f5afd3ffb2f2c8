-- KEYS[i] is a list: the µs at which each unit was taken, oldest first.

-- How many of the first len times are at or before edge: by doubling, then by
-- halving, as most often few are.
local function count_until(i, len, edge)
  local low, high = 0, 1
  if len == 0 or tonumber(redis.call('LINDEX', KEYS[i], 0)) > edge then
    high = 0
  end
  while high > 0 and high < len and tonumber(redis.call('LINDEX', KEYS[i], high)) <= edge do
    low, high = high, high * 2
  end
  if high > len then
    high = len
  end
  while high - low > 1 do
    local middle = floor((low + high) / 2)
    if tonumber(redis.call('LINDEX', KEYS[i], middle)) <= edge then
      low = middle
    else
      high = middle
    end
  end
  return high
end

local function append(i, n)
  write_stamp()
  if n == 1 then
    redis.call('RPUSH', KEYS[i], stamp)
  else
    local unpack, times = table.unpack or unpack, {}
    for j = 1, n < 1000 and n or 1000 do
      times[j] = stamp
    end
    while n > 0 do
      redis.call('RPUSH', KEYS[i], unpack(times, 1, n < 1000 and n or 1000))
      n = n - 1000
    end
  end
end

local function look(i, rate, period)
  local len = redis.call('LLEN', KEYS[i])
  local last = now
  if len > 0 then
    last = tonumber(redis.call('LINDEX', KEYS[i], -1))
  end
  local gone = len
  if last > now - period then
    gone = count_until(i, len, now - period)
  end
  return rate - (len - gone), len, gone, last
end

-- Until the last of the units has left that must leave first.
local function wait(i, n, rate, period, capacity, len, gone)
  local time = tonumber(redis.call('LINDEX', KEYS[i], len + n - rate - 1))
  return math.min(time, now) + period - now
end

local function put(i, n, rate, period, capacity, len, gone, last)
  local used, reset = len - gone, 0
  if n > 0 then
    reset = period
  elseif used > 0 then
    reset = math.min(last, now) + period - now
  end
  if not writes then
    -- A peek.
  elseif -n >= used and n < 0 then
    redis.call('DEL', KEYS[i])
    used, n, reset = 0, 0, 0
  elseif n ~= 0 or last > now then
    -- The list is never empty on the way: a cluster that moves its slot would
    -- not let it be made again here.
    if gone > 0 and gone < len then
      redis.call('LTRIM', KEYS[i], gone, -1)
    end
    -- After the clock was set back, times to come become now.
    if last > now then
      local kept = count_until(i, used, now)
      if kept > 0 then
        redis.call('LTRIM', KEYS[i], 0, kept - 1)
      end
      append(i, used - kept)
      if kept == 0 then
        redis.call('LTRIM', KEYS[i], used, -1)
      end
    end
    if n > 0 then
      append(i, n)
      if gone > 0 and gone == len then
        redis.call('LTRIM', KEYS[i], gone, -1)
      end
    elseif n < 0 then
      redis.call('LTRIM', KEYS[i], 0, n - 1)
      reset = tonumber(redis.call('LINDEX', KEYS[i], -1)) + period - now
    end
    local ttl = lifetime(reset)
    redis.call('PEXPIRE', KEYS[i], ttl)
  elseif reset > 0 then
    mend(i, reset)
  end
  return reset, rate - used - n
end
