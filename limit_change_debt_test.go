package ratelimit

// Debts and open reservations in the middle of which a limit changes.

var debtChanges = map[Algorithm][]limitChange{
	TokenBucket: {
		{"a debt is paid at the new rate", []move{{do: charge, n: 15, wait: 6 * sec}, {limit: tenFaster, wait: 3 * sec}, {limit: tenSlower, wait: 12 * sec}, {limit: tenLonger, wait: 12 * sec}}},
		{"a lower burst cuts a debt to one burst", []move{{do: charge, n: 15, wait: 6 * sec}, {limit: tenBurst(3), wait: 4 * sec}, {do: take, n: 1, wait: 4 * sec}, {limit: ten, wait: 4 * sec}}},
		{"a higher burst leaves a debt", []move{{do: charge, n: 15, wait: 6 * sec}, {limit: tenBurst(20), wait: 6 * sec}, {do: charge, n: 100, wait: 21 * sec}}},
	},
	LeakyBucket: {
		{"a debt is paid at the new rate", []move{{do: charge, n: 15, wait: 6 * sec}, {limit: tenFaster, wait: 3 * sec}, {limit: tenSlower, wait: 12 * sec}, {limit: tenLonger, wait: 12 * sec}}},
		{"a lower burst cuts a debt to one burst", []move{{do: charge, n: 15, wait: 6 * sec}, {limit: tenBurst(3), wait: 4 * sec}, {do: take, n: 1, wait: 4 * sec}, {limit: ten, wait: 4 * sec}}},
		{"a higher burst leaves a debt", []move{{do: charge, n: 15, wait: 6 * sec}, {limit: tenBurst(20), wait: 6 * sec}, {do: charge, n: 100, wait: 21 * sec}}},
	},
	FixedWindow: {
		{"a higher rate covers a debt", []move{{do: charge, n: 15, wait: 10 * sec}, {limit: tenFaster, free: 5}, {limit: ten, wait: 10 * sec}, {do: refund, n: 7, free: 2}}},
		{"a lower rate leaves a debt beyond its bound, and charges no more", []move{
			{do: charge, n: 15, wait: 10 * sec},
			{limit: tenSlower, do: charge, n: 1, wait: 10 * sec},
			{limit: ten, do: refund, n: 6, free: 1},
		}},
		{"a shorter period ends a debt with the window", []move{{do: charge, n: 15, wait: 10 * sec}, {limit: tenShorter, do: take, n: 1, wait: 5 * sec}, {pass: 5 * sec, free: 10}}},
	},
	SlidingWindowLog: {
		{"a higher rate covers a debt", []move{{do: charge, n: 15, wait: 10 * sec}, {limit: tenFaster, free: 5}, {limit: ten, wait: 10 * sec}, {do: refund, n: 7, free: 2}}},
		{"a lower rate leaves a debt beyond its bound, and charges no more", []move{
			{do: charge, n: 15, wait: 10 * sec},
			{limit: tenSlower, do: charge, n: 1, wait: 10 * sec},
			{limit: ten, do: refund, n: 6, free: 1},
		}},
		{"a shorter period forgets a debt sooner", []move{{do: charge, n: 15, wait: 10 * sec}, {pass: 4 * sec, limit: tenShorter, wait: sec}, {pass: sec, free: 10}}},
	},
	SlidingWindowCounter: {
		{"a higher rate covers a debt", []move{{do: charge, n: 15, wait: 13333334 * us}, {limit: tenFaster, free: 5}, {limit: ten, wait: 13333334 * us}, {do: refund, n: 7, free: 2}}},
		{"a lower rate leaves a debt beyond its bound, and charges no more", []move{
			{do: charge, n: 15, wait: 13333334 * us},
			{limit: tenSlower, do: charge, n: 1, wait: 16666667 * us},
			{limit: ten, do: refund, n: 6, free: 1},
		}},
		{"a shorter period fades a debt sooner", []move{{do: charge, n: 15, wait: 13333334 * us}, {pass: 7500 * ms, limit: tenShorter, free: 3}}},
	},
}

