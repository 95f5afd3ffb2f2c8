-- KEYS[i] is a counter, the units taken in the window. Its TTL is the window,
-- so time is counted in the milliseconds of the server's expiry, and no clock
-- is read.
local function look(i, rate, period)
  local count = get(i)
  local left, mended = 0, false
  if count then
    local window = ceil(period / 1000)
    left = redis.call('PTTL', KEYS[i])
    -- No TTL, or one from before the period was cut or the clock set back.
    mended = left == -1 or left > window
    if mended then
      left = window
    end
  end
  -- In its last millisecond a key is still there, but its window is over.
  if left <= 0 then
    count, left = 0, 0
  end
  count = tonumber(count) or 0
  return rate - count, count, left, mended
end

local function wait(i, n, rate, period, capacity, count, left)
  return left * 1000
end

local function put(i, n, rate, period, capacity, count, left, mended)
  count = count + n
  if n > 0 and left == 0 then
    left = ceil(period / 1000)
    redis.call('SET', KEYS[i], n, 'PX', left)
  elseif n < 0 and count <= 0 then
    redis.call('DEL', KEYS[i])
    count, left = 0, 0
  elseif writes then
    if n > 0 then
      redis.call('INCRBY', KEYS[i], n)
    elseif n < 0 then
      redis.call('DECRBY', KEYS[i], -n)
    end
    if mended then
      redis.pcall('PEXPIRE', KEYS[i], left) -- see mend
    end
  end
  return left * 1000, rate - count
end
