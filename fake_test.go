package ratelimit

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// startFake starts a server that answers EVALSHA and EVAL by what answer
// returns, in RESP and without the last line end, and all else with OK. It is
// for what no real server can be made to say.
func startFake(tb testing.TB, answer func(command string) string) *redis.Client {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveFake(conn, answer)
		}
	}()
	return newClient(tb, &redis.Options{Addr: listener.Addr().String(), Protocol: 2, DisableIdentity: true})
}

func serveFake(conn net.Conn, answer func(string) string) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		reply := "+OK"
		switch command := strings.ToLower(args[0]); command {
		case "hello":
			reply = "-ERR unknown command"
		case "evalsha", "eval":
			reply = answer(command)
		}
		if _, err := io.WriteString(conn, reply+"\r\n"); err != nil {
			return
		}
	}
}

func readCommand(in *bufio.Reader) ([]string, error) {
	n, err := readCount(in)
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readCount(in)
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:size])
	}
	return args, nil
}

// readCount reads the number after an RESP type byte.
func readCount(in *bufio.Reader) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil || len(line) < 3 {
		return 0, io.ErrUnexpectedEOF
	}
	return strconv.Atoi(line[1 : len(line)-2])
}
