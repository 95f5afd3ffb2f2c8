-- KEYS[i] is a list: the µs at which each unit was taken, oldest first.
local unpack = table.unpack or unpack

-- How many of the first len times are at or before edge: by doubling, then by
-- halving, as most often few are.
local function count_until(i, len, edge)
  if len == 0 or tonumber(redis.call('LINDEX', KEYS[i], 0)) > edge then
    return 0
  end
  local low, high = 0, 1
  while high < len and tonumber(redis.call('LINDEX', KEYS[i], high)) <= edge do
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
  if n == 1 then
    redis.call('RPUSH', KEYS[i], now)
    return
  end
  local times = {}
  for j = 1, n < 1000 and n or 1000 do
    times[j] = now
  end
  while n > 0 do
    redis.call('RPUSH', KEYS[i], unpack(times, 1, n < 1000 and n or 1000))
    n = n - 1000
  end
end

local function decide(i, rate, period, capacity, n)
  local len = redis.call('LLEN', KEYS[i])
  local last = now
  if len > 0 then
    last = tonumber(redis.call('LINDEX', KEYS[i], -1))
  end
  local gone = len
  if last > now - period then
    gone = count_until(i, len, now - period)
  end
  local used = len - gone

  local retry, reset = 0, 0
  if used > 0 then
    reset = math.min(last, now) + period - now
  end
  if n > capacity then
    retry = -1
  elseif used + n > rate then
    -- The last of the units that must leave first.
    local time = tonumber(redis.call('LINDEX', KEYS[i], gone + used + n - rate - 1))
    retry = math.min(time, now) + period - now
  end
  if take and (retry == 0 or last > now) then
    if gone > 0 then
      redis.call('LTRIM', KEYS[i], gone, -1)
    end
    -- After the clock was set back, times to come become now.
    if last > now then
      local kept = count_until(i, used, now)
      if kept > 0 then
        redis.call('LTRIM', KEYS[i], 0, kept - 1)
      else
        redis.call('DEL', KEYS[i])
      end
      append(i, used - kept)
    end
    if retry == 0 then
      append(i, n)
      used, reset = used + n, period
    end
    expire(i, reset)
  elseif take and reset > 0 then
    mend(i, reset)
  end
  local remaining = rate - used
  if remaining < 0 then
    remaining = 0
  end
  return remaining, retry, reset
end
