// SPDX-License-Identifier: Apache-2.0

package main

// Exit statuses: one scheme for every command, those that are added later as well.

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"loci/daemon/api"
	"loci/internal/command"
)

// exitStatus runs the command in this process; what it prints is thrown away.
func exitStatus(t *testing.T, arguments ...string) (int, error) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	root := newRootCommand()
	root.SetOut(null)
	root.SetErr(null)
	stderr := os.Stderr
	os.Stderr = null
	defer func() { os.Stderr = stderr }()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	err = command.Execute(ctx, root, arguments)
	return command.Status("loci", err, statusOf), err
}

// eachCommand yields the words of every command that does something itself, but those of loci-lab.
func eachCommand(cmd *cobra.Command, words []string, f func(cmd *cobra.Command, words []string)) {
	for _, sub := range cmd.Commands() {
		if sub.GroupID == labCommand || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		here := append(slices.Clone(words), sub.Name())
		if !sub.HasSubCommands() {
			f(sub, here)
		}
		eachCommand(sub, here, f)
	}
}

func TestWrongUsageEndsWithStatus2(t *testing.T) {
	eachCommand(newRootCommand(), nil, func(cmd *cobra.Command, words []string) {
		if status, err := exitStatus(t, append(words, "--no-such-flag")...); status != command.StatusUsage {
			t.Errorf("loci %v --no-such-flag: status %d, %v", words, status, err)
		}
		if cmd.DisableFlagParsing || cmd.Name() == "check" {
			return
		}
		many := append(slices.Clone(words), slices.Repeat([]string{"superfluous"}, 12)...)
		if status, err := exitStatus(t, many...); status != command.StatusUsage {
			t.Errorf("loci %v: status %d, %v", many, status, err)
		}
	})
	for _, words := range [][]string{
		{"shov"}, {"show", "map-cash"}, {"datapath", "detatch"}, {"explain"}, {"explain", "10.2.0.0/16"}, {"explain", "ten"}, {"run", "a.yaml", "--config", "b.yaml"},
		{"show", "database", "nonsense"}, {"show", "database", "--limit", "-1"}, {"lig", "10.2.0.1", "to"}, {"lig", "10.2.0.1", "--timeout", "9s"},
		{"ping", "10.2.0.1", "--interval", "61s"}, {"ping", "10.2.0.1", "--interval", "1ms"}, {"ping", "10.2.0.1", "--timeout", "61s"},
		{"ping", "10.2.0.1", "--timeout", "1ms"}, {"netcheck", "--timeout", "61s"}, {"netcheck", "--timeout", "1ms"},
		{"run", "--planes", "three"}, {"map", "give"}, {"mapstat", "-q"}, {"trace", "between", "x"},
	} {
		if status, err := exitStatus(t, words...); status != command.StatusUsage {
			t.Errorf("loci %v: status %d, %v", words, status, err)
		}
	}
}

// completed adds what a command needs beside its name to ask a daemon.
func completed(words []string) []string {
	last := words[len(words)-1]
	switch last {
	case "explain", "ping":
		return append(words, "10.2.0.1")
	case "lig":
		return append(words, "self")
	case "map":
		return append(words, "get", "-inet", "10.2.0.1")
	case "mapstat":
		return append(words, "-X")
	}
	return words
}

func TestNoDaemonEndsWithStatus3(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none.sock")
	asked := 0
	eachCommand(newRootCommand(), nil, func(cmd *cobra.Command, words []string) {
		if cmd.Flags().Lookup("socket") == nil && cmd.InheritedFlags().Lookup("socket") == nil {
			return
		}
		asked++
		if status, err := exitStatus(t, append(completed(words), "--socket", socket)...); status != command.StatusAbsent {
			t.Errorf("loci %v: status %d, %v", words, status, err)
		}
	})
	if asked < 15 {
		t.Errorf("%d commands ask a daemon", asked)
	}
}

// refusingDaemon answers everything with a refusal.
func refusingDaemon(t *testing.T) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "control.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(api.Problem{Message: "nothing was changed"})
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return socket
}

func TestRefusalEndsWithStatus4(t *testing.T) {
	socket := refusingDaemon(t)
	eachCommand(newRootCommand(), nil, func(cmd *cobra.Command, words []string) {
		if cmd.Flags().Lookup("socket") == nil && cmd.InheritedFlags().Lookup("socket") == nil || cmd.DisableFlagParsing {
			return
		}
		if status, err := exitStatus(t, append(completed(words), "--socket", socket)...); status != command.StatusRefused {
			t.Errorf("loci %v: status %d, %v", words, status, err)
		}
	})
}

// ownAddress is one of this host.
func ownAddress(t *testing.T) netip.Addr {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			return p.Addr()
		}
	}
	t.Skip("this host has no address but the loopback ones")
	return netip.Addr{}
}

func TestProblemsEndWithStatus1(t *testing.T) {
	directory := t.TempDir()
	wrong := filepath.Join(directory, "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("itr: {map-resolvers: [nowhere]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	unfit := filepath.Join(directory, "unfit.yaml") // an RLOC that is not an address of this host yet, beside one that is
	locators := fmt.Sprintf("[{address: %s}, {explicit-locator-path: [203.0.113.1, 203.0.113.2]}]", ownAddress(t))
	if err := os.WriteFile(unfit, []byte("interfaces: {core: [uplink0]}\netr: {local-eids: [{eid: 10.1.0.0/24, rlocs: "+locators+"}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	right := filepath.Join("..", "..", "examples", "map-resolver.yaml")
	comments := filepath.Join("..", "..", "packaging", "debian", "loci.yaml")
	for _, c := range []struct {
		words []string
		want  int
	}{
		{[]string{"check", wrong}, command.StatusProblems},
		{[]string{"check", right}, 0},
		{[]string{"run", "--config", wrong}, command.StatusConfiguration},
		{[]string{"run", "--config", comments}, command.StatusConfiguration},
		{[]string{"check", unfit}, 0},
		{[]string{"run", "--config", unfit}, command.StatusProblems}, // another start may find it
		{[]string{"run", "--config", filepath.Join(directory, "missing.yaml")}, command.StatusConfiguration},
		{[]string{"run", "--planes", "data", "--config", right}, command.StatusConfiguration},
		{[]string{"version"}, 0},
		{[]string{"--help"}, 0},
	} {
		if status, err := exitStatus(t, c.words...); status != c.want {
			t.Errorf("loci %v: status %d, want %d: %v", c.words, status, c.want, err)
		}
	}
}
