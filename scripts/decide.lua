-- Decides a request, for one.lua and batch.lua.
-- ARGV[2]  'take' all n units or none; 'upto', as many of n as are free; 'charge'
--          n whatever is free, down to a debt of one capacity, or give back -n;
--          'peek'
-- A charge is answered as a peek for 1 after it.
local function decide(i, n, rate, period, capacity)
  local free, w, x, y, z = look(i, rate, period, capacity)
  local granted, taken, retry = n, n, 0
  if mode == 'charge' then
    if n > 0 and n > free + capacity then
      taken = math.max(free + capacity, 0)
    end
  else
    if mode == 'upto' and n > free then
      n = math.max(free, 1)
      granted = n
    end
    if n > capacity then
      granted, retry = 0, -1
    elseif n > free then
      granted = 0
      retry = wait(i, n, rate, period, capacity, w, x, y, z)
    end
    taken = writes and granted or 0
  end
  local reset
  reset, free = put(i, taken, rate, period, capacity, w, x, y, z)
  if mode == 'charge' then
    granted = 1
    if free < 1 then
      free, w, x, y, z = look(i, rate, period, capacity)
      if free < 1 then
        granted = 0
        retry = wait(i, 1, rate, period, capacity, w, x, y, z)
      else
        reset = 0 -- a window ended between the two looks: before Redis 7.2 time goes on in a script
      end
    end
  end
  return granted, free > 0 and free or 0, retry, reset
end
