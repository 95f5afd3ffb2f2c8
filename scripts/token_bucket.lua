-- KEYS[i] is a state of three numbers, and a name for reservations if it has one
--   at      µs, when a call last took
--   part    the fraction of a token beside them
--   tokens  whole tokens in the bucket at the time at, below 0 in debt
-- A token is period units of credit; rate units come in each µs.
local function look(i, rate, period, burst)
  local state = get(i)
  local at, part, tokens, name
  local credit, changed = 0, false
  if state then
    at, part, tokens, name = bucket(state)
  end
  if tokens then
    credit = part * period + 0.5
    credit = credit - credit % 1
    changed = at > now
    if not changed then
      local come, rest = muldiv(now - at, rate, period)
      tokens, credit = tokens + come, credit + rest
    end
    if credit >= period then
      tokens, credit = tokens + 1, credit - period
    end
  end
  if not tokens or tokens >= burst then
    tokens, credit, changed, name = burst, 0, false, nil
  elseif tokens < -burst then
    -- The burst was cut: no debt is more than a burst.
    tokens, credit, changed = -burst, 0, true
  end
  return tokens, tokens, credit, changed, name
end

local function wait(i, n, rate, period, burst, tokens, credit)
  local time = span(n - tokens, credit, rate, period)
  return time
end

local function put(i, n, rate, period, burst, tokens, credit, changed, name)
  local reset = 0
  tokens = tokens - n
  if tokens >= burst then
    tokens = burst
  else
    reset = span(burst - tokens, credit, rate, period)
  end
  if writes then
    keep(i, n ~= 0 or changed, reset, tokens, credit / period, name)
  end
  return reset, tokens
end
