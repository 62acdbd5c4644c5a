// SPDX-License-Identifier: Apache-2.0

package lab

// Daemons of a run: processes, each in its namespace with its log. Most are of the command loci and have a control socket. A daemon
// that ends by itself fails what waits for it; none outlives the run, unless it is kept.

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

// Daemon is a process of a run.
type Daemon struct {
	Name   string
	Socket string      // its control socket; empty for a process that has none
	Client *api.Client // of Socket

	log   string
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
}

const (
	// PollInterval is how often a run asks whether something has happened.
	PollInterval = 10 * time.Millisecond

	daemonStop = 3 * time.Second // what a daemon may take to stop before it is killed
	logLines   = 12              // of a log that are shown with an error
)

// DaemonSpec says how to start a process of the command loci.
type DaemonSpec struct {
	Namespace  *testnet.Namespace
	Executable string // the command loci
	Config     string // the configuration's text; it names Socket as its control socket. Empty: ConfigFile is there
	ConfigFile string // where it is written, for its owner alone, because it may hold keys
	Socket     string // empty for a process without control socket
	Log        string

	Arguments   []string            // behind `run --config ConfigFile`
	Environment []string            // beside that of this process
	Credential  *syscall.Credential // as whom it runs; nil is this process's user
	Path        string              // the file that is run in place of Executable, which stays the first argument
}

// Start starts the daemon.
func (s DaemonSpec) Start() (*Daemon, error) {
	if s.Config != "" {
		if err := os.WriteFile(s.ConfigFile, []byte(s.Config), 0o600); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(s.Executable, append([]string{"run", "--config", s.ConfigFile}, s.Arguments...)...)
	if s.Path != "" {
		cmd.Path = s.Path
	}
	if len(s.Environment) > 0 {
		cmd.Env = append(os.Environ(), s.Environment...)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.Credential}
	d, err := StartProcess(s.Namespace, s.Namespace.Role(), s.Log, cmd)
	if err == nil && s.Socket != "" {
		d.Socket, d.Client = s.Socket, api.NewClient(s.Socket)
	}
	return d, err
}

// StartProcess starts any process as a Daemon. It has a session of its own: Ctrl-C reaches the laboratory alone, which ends its
// daemons in order, and kept daemons survive the terminal.
func StartProcess(ns *testnet.Namespace, name, log string, cmd *exec.Cmd) (*Daemon, error) {
	d := &Daemon{Name: name, log: log, cmd: cmd, ended: make(chan struct{})}
	output, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := ns.Start(cmd); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait()
		close(d.ended)
	}()
	return d, nil
}

// PID is the process ID.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (d *Daemon) Ended() <-chan struct{} { return d.ended }

// endedError is an error once the process has ended.
func (d *Daemon) endedError() error {
	select {
	case <-d.ended:
		return fmt.Errorf("the daemon of %s has ended: %s", d.Name, d.cmd.ProcessState)
	default:
		return nil
	}
}

// Poll asks until done says so or fails, one of the daemons ends, or the context does.
func Poll(ctx context.Context, daemons []*Daemon, done func() (bool, error)) error {
	for {
		if finished, err := done(); finished || err != nil {
			return err
		}
		for _, d := range daemons {
			if err := d.endedError(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(PollInterval):
		}
	}
}

// AwaitReady waits until the daemon says that it is ready. It ends early when the daemon ends, or one of those that it needs.
func (d *Daemon) AwaitReady(ctx context.Context, needs ...*Daemon) error {
	err := Poll(ctx, append([]*Daemon{d}, needs...), func() (bool, error) {
		status, err := d.Client.Status(ctx)
		return err == nil && status.Ready, nil // an error: it does not listen yet
	})
	if err != nil {
		return fmt.Errorf("%s does not get ready: %w", d.Name, err)
	}
	return nil
}

// AwaitRegistrations waits until a Map-Server has so many registrations.
func (d *Daemon) AwaitRegistrations(ctx context.Context, count int) error {
	found := 0
	err := Poll(ctx, []*Daemon{d}, func() (bool, error) {
		list, err := d.Client.Registrations(ctx)
		found = len(list)
		return err == nil && found >= count, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d EID-prefixes are registered at %s: %w", found, count, d.Name, err)
	}
	return nil
}

// AwaitRTR waits until an RTR, the first one, has confirmed the registration of a router behind a NAT.
func (d *Daemon) AwaitRTR(ctx context.Context) error {
	err := Poll(ctx, []*Daemon{d}, func() (bool, error) {
		nat, err := d.Client.NAT(ctx)
		return err == nil && len(nat.RTRs) > 0 && nat.RTRs[0].ConfirmedAt != nil, nil
	})
	if err != nil {
		return fmt.Errorf("no RTR confirms the registration of %s: %w", d.Name, err)
	}
	return nil
}

// WithLogs adds the ends of the daemons' logs to an error: the logs are removed with the network.
func WithLogs(err error, daemons []*Daemon) error {
	all := []error{err}
	for _, d := range daemons {
		content, readErr := os.ReadFile(d.log)
		if readErr != nil || len(bytes.TrimSpace(content)) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		all = append(all, fmt.Errorf("log of %s:\n  %s", d.Name, strings.Join(lines[max(0, len(lines)-logLines):], "\n  ")))
	}
	return errors.Join(all...)
}

// Stop asks the daemon to end, which leaves its data plane in force. One that does not end in time is killed, which is an error.
func (d *Daemon) Stop(within time.Duration) error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-d.ended:
		return nil
	case <-time.After(within):
		return errors.Join(fmt.Errorf("the daemon of %s does not stop", d.Name), d.Kill())
	}
}

// Kill ends the daemon at once.
func (d *Daemon) Kill() error {
	err := d.cmd.Process.Kill()
	<-d.ended
	return err
}

// StopDaemons asks all of them first, and kills those that take too long.
func StopDaemons(daemons []*Daemon) {
	for _, d := range daemons {
		_ = d.cmd.Process.Signal(syscall.SIGTERM)
	}
	late, cancel := context.WithTimeout(context.Background(), daemonStop)
	defer cancel()
	for _, d := range daemons {
		select {
		case <-d.ended:
		case <-late.Done():
			_ = d.Kill()
		}
	}
}
