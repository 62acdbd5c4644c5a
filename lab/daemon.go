// SPDX-License-Identifier: Apache-2.0

package lab

// Daemons of an experiment: processes of the command loci, each in its namespace.

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// Daemon is a process that a control socket speaks for.
type Daemon struct {
	Name   string
	Client *api.Client

	log   string
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
}

const (
	daemonPoll = 10 * time.Millisecond
	daemonStop = 3 * time.Second // what a daemon may take to stop before it is killed
	logLines   = 12              // of a log that are shown with an error
)

// DaemonSpec says how to start a Daemon.
type DaemonSpec struct {
	Namespace  *testnet.Namespace
	Executable string // the command loci
	Config     string // the configuration's text; it names Socket as its control socket
	ConfigFile string // where it is written, for its owner alone, because it may hold keys
	Socket     string
	Log        string
}

// Start starts a daemon. It has a session of its own: Ctrl-C reaches the laboratory alone, which ends its daemons in order.
func (s DaemonSpec) Start() (*Daemon, error) {
	d := &Daemon{Name: s.Namespace.Role(), Client: api.NewClient(s.Socket), log: s.Log, ended: make(chan struct{})}
	if err := os.WriteFile(s.ConfigFile, []byte(s.Config), 0o600); err != nil {
		return nil, err
	}
	output, err := os.Create(s.Log)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	d.cmd = exec.Command(s.Executable, "run", "--config", s.ConfigFile)
	d.cmd.Stdout, d.cmd.Stderr = output, output
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.Namespace.Start(d.cmd); err != nil {
		return nil, err
	}
	go func() {
		_ = d.cmd.Wait()
		close(d.ended)
	}()
	return d, nil
}

// Poll asks until done says so, the daemon ends, or the context does.
func (d *Daemon) Poll(ctx context.Context, done func() bool) error {
	for !done() {
		select {
		case <-d.ended:
			return fmt.Errorf("the daemon of %s has ended: %s%s", d.Name, d.cmd.ProcessState, d.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("%w%s", ctx.Err(), d.LogTail())
		case <-time.After(daemonPoll):
		}
	}
	return nil
}

// AwaitReady waits until the daemon says that it is ready.
func (d *Daemon) AwaitReady(ctx context.Context) error {
	err := d.Poll(ctx, func() bool {
		status, err := d.Client.Status(ctx)
		return err == nil && status.Ready
	})
	if err != nil {
		return fmt.Errorf("%s does not get ready: %w", d.Name, err)
	}
	return nil
}

// AwaitRegistrations waits until a Map-Server has so many registrations.
func (d *Daemon) AwaitRegistrations(ctx context.Context, count int) error {
	found := 0
	err := d.Poll(ctx, func() bool {
		list, err := d.Client.Registrations(ctx)
		found = len(list)
		return err == nil && found >= count
	})
	if err != nil {
		return fmt.Errorf("%d of %d EID-prefixes are registered at %s: %w", found, count, d.Name, err)
	}
	return nil
}

// LogTail is the end of the log, to be put behind an error.
func (d *Daemon) LogTail() string {
	content, err := os.ReadFile(d.log)
	if err != nil || len(bytes.TrimSpace(content)) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return fmt.Sprintf("\nlog of %s:\n  %s", d.Name, strings.Join(lines[max(0, len(lines)-logLines):], "\n  "))
}

// StopDaemons asks all of them first, and kills those that take too long.
func StopDaemons(daemons []*Daemon) {
	for _, d := range daemons {
		_ = d.cmd.Process.Signal(syscall.SIGTERM)
	}
	late := time.After(daemonStop)
	for _, d := range daemons {
		select {
		case <-d.ended:
		case <-late:
			_ = d.cmd.Process.Kill()
			<-d.ended
		}
	}
}
