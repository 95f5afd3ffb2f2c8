-- ARGV[2]  'take' all n units or none; 'upto', as many of n as are free; 'charge'
--          n whatever is free, down to a debt of one capacity, or give back -n;
--          'peek'
-- ARGV[4*i-1] to ARGV[4*i+2]
--          request i: rate, period in µs, capacity, n
-- A charge is answered as a peek for 1 after it.
local function decide(i)
  local a = 4 * i
  local rate, period, capacity, n = tonumber(ARGV[a - 1]), tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local free, w, x, y, z = look(i, rate, period, capacity)
  local retry, reset, granted = 0, 0, n
  if mode == 'charge' then
    if n > 0 and n > free + capacity then
      n = math.max(free + capacity, 0)
    end
    reset, free = put(i, n, rate, period, capacity, w, x, y, z)
    if free > 0 then
      return 1, free, 0, reset
    end
    free, w, x, y, z = look(i, rate, period, capacity)
    return 0, 0, wait(i, 1, rate, period, capacity, w, x, y, z), reset
  end
  if mode == 'upto' and n > free then
    n = math.max(free, 1)
    granted = n
  end
  if n > capacity then
    granted, retry = 0, -1
  elseif n > free then
    granted, retry = 0, wait(i, n, rate, period, capacity, w, x, y, z)
  end
  reset, free = put(i, writes and granted or 0, rate, period, capacity, w, x, y, z)
  return granted, free, retry, reset
end

if #KEYS == 1 then
  local granted, free, retry, reset = decide(1)
  return { granted, free > 0 and floor(free) or 0, floor(retry), floor(reset) }
end
-- One that fails must not fail the others. What it says then is the text of the
-- error in the place of granted; it has written nothing.
local reply = {}
for i = 1, #KEYS do
  local a, ok, granted, free, retry, reset = 4 * i, pcall(decide, i)
  if not ok then
    granted, free, retry, reset = type(granted) == 'table' and granted.err or tostring(granted), 0, 0, 0
  end
  reply[a - 3] = granted
  reply[a - 2] = free > 0 and floor(free) or 0
  reply[a - 1] = floor(retry)
  reply[a] = floor(reset)
end
return reply
