// Package proof has no code of its own. Its tests record what many callers of
// one key are answered at the same time, and show that each such history is one
// that a single caller could have had: that limiters are linearizable.
//
// It is a module of its own, as it needs a checker that whoever imports the
// library does not.
package proof
