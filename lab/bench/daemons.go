// SPDX-License-Identifier: Apache-2.0

// Loci's own daemons as processes, each with a configuration that an operator could have written: everything that ships on
// by default is on. A daemon that ends by itself fails the bench with the end of its log; none outlives it.

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
)

const (
	readyWait    = 30 * time.Second // a million mappings are taken over in some
	pollInterval = 10 * time.Millisecond
	stopWait     = 3 * time.Second
	logTailLines = 12
)

// process is one daemon.
type process struct {
	name, log string
	cmd       *exec.Cmd
	client    *api.Client
	ended     chan struct{} // closed when the process has ended
}

// startDaemon starts a daemon in a namespace and waits until it is ready.
func (b *bench) startDaemon(ctx context.Context, ns *testnet.Namespace, configuration string) (*process, error) {
	name := ns.Role()
	file, socket := b.instance.Path(name+".yaml"), b.instance.Path(name+".sock")
	configuration += fmt.Sprintf("datapath:\n  pin-directory: %s/%s\nlogging:\n  level: warn\n", b.instance.Pins(), name)
	configuration = strings.Replace(configuration, "control:\n", fmt.Sprintf("control:\n  socket: %s\n", socket), 1)
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil { // it may hold a key
		return nil, err
	}
	p := &process{name: name, log: b.instance.Path(name + ".log"), client: api.NewClient(socket), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(b.options.Executable, "run", "--config", file)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C reaches the bench alone, which ends its daemons
	if b.pinned {
		p.cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // what the process would see of its core
	}
	if err := ns.Start(p.cmd); err != nil {
		return nil, err
	}
	if b.pinned {
		if err := pin(p.cmd.Process.Pid, serverCPU); err != nil {
			return nil, err
		}
	}
	b.daemons = append(b.daemons, p)
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	return p, p.poll(ctx, "to be ready", func() bool {
		status, err := p.client.Status(ctx)
		return err == nil && status.Ready
	})
}

// poll asks until it is done, the daemon ends, or the time is over.
func (p *process) poll(ctx context.Context, what string, done func() bool) error {
	for deadline := time.Now().Add(readyWait); !done(); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ended:
			return fmt.Errorf("the daemon of %s has ended: %s", p.name, p.cmd.ProcessState)
		case <-time.After(pollInterval):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for the daemon of %s %s: not within %v", p.name, what, readyWait)
		}
	}
	return nil
}

// stopDaemons asks first and kills later.
func (b *bench) stopDaemons() {
	for _, p := range b.daemons {
		p.cmd.Process.Signal(syscall.SIGTERM)
	}
	late := time.After(stopWait)
	for _, p := range b.daemons {
		select {
		case <-p.ended:
		case <-late:
			p.cmd.Process.Kill()
			<-p.ended
		}
	}
}

// withLogs adds the ends of the daemons' logs to an error: the logs are removed with the network.
func (b *bench) withLogs(err error) error {
	all := []error{err}
	for _, p := range b.daemons {
		content, readErr := os.ReadFile(p.log)
		if readErr != nil || len(bytes.TrimSpace(content)) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		tail := lines[max(0, len(lines)-logTailLines):]
		all = append(all, fmt.Errorf("log of %s:\n  %s", p.name, strings.Join(tail, "\n  ")))
	}
	return errors.Join(all...)
}
