-- The tail of several limits at once. Its look, wait and put have one argument
-- more, the first: which of the algorithms in this script it is.
-- ARGV[2]  'take', from all or from none, or 'peek'
-- ARGV[5*i-2] to ARGV[5*i+2]
--          request i: its algorithm, then rate, period in µs, capacity, n
-- If one refuses, the answers of the others are what they were asked for alone.
local states, fit = { nil, nil, nil }, true
for i = 1, #KEYS do
  local a = 5 * i
  local algorithm, n = ARGV[a - 2], tonumber(ARGV[a + 2])
  local rate, period, capacity = tonumber(ARGV[a - 1]), tonumber(ARGV[a]), tonumber(ARGV[a + 1])
  local free, w, x, y, z = look(algorithm, i, rate, period, capacity)
  local retry = 0
  if n > capacity then
    retry, fit = -1, false
  elseif n > free then
    retry = wait(algorithm, i, n, rate, period, capacity, w, x, y, z)
    fit = false
  end
  states[i] = { algorithm, n, rate, period, capacity, retry, w, x, y, z }
end

local reply = { nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil } -- room for three
for i = 1, #KEYS do
  local s, a = states[i], 4 * i
  local algorithm, n, retry = s[1], s[2], s[6]
  local reset, free = put(algorithm, i, fit and writes and n or 0, s[3], s[4], s[5], s[7], s[8], s[9], s[10])
  reply[a - 3] = retry == 0 and n or 0
  reply[a - 2] = free > 0 and free or 0
  reply[a - 1] = retry
  reply[a] = reset
end
reply = whole(reply)
return reply
