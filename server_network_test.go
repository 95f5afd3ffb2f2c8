package ratelimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/testcontainers/testcontainers-go"
)

// serverNetwork is where the containers of a run reach each other. Each gets an address that no other has
// had: on Docker's own bridge the next container takes the address of one that was killed, and a sentinel or
// a cluster takes it for the old one.
type serverNetwork struct {
	name string
	base [4]byte
	last atomic.Uint32
}

// hosts is how many addresses the network's /20 has, less the first and last two.
const hosts = 1<<12 - 4

// newNetwork takes a part of 198.18.0.0/15, which is set aside for tests of networks (RFC 2544).
func newNetwork() (*serverNetwork, error) {
	var err error
	for range 5 {
		n := &serverNetwork{
			name: fmt.Sprintf("ratelimit-%08x", rand.Uint32()),
			base: [4]byte{198, 18 + byte(rand.IntN(2)), 16 * byte(rand.IntN(16)), 0},
		}
		err = callDocker((*testcontainers.DockerClient).NetworkCreate, n.name, map[string]any{
			"Driver": "bridge",
			"Labels": testcontainers.GenericLabels(), // by which testcontainers removes it after a crash
			"IPAM":   map[string]any{"Config": []any{map[string]any{"Subnet": netip.AddrFrom4(n.base).String() + "/20"}}},
		})
		if err == nil {
			return n, nil
		}
		if !strings.Contains(err.Error(), "overlap") {
			break
		}
	}
	return nil, err
}

func (n *serverNetwork) newIP() string {
	i := 2 + n.last.Add(1)%hosts
	return netip.AddrFrom4([4]byte{n.base[0], n.base[1], n.base[2] + byte(i>>8), byte(i)}).String()
}

func (n *serverNetwork) remove() error {
	return callDocker((*testcontainers.DockerClient).NetworkRemove, n.name, nil)
}

// attach gives a container an address in the network, and publishes its port as one of the Docker host.
func (n *serverNetwork) attach(ip string, port int) testcontainers.CustomizeRequestOption {
	host := map[string]any{
		"NetworkMode":  n.name,
		"PortBindings": map[string]any{insidePort: []any{map[string]any{"HostPort": strconv.Itoa(port)}}},
	}
	endpoint := map[string]any{"IPAMConfig": map[string]any{"IPv4Address": ip}}
	return func(req *testcontainers.GenericContainerRequest) error {
		req.Networks = []string{n.name}
		return errors.Join(
			setHost(&req.HostConfigModifier, host),
			setEndpoints(&req.EndpointSettingsModifier, endpoint),
		)
	}
}

// Docker's types are in modules that this one does not require. So they are inferred and filled in by JSON.

func setHost[T any](modifier *func(*T), values any) error {
	*modifier = func(host *T) { _ = fill(host, values) }
	return fill(new(T), values)
}

func setEndpoints[T any](modifier *func(map[string]*T), values any) error {
	*modifier = func(endpoints map[string]*T) {
		for _, endpoint := range endpoints {
			_ = fill(endpoint, values)
		}
	}
	return fill(new(T), values)
}

// callDocker calls a method of Docker's client.
func callDocker[O, R any](
	method func(*testcontainers.DockerClient, context.Context, string, O) (R, error), name string, options any,
) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return err
	}
	defer docker.Close()
	var opts O
	if err := fill(&opts, options); err != nil {
		return err
	}
	_, err = method(docker, ctx, name, opts)
	return err
}

func fill(target, values any) error {
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, target)
}
