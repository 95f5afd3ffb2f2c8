// Grpc limits the calls to a gRPC server, unary and streaming ones: refused calls
// get RESOURCE_EXHAUSTED with a RetryInfo. It is also a client that heeds it.
//
//	go run ./grpc [-addr host:port] [-redis-addr host:port]
//	go run ./grpc -calls 10 [-addr host:port]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirgo/ratelimit"
)

// What a slow Redis may cost a call.
var timeout = 100 * time.Millisecond

// unary limits calls.
func unary(limiter ratelimit.Limiter) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if err := check(ctx, limiter); err != nil {
			return nil, err
		}
		return handler(ctx, req)
	}
}

// stream limits streams. One counts when it is opened, whatever it carries.
func stream(limiter ratelimit.Limiter) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if err := check(ss.Context(), limiter); err != nil {
			return err
		}
		return handler(srv, ss)
	}
}

// check is nil, or the status of a call that must not go ahead.
func check(ctx context.Context, limiter ratelimit.Limiter) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := limiter.Allow(ctx, caller(ctx))
	if err != nil { // fail closed; to fail open, return nil
		log.Println("no decision:", err)
		return status.Error(codes.Unavailable, "the call could not be checked against its limit")
	}
	if result.Allowed {
		return nil
	}
	refusal := status.New(codes.ResourceExhausted, "too many calls: limit "+result.Limit.String())
	if result.RetryAfter != ratelimit.Never {
		if s, err := refusal.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(result.RetryAfter)}); err == nil {
			refusal = s
		}
	}
	return refusal.Err()
}

// caller is the key: the address of the peer. Behind authentication, take the user.
func caller(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "unknown"
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		host = p.Addr.String()
	}
	return "ip:" + host
}

// serve serves until ctx ends.
func serve(ctx context.Context, addr, redisAddr string, stdout io.Writer) error {
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer rdb.Close()
	limiter, err := ratelimit.NewTokenBucket(rdb, ratelimit.PerSecond(5), ratelimit.WithPrefix("grpc"))
	if err != nil {
		return err
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(unary(limiter)),
		grpc.ChainStreamInterceptor(stream(limiter)),
		grpc.ConnectionTimeout(5*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 5 * time.Minute}),
	)
	service := health.NewServer() // stands for a service of your own
	grpc_health_v1.RegisterHealthServer(server, service)

	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "listening on", listener.Addr())
	stop := context.AfterFunc(ctx, func() {
		service.Shutdown()
		time.AfterFunc(time.Second, server.Stop) // streams may go on for ever
		server.GracefulStop()
	})
	defer stop()
	return server.Serve(listener)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Println(errUsage)
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case err != nil:
		log.Fatal(err)
	}
}
