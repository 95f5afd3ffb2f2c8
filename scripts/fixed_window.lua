-- KEYS[i] is a counter, the units taken in the window. Its TTL is the window,
-- so time is counted in the milliseconds of the server's expiry, and no clock
-- is read.
local function decide(i, rate, period, capacity, n)
  local window = ceil(period / 1000)
  local count = redis.call('GET', KEYS[i])
  local left, mended = 0, false
  if count then
    left = redis.call('PTTL', KEYS[i])
    -- No TTL, or one from before the period was cut or the clock set back.
    mended = left == -1 or left > window
    if mended then
      left = window
    end
  end
  -- In its last millisecond a key is still there, but its window is over.
  local fresh = left <= 0
  if fresh then
    count, left = 0, 0
  end
  count = tonumber(count) or 0

  local retry = 0
  if n > capacity then
    retry = -1
  elseif count + n > rate then
    retry = left * 1000
  elseif take then
    count = count + n
    if fresh then
      left = window
      redis.call('SET', KEYS[i], n, 'PX', window)
    else
      redis.call('INCRBY', KEYS[i], n)
    end
  end
  if mended and take then
    redis.call('PEXPIRE', KEYS[i], window)
  end
  local remaining = rate - count
  if remaining < 0 then
    remaining = 0
  end
  return remaining, retry, left * 1000
end
