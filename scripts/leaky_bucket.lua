-- KEYS[i] is a hash
--   level  whole units in the bucket at the time at
--   part   the fraction of a unit beside them, in 1e-15
--   at     µs, when a call last took
-- A unit is period units of credit; rate units of it leak out each µs.
local function decide(i, rate, period, burst, n)
  local state = redis.call('HMGET', KEYS[i], 'level', 'part', 'at')
  local level, part, at = tonumber(state[1]), tonumber(state[2]), tonumber(state[3])
  local credit, changed = 0, false
  if level and part and at then
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
  if level < 0 then
    level, credit = 0, 0
  elseif level > burst or level == burst and credit > 0 then
    -- The burst was cut: what is over it goes, or it would have to leak first.
    level, credit, changed = burst, 0, true
  end

  local retry = 0
  local free = burst - level
  if credit > 0 then
    free = free - 1
  end
  if n > burst then
    retry = -1
  elseif n > free then
    retry = span(level + n - burst, -credit, rate, period)
  elseif take then
    level, free = level + n, free - n
  end
  local reset = span(level, -credit, rate, period)
  if take and reset > 0 and (retry == 0 or changed) then
    redis.call('HSET', KEYS[i], 'level', level, 'part', floor(credit / period * 1e15 + 0.5), 'at', now)
    expire(i, reset)
  elseif take and reset > 0 then
    mend(i, reset)
  end
  return free, retry, reset
end
