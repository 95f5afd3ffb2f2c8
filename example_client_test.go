package ratelimit_test

import (
	"context"
	"crypto/rand"
	"net"
	"os"

	"github.com/redis/go-redis/v9"
)

// newClient is a client for the server that TestMain has found.
func newClient() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: os.Getenv("RATELIMIT_REDIS_ADDR")})
}

// newClientOfNothing is a client for a server that does not answer.
func newClientOfNothing() *redis.Client {
	return redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			conn, _ := net.Pipe() // nobody is at the other end
			return conn, nil
		},
	})
}

// newUser is a user whom no example, and no earlier run, has seen.
func newUser() string { return rand.Text() }
