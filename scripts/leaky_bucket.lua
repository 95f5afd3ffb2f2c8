-- KEYS[i] is a state of three numbers, and a name for reservations if it has one
--   at     µs, when a call last took
--   part   the fraction of a unit beside the level
--   level  whole units in the bucket at the time at; in debt, when there are
--          more than it holds, how many more, as -1 - units
-- A unit is period units of credit; rate units of it leak out each µs.
local function look(i, rate, period, burst)
  local state = get(i)
  local at, part, level, name
  local credit, changed, most = 0, false, burst
  if state then
    at, part, level, name = bucket(state)
  end
  if level then
    if level < 0 then
      level, most = burst - 1 - level, 2 * burst
    end
    credit = part * period + 0.5
    credit = credit - credit % 1
    if credit >= period then
      level, credit = level + 1, credit - period
    end
    changed = at > now
    if not changed then
      local gone, rest = muldiv(now - at, rate, period)
      level, credit = level - gone, credit - rest
      if credit < 0 then
        level, credit = level - 1, credit + period
      end
    end
  end
  if not level or level < 0 or level == 0 and credit == 0 then
    level, credit, changed, name = 0, 0, false, nil
  elseif level > most or level == most and credit > 0 then
    -- The burst was cut: what is over it goes, or it would have to leak first.
    -- No debt is more than a burst.
    level, credit, changed = most, 0, true
  end
  return burst - level - (credit > 0 and 1 or 0), level, credit, changed, name
end

local function wait(i, n, rate, period, burst, level, credit)
  local time = span(level + n - burst, -credit, rate, period)
  return time
end

local function put(i, n, rate, period, burst, level, credit, changed, name)
  level = level + n
  if level < 0 then
    level, credit = 0, 0
  end
  local reset = span(level, -credit, rate, period)
  local free = burst - level - (credit > 0 and 1 or 0)
  if writes then
    keep(i, n ~= 0 or changed, reset, free < 0 and burst - 1 - level or level, credit / period, name)
  end
  return reset, free
end
