// SPDX-License-Identifier: Apache-2.0

package daemon

// Whole daemons in this process, of roles that need neither root nor a data plane.

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/daemon/engines"
)

// lockedLog is a log that is read while it is written.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// wholeDaemon is a daemon at work.
type wholeDaemon struct {
	t            *testing.T
	file, socket string
	port         int
	log          lockedLog
	client       *api.Client
	stop         func() // and wait
}

// startDaemon runs a daemon of a configuration, to which it adds control socket, address and port.
func startDaemon(t *testing.T, configuration string) *wholeDaemon {
	t.Helper()
	directory := t.TempDir()
	r := &wholeDaemon{t: t, file: filepath.Join(directory, "loci.yaml"), socket: filepath.Join(directory, "run", "control.sock")}
	r.client = api.NewClient(r.socket)
	free, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	r.port = free.LocalAddr().(*net.UDPAddr).Port
	free.Close()
	r.write(configuration)
	r.start()
	return r
}

// start runs the daemon until stop is called, or the test ends.
func (r *wholeDaemon) start() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Engine: &engines.Choice{}, ConfigFile: r.file, Planes: PlanesBoth, LogTo: &r.log})
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("the daemon ended with %v\n%s", err, r.log.String())
		}
	})
	r.t.Cleanup(r.stop)
	r.await("the daemon is ready", func() bool {
		status, err := r.client.Status(r.t.Context())
		return err == nil && status.Ready
	})
}

// write writes the configuration that the next start or reload reads.
func (r *wholeDaemon) write(configuration string) {
	r.t.Helper()
	configuration += fmt.Sprintf("control: {socket: %s, addresses: [127.0.0.1], port: %d}\n", r.socket, r.port)
	if err := os.WriteFile(r.file, []byte(configuration), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// await waits for something, as long as a loaded machine may take for it.
func (r *wholeDaemon) await(what string, reached func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not within 30 s: %s\n%s", what, r.log.String())
		}
	}
}

// sitesOf is a Map-Server's configuration with so many sites of one EID-Prefix.
func sitesOf(count int) string {
	var b strings.Builder
	b.WriteString("map-server:\n  sites:\n")
	for i := range count {
		fmt.Fprintf(&b, "    - {name: site-%d, authentication-keys: [{auth-key-value: key-of-site-%d}], eid-prefixes: [{eid: 10.%d.%d.0/24}]}\n", i, i, i>>8, i&255)
	}
	return b.String()
}
