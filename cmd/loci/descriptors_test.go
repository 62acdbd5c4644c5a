// SPDX-License-Identifier: Apache-2.0

package main_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestShowBesideIdleConnections: a daemon that may open 64 files, and has 150 clients that say nothing, answers the next one.
func TestShowBesideIdleConnections(t *testing.T) {
	directory := t.TempDir()
	file, socket := filepath.Join(directory, "loci.yaml"), filepath.Join(directory, "control.sock")
	free, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	port := free.LocalAddr().(*net.UDPAddr).Port
	free.Close()
	text := fmt.Sprintf("map-server: {sites: []}\ncontrol: {socket: %s, addresses: [127.0.0.1], port: %d}\n", socket, port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log logBuffer
	daemon := exec.Command("sh", "-c", `ulimit -n 64; exec "$0" run --config "$1"`, binary, file)
	daemon.Stdout, daemon.Stderr = &log, &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = daemon.Process.Signal(syscall.SIGTERM); _ = daemon.Wait() }()
	show := func() (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		output, err := exec.CommandContext(ctx, binary, "show", "status", "--socket", socket).CombinedOutput()
		return string(output), err
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := show(); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready:\n%s", log.String())
		}
	}
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go holdConnections(socket, 150, stop, stopped)
	defer func() { close(stop); <-stopped }()
	for range 5 {
		time.Sleep(100 * time.Millisecond)
		if output, err := show(); err != nil {
			t.Errorf("%v\n%s\n%s", err, output, log.String())
		}
	}
	if !strings.Contains(log.String(), "takes fewer clients") {
		t.Errorf("the log does not say that there are few descriptors:\n%s", log.String())
	}
}

// holdConnections keeps connections open that say nothing, and opens them anew one after the other.
func holdConnections(socket string, count int, stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	all := make([]net.Conn, count)
	defer func() {
		for _, conn := range all {
			if conn != nil {
				conn.Close()
			}
		}
	}()
	for turn := 0; ; turn++ {
		i := turn % count
		if all[i] != nil {
			all[i].Close()
		}
		all[i], _ = net.Dial("unix", socket)
		pause := time.Duration(0)
		if turn >= count {
			pause = 10 * time.Millisecond
		}
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
	}
}
