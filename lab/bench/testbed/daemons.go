// SPDX-License-Identifier: Apache-2.0

// Loci's own daemons as processes, each with a configuration that an operator could have written: everything that
// ships on by default is on. A daemon that ends by itself fails the bench with the end of its log; none outlives it.

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"loci/internal/testnet"
	"loci/lab"
)

const (
	readyWait = 30 * time.Second // a million mappings are taken over in some
	// PollInterval is how often a bench asks whether something has happened.
	PollInterval = lab.PollInterval
)

// Process is one daemon.
type Process = lab.Daemon

// StartDaemon starts a daemon in a namespace and waits until it is ready.
func (b *Run) StartDaemon(ctx context.Context, ns *testnet.Namespace, configuration string) (*Process, error) {
	socket := b.Instance.Path(ns.Role() + ".sock")
	if !strings.Contains(configuration, "\ndatapath:\n") {
		configuration += "datapath:\n"
	}
	configuration = strings.Replace(configuration, "datapath:\n", fmt.Sprintf("datapath:\n  pin-directory: %s/%s\n%s", b.Instance.Pins(), ns.Role(), b.mapSocketKey(ns)), 1)
	configuration += "logging:\n  level: warn\n"
	configuration = strings.Replace(configuration, "control:\n", fmt.Sprintf("control:\n  socket: %s\n", socket), 1)
	p, err := b.start(lab.DaemonSpec{Namespace: ns, Config: configuration, Socket: socket})
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	return p, p.AwaitReady(limited)
}

// Launch starts a daemon without control socket, with a configuration and further arguments, and waits until done
// says so.
func (b *Run) Launch(ctx context.Context, ns *testnet.Namespace, configuration string, done func() bool, args ...string) (*Process, error) {
	p, err := b.start(lab.DaemonSpec{Namespace: ns, Config: configuration, Arguments: args})
	if err != nil {
		return nil, err
	}
	return p, b.await(ctx, p, done)
}

// await waits until a daemon has done something.
func (b *Run) await(ctx context.Context, p *Process, done func() bool) error {
	limited, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := lab.Poll(limited, []*Process{p}, func() (bool, error) { return done(), nil }); err != nil {
		return fmt.Errorf("%s does not get ready: %w", p.Name, err)
	}
	return nil
}

func (b *Run) start(s lab.DaemonSpec) (*Process, error) {
	name := s.Namespace.Role()
	s.Executable, s.ConfigFile, s.Log = b.Options.Executable, b.Instance.Path(name+".yaml"), b.Instance.Path(name+".log")
	if b.Pinned {
		s.Environment = pinnedEnvironment
	}
	p, err := s.Start()
	if err != nil {
		return nil, err
	}
	return p, b.add(p)
}

// pinnedEnvironment says what a process would see of its core.
var pinnedEnvironment = []string{"GOMAXPROCS=1"}

// add takes a process to the bench's own, on the core of the server where daemons have one.
func (b *Run) add(p *Process) error {
	b.Daemons = append(b.Daemons, p)
	if !b.Pinned {
		return nil
	}
	return Pin(p.PID(), ServerCPU)
}

// StartEcho starts an echo server (package echo) and waits until it listens.
func (b *Run) StartEcho(ctx context.Context, ns *testnet.Namespace, address netip.AddrPort, batches bool) (*Process, error) {
	cmd := exec.Command(b.Options.Self, "echo", address.String(), fmt.Sprintf("--batches=%t", batches))
	return b.StartCommand(ctx, ns, "echo", cmd, func() bool { return echoes(ns, address) })
}

// StartCommand starts any command in a namespace, named in errors, and waits until ready says so.
func (b *Run) StartCommand(ctx context.Context, ns *testnet.Namespace, name string, cmd *exec.Cmd, ready func() bool) (*Process, error) {
	name = ns.Role() + "-" + name
	if b.Pinned {
		cmd.Env = append(os.Environ(), pinnedEnvironment...)
	}
	p, err := lab.StartProcess(ns, name, b.Instance.Path(name+".log"), cmd)
	if err != nil {
		return nil, err
	}
	return p, errors.Join(b.add(p), b.await(ctx, p, ready))
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

// ProcessesAt are those in a namespace: the daemon, and commands.
func (b *Run) ProcessesAt(ns *testnet.Namespace) (list []*Process) {
	for _, p := range b.Daemons {
		if p.Name == ns.Role() || strings.HasPrefix(p.Name, ns.Role()+"-") {
			list = append(list, p)
		}
	}
	return list
}

// Stop ends a daemon, which leaves its data plane in force.
func (b *Run) Stop(p *Process) error {
	b.forget(p)
	return p.Stop(readyWait)
}

// Kill ends a daemon at once.
func (b *Run) Kill(p *Process) error {
	b.forget(p)
	return p.Kill()
}

// StopDaemons ends all of them: it asks first and kills later.
func (b *Run) StopDaemons() { lab.StopDaemons(b.Daemons) }

func (b *Run) forget(p *Process) {
	b.Daemons = slices.DeleteFunc(b.Daemons, func(d *Process) bool { return d == p })
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
