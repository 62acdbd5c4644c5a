// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// TestPinsThatEndWithTheDaemon starts a daemon in each of the ways in which it may get mounts of its own. It warns where its BPF file
// system ends with it, and only there.
func TestPinsThatEndWithTheDaemon(t *testing.T) {
	for _, program := range []string{"ip", "nsenter", "unshare", "mount"} {
		testnet.RequireProgram(t, program)
	}
	n := newLISPNetwork(t)
	namespace := n.net.Name() + "-xtr1"
	n.must(os.WriteFile(n.file("xtr1"), []byte(n.xtr(1)), 0o600))
	const warning = "on a BPF file system of this mount namespace alone"
	for _, c := range []struct {
		name  string
		by    []string
		warns bool
	}{
		{"ip netns exec", []string{"ip", "netns", "exec", namespace}, true},
		{"nsenter", []string{"nsenter", "--net=/run/netns/" + namespace}, false},
		// As a service manager does it.
		{"own mounts, shared BPF file system", []string{"nsenter", "--net=/run/netns/" + namespace, "unshare", "--mount"}, false},
		// As a container's first process does it: pins live as long as the container.
		{"container", []string{"nsenter", "--net=/run/netns/" + namespace, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
			"sh", "-c", `mount -t bpf bpf /sys/fs/bpf && "$@"; exit $?`, "sh"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log logBuffer
			words := append(c.by, binary, "run", "--config", n.file("xtr1"))
			cmd := exec.Command(words[0], words[1:]...)
			cmd.Stdout, cmd.Stderr = &log, &log
			n.must(cmd.Start())
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				n.await("the daemon answers no more", func(ctx context.Context) bool {
					_, err := n.client("xtr1").Status(ctx)
					return err != nil
				})
			}()
			var status api.Status
			n.await("ready", func(ctx context.Context) (ready bool) {
				var err error
				status, err = n.client("xtr1").Status(ctx)
				return err == nil && status.Ready
			})
			inStatus, inLog := strings.Contains(strings.Join(status.Warnings, "\n"), warning), strings.Contains(log.String(), warning)
			if inStatus != c.warns || inLog != c.warns {
				t.Errorf("told in the status: %v, in the log: %v, want %v:\n%s", inStatus, inLog, c.warns, log.String())
			}
		})
	}
	if out, status := n.loci("xtr1", "datapath", "detach", "--config", n.file("xtr1")); status != 0 {
		t.Errorf("detach: %s", out)
	}
}
