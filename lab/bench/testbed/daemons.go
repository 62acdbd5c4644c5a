// SPDX-License-Identifier: Apache-2.0

// Loci's own daemons as processes, each with a configuration that an operator could have written: everything that ships on
// by default is on. A daemon that ends by itself fails the bench with the end of its log; none outlives it.

package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
)

const (
	readyWait = 30 * time.Second // a million mappings are taken over in some
	// PollInterval is how often a bench asks whether something has happened.
	PollInterval = 10 * time.Millisecond
	stopWait     = 3 * time.Second
	logTailLines = 12
)

// Process is one daemon.
type Process struct {
	Name, log string
	cmd       *exec.Cmd
	Client    *api.Client
	ended     chan struct{} // closed when the process has ended
}

// StartDaemon starts a daemon in a namespace and waits until it is ready.
func (b *Run) StartDaemon(ctx context.Context, ns *testnet.Namespace, configuration string) (*Process, error) {
	socket := b.Instance.Path(ns.Role() + ".sock")
	configuration += fmt.Sprintf("datapath:\n  pin-directory: %s/%s\nlogging:\n  level: warn\n", b.Instance.Pins(), ns.Role())
	configuration = strings.Replace(configuration, "control:\n", fmt.Sprintf("control:\n  socket: %s\n", socket), 1)
	p, err := b.Launch(ns, configuration)
	if err != nil {
		return nil, err
	}
	p.Client = api.NewClient(socket)
	return p, p.Poll(ctx, "to be ready", func() bool {
		status, err := p.Client.Status(ctx)
		return err == nil && status.Ready
	})
}

// Launch starts a daemon with a configuration and further arguments.
func (b *Run) Launch(ns *testnet.Namespace, configuration string, args ...string) (*Process, error) {
	file := b.Instance.Path(ns.Role() + ".yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil { // it may hold a key
		return nil, err
	}
	return b.begin(ns, ns.Role(), exec.Command(b.Options.Executable, append([]string{"run", "--config", file}, args...)...))
}

// StartEcho starts an echo server (package echo) and waits until it listens.
func (b *Run) StartEcho(ctx context.Context, ns *testnet.Namespace, address netip.AddrPort, batches bool) (*Process, error) {
	p, err := b.begin(ns, ns.Role()+"-echo", exec.Command(b.Options.Self, "echo", address.String(), fmt.Sprintf("--batches=%t", batches)))
	if err != nil {
		return nil, err
	}
	return p, p.Poll(ctx, "to echo", func() bool { return echoes(ns, address) })
}

// echoes says whether a datagram comes back.
func echoes(ns *testnet.Namespace, server netip.AddrPort) bool {
	conn, err := ns.DialUDP(netip.AddrPort{}, server)
	if err != nil {
		return false
	}
	defer conn.Close()
	answer := make([]byte, 1)
	if _, err := conn.Write([]byte("?")); err != nil || conn.SetReadDeadline(time.Now().Add(PollInterval)) != nil {
		return false
	}
	_, err = conn.Read(answer)
	return err == nil
}

// begin starts a process in a namespace, on the core of the server where daemons have one.
func (b *Run) begin(ns *testnet.Namespace, name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{Name: name, log: b.Instance.Path(name + ".log"), cmd: cmd, ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C reaches the bench alone, which ends its daemons
	if b.Pinned {
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // what the process would see of its core
	}
	if err := ns.Start(cmd); err != nil {
		return nil, err
	}
	if b.Pinned {
		if err := Pin(cmd.Process.Pid, ServerCPU); err != nil {
			return nil, err
		}
	}
	b.Daemons = append(b.Daemons, p)
	go func() {
		cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Poll asks until it is done, the daemon ends, or the time is over.
func (p *Process) Poll(ctx context.Context, what string, done func() bool) error {
	for deadline := time.Now().Add(readyWait); !done(); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ended:
			return fmt.Errorf("the daemon of %s has ended: %s", p.Name, p.cmd.ProcessState)
		case <-time.After(PollInterval):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for the daemon of %s %s: not within %v", p.Name, what, readyWait)
		}
	}
	return nil
}

// Stop ends a daemon, which leaves its data plane in force.
func (b *Run) Stop(p *Process) error {
	b.Daemons = slices.DeleteFunc(b.Daemons, func(d *Process) bool { return d == p })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(readyWait):
		return errors.Join(fmt.Errorf("the daemon of %s does not stop", p.Name), p.cmd.Process.Kill())
	}
}

// Detach removes what the last daemon of a namespace left in force.
func (b *Run) Detach(ns *testnet.Namespace) error {
	cmd := exec.Command(b.Options.Executable, "datapath", "detach", "--config", b.Instance.Path(ns.Role()+".yaml"))
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := ns.Start(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("detach: %w: %s", err, said.String())
	}
	return nil
}

// Kill ends a daemon at once.
func (b *Run) Kill(p *Process) error {
	b.Daemons = slices.DeleteFunc(b.Daemons, func(d *Process) bool { return d == p })
	err := p.cmd.Process.Kill()
	<-p.ended
	return err
}

// PID is its process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// StopDaemons asks first and kills later.
func (b *Run) StopDaemons() {
	for _, p := range b.Daemons {
		p.cmd.Process.Signal(syscall.SIGTERM)
	}
	late, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	for _, p := range b.Daemons {
		select {
		case <-p.ended:
		case <-late.Done():
			p.cmd.Process.Kill()
			<-p.ended
		}
	}
}

// withLogs adds the ends of the daemons' logs to an error: the logs are removed with the network.
func (b *Run) withLogs(err error) error {
	all := []error{err}
	for _, p := range b.Daemons {
		content, readErr := os.ReadFile(p.log)
		if readErr != nil || len(bytes.TrimSpace(content)) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		tail := lines[max(0, len(lines)-logTailLines):]
		all = append(all, fmt.Errorf("log of %s:\n  %s", p.Name, strings.Join(tail, "\n  ")))
	}
	return errors.Join(all...)
}
