-- KEYS[i] is a state of three numbers
--   start   µs, when the window began
--   count   units taken in it
--   before  units taken in the window before it
-- How long into a window until at most `most` of the units before it count.
local function fade(units, most, period)
  local time = 0
  if units > most then
    local quotient, rest = muldiv(most + 1, period, units)
    time = period - quotient
    if rest == 0 then
      time = time + 1
    end
  end
  return time
end

local function look(i, rate, period)
  local state = get(i)
  local start, count, before
  if state then
    start, count, before = read(state)
  end
  local set_back = false
  if not (start and count and before and start % 1 == 0 and start >= 0 and count % 1 == 0 and count >= 0
      and before % 1 == 0 and before >= 0 and start < 9007199254740992 and count + before < 9007199254740992) then
    start, count, before = now, 0, 0
  end
  if start > now then
    start, set_back = now, true
  end
  if now - start >= 2 * period then
    start, count, before = now, 0, 0
  elseif now - start >= period then
    before, count, start = count, 0, start + period
  end
  local weight = muldiv(before, period - (now - start), period)
  if count == 0 and weight == 0 then
    start, before = now, 0
  end
  return rate - weight - count, start, count, before, set_back
end

local function wait(i, n, rate, period, capacity, start, count, before)
  local time
  if count + n <= rate then
    time = fade(before, rate - count - n, period)
  else
    time = fade(count, rate - n, period)
    time = time + period
  end
  return time - (now - start)
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
    reset = fade(count, 0, period)
    reset = reset + period - elapsed
  elseif before > 0 then
    reset = fade(before, 0, period)
    reset = reset - elapsed
    if reset < 0 then
      reset = 0
    end
  end
  if not writes then
    -- A peek.
  elseif reset == 0 then
    if n < 0 then
      redis.call('DEL', KEYS[i])
    end
  elseif n ~= 0 or set_back then
    local state = write(start, count, before)
    local ttl = lifetime(reset)
    redis.call('SET', KEYS[i], state, 'PX', ttl)
  else
    mend(i, reset)
  end
  local weight = muldiv(before, period - elapsed, period)
  return reset, rate - weight - count
end
