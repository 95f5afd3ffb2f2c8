package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// relayEnv is set where this program is to be a relay: a process of its own, so
// that its work is neither in the client's allocations nor on its threads.
const relayEnv = "RATELIMIT_BENCH_RELAY"

// startRelay starts relays before servers and tells where to dial for each.
func startRelay(ctx context.Context, addrs []string, delay time.Duration) (via map[string]string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self)
	cmd.Env = append(os.Environ(), relayEnv+"="+delay.String()+" "+strings.Join(addrs, " "))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	via = map[string]string{}
	lines := bufio.NewScanner(out)
	for _, addr := range addrs {
		if !lines.Scan() {
			stop()
			return nil, nil, fmt.Errorf("the relay ended: %w", io.ErrUnexpectedEOF)
		}
		via[addr] = lines.Text()
	}
	return via, stop, nil
}

// relay is the process: it listens for each server, prints where, and ends when
// its input does. The order is a delay, then addresses.
func relay(order string, in io.Reader, out io.Writer) error {
	// A thread that sleeps holds its processor for a while. Others must be left.
	runtime.GOMAXPROCS(256)
	words := strings.Fields(order)
	delay, err := time.ParseDuration(words[0])
	if err != nil {
		return err
	}
	for _, addr := range words[1:] { // nothing is closed: that the process ends is how it stops
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Fprintln(out, l.Addr())
		go accept(l, addr, delay)
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

func accept(l net.Listener, addr string, delay time.Duration) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr)
		if err != nil {
			_ = client.Close()
			continue
		}
		// Half of the delay each way, as on a wire.
		go carry(server, client, delay/2)
		go carry(client, server, delay-delay/2)
	}
}

// A chunk is bytes and when they arrive.
type chunk struct {
	due   time.Time
	bytes []byte
}

// carry moves what comes from one connection to the other, each chunk a fixed
// time after it came, however many are on their way.
func carry(to, from net.Conn, delay time.Duration) {
	wire := make(chan chunk, 1024)
	go func() {
		defer to.Close()
		for c := range wire {
			sleep(time.Until(c.due))
			if _, err := to.Write(c.bytes); err != nil {
				_ = from.Close() // its reader ends, and closes wire
			}
		}
	}()
	defer close(wire)
	for {
		buffer := make([]byte, 16<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			wire <- chunk{time.Now().Add(delay), buffer[:n]}
		}
		if err != nil {
			return
		}
	}
}
