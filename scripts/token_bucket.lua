-- KEYS[i] is a hash
--   tokens  whole tokens in the bucket at the time at
--   part    the fraction of a token beside them, in 1e-15
--   at      µs, when a call last took
-- A token is period units of credit; rate units come in each µs.
local function decide(i, rate, period, burst, n)
  local state = redis.call('HMGET', KEYS[i], 'tokens', 'part', 'at')
  local tokens, part, at = tonumber(state[1]), tonumber(state[2]), tonumber(state[3])
  local credit, set_back = 0, false
  if tokens and part and at then
    credit = floor((part + 0.0) * period / 1e15 + 0.5)
    set_back = at > now
    if not set_back then
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
    tokens, credit = burst, 0
  end

  local retry = 0
  if n > burst then
    retry = -1
  elseif n > tokens then
    retry = span(n - tokens, credit, rate, period)
  elseif take then
    tokens = tokens - n
  end
  local reset = 0
  if tokens < burst then
    reset = span(burst - tokens, credit, rate, period)
  end
  if take and reset > 0 and (retry == 0 or set_back) then
    redis.call('HSET', KEYS[i], 'tokens', tokens, 'part', floor(credit / period * 1e15 + 0.5), 'at', now)
    expire(i, reset)
  elseif take and reset > 0 then
    mend(i, reset)
  end
  return tokens, retry, reset
end
