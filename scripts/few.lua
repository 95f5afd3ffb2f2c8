-- The tail of a few limits at once: what all.lua does, written out for each
-- request, which is faster. $ is the number of a request, look$, wait$ and put$
-- are the functions of its algorithm, and ARGV is as there.
local fit = true
-- each:
local n$, rate$, period$, capacity$ = tonumber(ARGV[5 * $ + 2]), tonumber(ARGV[5 * $ - 1]), tonumber(ARGV[5 * $]), tonumber(ARGV[5 * $ + 1])
local free$, w$, x$, y$, z$ = look$($, rate$, period$, capacity$)
local retry$ = 0
if n$ > capacity$ then
  retry$, fit = -1, false
elseif n$ > free$ then
  retry$ = wait$($, n$, rate$, period$, capacity$, w$, x$, y$, z$)
  fit = false
end
-- each:
local reset$
reset$, free$ = put$($, fit and writes and n$ or 0, rate$, period$, capacity$, w$, x$, y$, z$)
-- then a reply of these:
retry$ == 0 and n$ or 0, free$ > 0 and free$ or 0, retry$, reset$
