-- KEYS[i] is a hash
--   tokens  whole tokens in the bucket at the time at, below 0 in debt
--   part    the fraction of a token beside them, in 1e-15
--   at      µs, when a call last took
-- A token is period units of credit; rate units come in each µs.
local function look(i, rate, period, burst)
  local state = redis.call('HMGET', KEYS[i], 'tokens', 'part', 'at')
  local tokens, part, at = tonumber(state[1]), tonumber(state[2]), tonumber(state[3])
  local credit, changed = 0, false
  if tokens and part and at then
    credit = floor((part + 0.0) * period / 1e15 + 0.5)
    changed = at > now
    if not changed then
      local whole, rest = muldiv(now - at, rate, period)
      tokens, credit = tokens + whole, credit + rest
    end
    if credit >= period then
      tokens, credit = tokens + 1, credit - period
    end
  else
    tokens = burst
  end
  if tokens >= burst then
    tokens, credit, changed = burst, 0, part and 'full'
  elseif tokens < -burst then
    -- The burst was cut: no debt is more than a burst.
    tokens, credit, changed = -burst, 0, true
  end
  return tokens, tokens, credit, changed
end

local function wait(i, n, rate, period, burst, tokens, credit)
  return span(n - tokens, credit, rate, period)
end

local function put(i, n, rate, period, burst, tokens, credit, changed)
  tokens = tokens - n
  if tokens >= burst then
    tokens, credit = burst, 0
  end
  local reset = 0
  if tokens < burst then
    reset = span(burst - tokens, credit, rate, period)
  end
  if not writes then
    return reset, tokens
  end
  if reset == 0 then
    if n < 0 then
      redis.call('DEL', KEYS[i])
    end
  elseif n ~= 0 or changed then
    if changed == 'full' then
      redis.call('HSET', KEYS[i], 'name', '')
    end
    redis.call('HSET', KEYS[i], 'tokens', tokens, 'part', floor(credit / period * 1e15 + 0.5), 'at', now)
    expire(i, reset)
  else
    mend(i, reset)
  end
  return reset, tokens
end
