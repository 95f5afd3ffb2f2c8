// Package interop has no code of its own: its tests show that the limiters
// decide on miniredis as they do in memory, so that a service can be tested on
// either.
package interop
