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

local function look(i, rate, period)
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
  local weight = muldiv(before, period - (now - start), period)
  if count == 0 and weight == 0 then
    start, before = now, 0
  end
  return rate - weight - count, start, count, before, set_back
end

local function wait(i, n, rate, period, capacity, start, count, before)
  if count + n <= rate then
    return fade(before, rate - count - n, period) - (now - start)
  end
  return period - (now - start) + fade(count, rate - n, period)
end

local function put(i, n, rate, period, capacity, start, count, before, set_back)
  count = count + n
  if count < 0 then
    before, count = before + count, 0
    if before < 0 then
      before = 0
    end
  end
  local elapsed, reset = now - start, 0
  if count > 0 then
    reset = period - elapsed + fade(count, 0, period)
  elseif before > 0 then
    reset = fade(before, 0, period) - elapsed
    if reset < 0 then
      reset = 0
    end
  end
  if writes then
    if reset == 0 then
      if n < 0 then
        redis.call('DEL', KEYS[i])
      end
    elseif n ~= 0 or set_back then
      redis.call('HSET', KEYS[i], 'start', start, 'count', count, 'before', before)
      expire(i, reset)
    else
      mend(i, reset)
    end
  end
  return reset, rate - muldiv(before, period - elapsed, period) - count
end
