-- KEYS[i] is a hash
--   level  whole units in the bucket at the time at; in debt, when there are
--          more than it holds, how many more, as -1 - units
--   part   the fraction of a unit beside them, in 1e-15
--   at     µs, when a call last took
-- A unit is period units of credit; rate units of it leak out each µs.
local function look(i, rate, period, burst)
  local state = redis.call('HMGET', KEYS[i], 'level', 'part', 'at')
  local level, part, at = tonumber(state[1]), tonumber(state[2]), tonumber(state[3])
  local credit, changed, debt = 0, false, false
  if level and part and at then
    debt = level < 0
    if debt then
      level = burst - 1 - level
    end
    credit = floor((part + 0.0) * period / 1e15 + 0.5)
    if credit >= period then
      level, credit = level + 1, credit - period
    end
    changed = at > now
    if not changed then
      local whole, rest = muldiv(now - at, rate, period)
      level, credit = level - whole, credit - rest
      if credit < 0 then
        level, credit = level - 1, credit + period
      end
    end
  else
    level = 0
  end
  if level < 0 or level == 0 and credit == 0 then
    level, credit, changed = 0, 0, part and 'empty'
  else
    -- The burst was cut: what is over it goes, or it would have to leak first.
    -- No debt is more than a burst.
    local most = debt and 2 * burst or burst
    if level > most or level == most and credit > 0 then
      level, credit, changed = most, 0, true
    end
  end
  return burst - level - (credit > 0 and 1 or 0), level, credit, changed
end

local function wait(i, n, rate, period, burst, level, credit)
  return span(level + n - burst, -credit, rate, period)
end

local function put(i, n, rate, period, burst, level, credit, changed)
  level = level + n
  if level < 0 then
    level, credit = 0, 0
  end
  local reset = span(level, -credit, rate, period)
  local free = burst - level - (credit > 0 and 1 or 0)
  if not writes then
    return reset, free
  end
  if reset == 0 then
    if n < 0 then
      redis.call('DEL', KEYS[i])
    end
  elseif n ~= 0 or changed then
    local stored = level
    if free < 0 then
      stored = burst - 1 - level
    end
    if changed == 'empty' then
      redis.call('HSET', KEYS[i], 'name', '')
    end
    redis.call('HSET', KEYS[i], 'level', stored, 'part', floor(credit / period * 1e15 + 0.5), 'at', now)
    expire(i, reset)
  else
    mend(i, reset)
  end
  return reset, free
end
