-- KEYS[i] is a hash
--   start   µs, when the window began
--   count   units taken in it
--   before  units taken in the window before it
-- How long into a window until at most `most` of the units before it count.
local function fade(units, most, period)
  if units <= most then
    return 0
  end
  local whole, rest = muldiv(most + 1, period, units)
  if rest == 0 then
    whole = whole - 1
  end
  return period - whole
end

local function decide(i, rate, period, capacity, n)
  local state = redis.call('HMGET', KEYS[i], 'start', 'count', 'before')
  local start, count, before = tonumber(state[1]), tonumber(state[2]), tonumber(state[3])
  local set_back = false
  if not (start and count and before) then
    start, count, before = now, 0, 0
  end
  if start > now then
    start, set_back = now, true
  end
  local windows = floor((now - start) / period)
  if windows == 1 then
    before, count, start = count, 0, start + period
  elseif windows > 1 then
    start, count, before = now, 0, 0
  end
  local elapsed = now - start
  local weight = muldiv(before, period - elapsed, period)
  if count == 0 and weight == 0 then
    start, before, elapsed = now, 0, 0
  end

  local retry = 0
  if n > capacity then
    retry = -1
  elseif weight + count + n > rate then
    if count + n <= rate then
      retry = fade(before, rate - count - n, period) - elapsed
    else
      retry = period - elapsed + fade(count, rate - n, period)
    end
  elseif take then
    count = count + n
  end
  local reset = 0
  if count > 0 then
    reset = period - elapsed + fade(count, 0, period)
  elseif weight > 0 then
    reset = fade(before, 0, period) - elapsed
  end
  if take and reset > 0 and (retry == 0 or set_back) then
    redis.call('HSET', KEYS[i], 'start', start, 'count', count, 'before', before)
    expire(i, reset)
  elseif take and reset > 0 then
    mend(i, reset)
  end
  local remaining = rate - weight - count
  if remaining < 0 then
    remaining = 0
  end
  return remaining, retry, reset
end