var reservationChanges = map[Algorithm][]limitChange{
	TokenBucket: {
		{"what a reservation gives back fills no more than the new burst", []move{
			{do: reserving, n: 6, free: 4},
			{limit: tenBurst(5), free: 4},
			{do: settling, n: 2, free: 5},
		}},
		{"a reservation gives back whole units whatever the rate", []move{{do: reserving, n: 9, free: 1}, {pass: sec, limit: tenFaster, do: settling, n: 4, free: 8}}},
		{"what is used beyond a reservation is bounded by the new burst", []move{{do: reserving, n: 6, free: 4}, {limit: tenBurst(5), do: settling, n: 100, wait: 6 * sec}}},
	},
	LeakyBucket: {
		{"what a reservation gives back leaves the cut level", []move{{do: reserving, n: 6, free: 4}, {limit: tenBurst(5), wait: sec}, {do: settling, n: 2, free: 4}}},
		{"a reservation gives back whole units whatever the rate", []move{{do: reserving, n: 9, free: 1}, {pass: sec, limit: tenFaster, do: settling, n: 4, free: 8}}},
		{"what is used beyond a reservation is bounded by the new burst", []move{{do: reserving, n: 6, free: 4}, {limit: tenBurst(5), do: settling, n: 100, wait: 6 * sec}}},
	},
	FixedWindow: {
		{"a reservation gives back under a changed rate", []move{{do: reserving, n: 6, free: 4}, {limit: tenSlower, wait: 10 * sec}, {do: settling, n: 2, free: 3}, {limit: ten, free: 8}}},
		{"what is used beyond a reservation is bounded by the new rate", []move{{do: reserving, n: 6, free: 4}, {limit: tenSlower, do: settling, n: 100, wait: 10 * sec}, {limit: ten, do: refund, n: 1, free: 1}}},
		{"a longer period leaves the window, and gives back", []move{{do: reserving, n: 6, free: 4}, {limit: tenLonger, do: settling, n: 2, free: 8}}},
		{"a window cut by a shorter period gives nothing back", []move{{do: reserving, n: 6, free: 4}, {limit: tenShorter, do: settling, n: 2, free: 4}}},
	},
	SlidingWindowLog: {
		{"a reservation gives back under a changed rate", []move{{do: reserving, n: 6, free: 4}, {limit: tenSlower, wait: 10 * sec}, {do: settling, n: 2, free: 3}, {limit: ten, free: 8}}},
		{"what is used beyond a reservation is bounded by the new rate", []move{{do: reserving, n: 6, free: 4}, {limit: tenSlower, do: settling, n: 100, wait: 10 * sec}, {limit: ten, do: refund, n: 1, free: 1}}},
		{"a shorter period gives nothing back of what it has forgotten", []move{
			{do: reserving, n: 6, free: 4},
			{pass: 6 * sec, do: take, n: 1, free: 3},
			{limit: tenShorter, do: settling, n: 0, free: 9},
		}},
		{"a longer period gives back what still counts", []move{{do: reserving, n: 6, free: 4}, {pass: 6 * sec, limit: tenLonger, do: settling, n: 1, free: 9}}},
	},
	SlidingWindowCounter: {
		{"a reservation gives back under a changed rate", []move{{do: reserving, n: 6, free: 4}, {limit: tenSlower, wait: 11666667 * us}, {do: settling, n: 2, free: 3}, {limit: ten, free: 8}}},
		{"what is used beyond a reservation is bounded by the new rate", []move{{do: reserving, n: 6, free: 4}, {limit: tenSlower, do: settling, n: 100, wait: 15*sec + us}, {limit: ten, do: refund, n: 1, free: 1}}},
		{"a shorter period gives back to the window before", []move{{do: reserving, n: 6, free: 4}, {pass: 7500 * ms, limit: tenShorter, free: 7}, {do: settling, n: 2, free: 9}}},
		{"a longer period gives back to the running window", []move{{do: reserving, n: 6, free: 4}, {pass: 7500 * ms, limit: tenLonger, do: settling, n: 2, free: 8}}},
	},
}
