package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const mostAttempts = 10

// retryRefused repeats a call that was refused, each time after the wait that the
// server has named, as long as the context leaves time for it.
func retryRefused(ctx context.Context, call func() error) error {
	for attempt := 1; ; attempt++ {
		err := call()
		delay, ok := retryDelay(err)
		if !ok || attempt == mostAttempts {
			return err
		}
		delay += rand.N(delay/10 + 1) // not all clients at once
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < delay {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(delay):
		}
	}
}

// retryDelay is how long to wait after err; false if repeating is of no use.
func retryDelay(err error) (time.Duration, bool) {
	if status.Code(err) != codes.ResourceExhausted {
		return 0, false
	}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return max(info.GetRetryDelay().AsDuration(), 0), true
		}
	}
	return 0, false
}

// unaryRetry is a client's interceptor for calls.
func unaryRetry(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return retryRefused(ctx, func() error { return invoke(ctx, method, req, reply, cc, opts...) })
}

// watch opens a stream. Whether it was refused shows with its first message.
func watch(ctx context.Context, client grpc_health_v1.HealthClient) (first *grpc_health_v1.HealthCheckResponse, err error) {
	err = retryRefused(ctx, func() error {
		stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			first, err = stream.Recv()
		}
		return err
	})
	return first, err
}

// ask makes calls, and opens a stream.
func ask(ctx context.Context, addr string, calls int, stdout io.Writer) error {
	conn, err := grpc.NewClient(addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(unaryRetry),
	)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // also ends the stream
	defer cancel()

	client := grpc_health_v1.NewHealthClient(conn)
	for i := range calls {
		start := time.Now()
		answer, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "call %d: %v after %v\n", i+1, answer.GetStatus(), time.Since(start).Round(time.Millisecond))
	}
	first, err := watch(ctx, client)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "stream:", first.GetStatus())
	return nil
}
