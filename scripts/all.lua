-- The tail of several limits at once: looks[a], waits[a] and puts[a] are the
-- functions of algorithm a.
-- ARGV[2]  'take', from all or from none, or 'peek'
-- ARGV[5*i-2] to ARGV[5*i+2]
--          request i: its algorithm, then rate, period in µs, capacity, n
-- If one refuses, the answers of the others are what they were asked for alone.
local requests, fit = {}, true
for i = 1, #KEYS do
  local a = 5 * i
  local q = {
    tonumber(ARGV[a - 2]), tonumber(ARGV[a - 1]), tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), 0
  }
  q[7], q[8], q[9], q[10], q[11] = looks[q[1]](i, q[2], q[3], q[4])
  local n = q[5]
  if n > q[4] then
    q[6], fit = -1, false
  elseif n > q[7] then
    q[6], fit = waits[q[1]](i, n, q[2], q[3], q[4], q[8], q[9], q[10], q[11]), false
  end
  requests[i] = q
end

local reply = {}
for i = 1, #KEYS do
  local q, a = requests[i], 4 * i
  local reset, free = puts[q[1]](i, fit and writes and q[5] or 0, q[2], q[3], q[4], q[8], q[9], q[10], q[11])
  reply[a - 3] = q[6] == 0 and q[5] or 0
  reply[a - 2] = free > 0 and floor(free) or 0
  reply[a - 1] = floor(q[6])
  reply[a] = floor(reset)
end
return reply
