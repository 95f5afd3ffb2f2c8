local reply = {}
for i = 1, #KEYS do
  local a = 4 * i
  local remaining, retry, reset = decide(
    i, tonumber(ARGV[a - 1]), tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  )
  reply[a - 3] = retry == 0 and 1 or 0
  reply[a - 2] = floor(remaining)
  reply[a - 1] = floor(retry)
  reply[a] = floor(reset)
end
return reply
