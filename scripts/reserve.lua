-- The tail of reservations. KEYS[1] is the limit's key, KEYS[2] the reservation:
-- a hash that is there until it is settled
--   n     units that were taken
--   mark  tells later whether those units still count: for a bucket the name that
--         it has until it is next full and its key gone, for the fixed window the
--         ms in which it ends, for the others the µs at which they were taken
-- ARGV[2]  'reserve' or 'settle'
-- ARGV[3]  n: units to take, or that were used
-- ARGV[4] to ARGV[6]
--          rate, period in µs, capacity
-- ARGV[7]  the algorithm
-- ARGV[8]  reserve: a name for the bucket if it has none, a whole number
-- ARGV[9]  reserve: ms until the reservation is forgotten
--
-- A settlement is answered as a peek for 1 after it; granted is -1 if there was
-- nothing to settle.
local n, rate, period, capacity = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local algorithm = ARGV[7]
local is_bucket = algorithm == 'token_bucket' or algorithm == 'leaky_bucket'
local free, w, x, y, z = look(1, rate, period, capacity)
local granted, retry, reset = n, 0, 0

if mode == 'reserve' then
  if n > capacity then
    granted, retry = 0, -1
  elseif n > free then
    granted = 0
    retry = wait(1, n, rate, period, capacity, w, x, y, z)
  end
  if is_bucket and granted > 0 then
    z = z or ARGV[8]
  end
  reset, free = put(1, granted, rate, period, capacity, w, x, y, z)
  if granted > 0 then
    write_stamp()
    local mark = stamp
    if is_bucket then
      mark = z
    elseif algorithm == 'fixed_window' then
      mark = floor((now + reset) / 1000)
    end
    redis.call('HSET', KEYS[2], 'n', n, 'mark', mark)
    redis.call('PEXPIRE', KEYS[2], ARGV[9])
  end
else
  local reservation = redis.call('HMGET', KEYS[2], 'n', 'mark')
  local taken, mark = tonumber(reservation[1]), tonumber(reservation[2])
  local known = redis.call('DEL', KEYS[2]) == 1 and taken and mark
  local more = known and n - taken or 0
  if more > 0 then
    more = math.max(math.min(more, free + capacity), 0)
  elseif more < 0 then
    -- The fixed window's end is read from its TTL, so it may be a ms or two off.
    if is_bucket and reservation[2] ~= z
        or algorithm == 'fixed_window' and math.abs(mark - floor((now + x * 1000) / 1000)) > math.min(2, ceil(period / 1000) - 1) then
      more = 0
    elseif algorithm == 'sliding_window_counter' and mark < w then
      -- They were taken in the window before, or in one that counts no more.
      if mark >= w - period then
        y, z = math.max(y + more, 0), true
      end
      more = 0
    elseif algorithm == 'sliding_window_counter' then
      more = math.max(more, -x)
    elseif algorithm == 'sliding_window_log' then
      if mark > now - period then
        redis.call('LREM', KEYS[1], more, reservation[2])
        free, w, x, y, z = look(1, rate, period, capacity)
      end
      more = 0
    end
  end
  reset, free = put(1, more, rate, period, capacity, w, x, y, z)
  if reset == 0 and known then
    redis.call('DEL', KEYS[1])
  end
  if free < 1 then
    free, w, x, y, z = look(1, rate, period, capacity)
    retry = wait(1, 1, rate, period, capacity, w, x, y, z)
  end
  granted = known and (free < 1 and 0 or 1) or -1
end
local reply = whole({ granted, free > 0 and free or 0, retry, reset })
return reply
