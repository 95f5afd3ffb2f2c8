-- The tail of one request.
-- ARGV[3] to ARGV[6]
--          n, rate, period in µs, capacity
local n, rate, period, capacity = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local took, left, again, full = decide(1, n, rate, period, capacity)
local reply = whole({ took, left, again, full })
return reply
