// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loci/dataplane"
	"loci/internal/testnet"
	"loci/lisp"
	"loci/mapsock"
)

// start starts a program and returns the lines that it prints.
func start(t *testing.T, command *exec.Cmd) *bufio.Scanner {
	t.Helper()
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints strings.Builder
	command.Stderr = &complaints
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_, _ = io.Copy(io.Discard, output)
		_ = command.Wait()
		if t.Failed() {
			t.Logf("%s: %s", command, complaints.String())
		}
	})
	return bufio.NewScanner(output)
}

// connected waits until so many clients are there.
func (s *served) connected(t *testing.T, clients uint64) {
	t.Helper()
	for deadline := time.Now().Add(patience); s.server.Counters()["mapsock_clients"] < clients; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the program does not connect")
		}
	}
}

// resolves lets packets miss and demands that a control plane answers them.
func resolves(t *testing.T, s *served, listener *mapsock.Monitor) {
	t.Helper()
	apply(t, s.engine, own("10.1.0.0/24"))
	for _, test := range []struct {
		to, prefix, rloc string
		action           lisp.Action
	}{
		{"10.2.0.9", "10.2.0.0/24", "192.0.2.2", 0},
		{"10.99.0.1", "10.99.0.1/32", "", lisp.ActionDrop},
		{"10.3.77.1", "10.3.0.0/16", "192.0.2.3", 0},
	} {
		s.engine.Send("site0", packetTo(test.to))
		next(t, listener, mapsock.TypeMissEID)
		got := next(t, listener, mapsock.TypeAdd)
		if got.Errno != 0 || got.Prefix.String() != test.prefix {
			t.Fatalf("packet to %s: %s", test.to, got)
		}
		entry, ok := s.engine.Mapping(lisp.MustParsePrefix(test.prefix))
		if !ok || entry.Mapping.Action != test.action || entry.Mapping.Negative() != (test.rloc == "") {
			t.Fatalf("packet to %s: %+v", test.to, entry)
		}
		if test.rloc != "" && entry.Mapping.Locators[0].RLOC.String() != test.rloc {
			t.Errorf("packet to %s: %+v", test.to, entry)
		}
	}
	c := s.engine.Counters()
	if c.ReleasedPackets != 2 || c.EncapsulatedPackets != 2 {
		t.Errorf("%d packets released, %d encapsulated, want 2", c.ReleasedPackets, c.EncapsulatedPackets)
	}
}

func TestExampleInC(t *testing.T) {
	testnet.RequireProgram(t, "gcc")
	program := filepath.Join(t.TempDir(), "answer")
	if output, err := exec.Command("gcc", "-Wall", "-Wextra", "-Werror", "-std=c99", "-O2", "-o", program, "../c/answer.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, output)
	}
	s := serve(t, Options{})
	listener := s.monitor(t, mapsock.HearOperations|mapsock.HearEvents)
	start(t, exec.Command(program, s.path, "10.2.0.0/24", "192.0.2.2", "10.3.0.0/16", "192.0.2.3", "2001:db8:2::/64", "192.0.2.2"))
	s.connected(t, 2)
	resolves(t, s, listener)
	for _, wrong := range [][]string{{s.path}, {s.path, "10.2.0.0/33", "192.0.2.1"}, {s.path, "x", "y"}, {"/nowhere", "10.0.0.0/8", "192.0.2.1"}} {
		if err := exec.Command(program, wrong...).Run(); err == nil {
			t.Errorf("%v is accepted", wrong)
		}
	}
}

func TestExampleInPython(t *testing.T) {
	testnet.RequireProgram(t, "python3")
	s := serve(t, Options{})
	listener := s.monitor(t, mapsock.HearOperations|mapsock.HearEvents)
	file := filepath.Join(t.TempDir(), "mappings")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# comment\n10.2.0.0/24 192.0.2.2 2001:db8:ff00::2,2,100\n10.3.0.0/16 192.0.2.3\n10.0.0.0/8 192.0.2.9\n10.99.0.1/32 drop\n")
	expired := to("10.55.0.0/16", "192.0.2.2")
	expired.Entry.ExpiresAt = time.Now().Add(-time.Minute)
	apply(t, s.engine, expired)
	lines := start(t, exec.Command("python3", "-B", "../python/controlplane.py", s.path, file))
	if got := next(t, listener, mapsock.TypeDelete); got.Flags&mapsock.FlagExpired == 0 || got.Prefix.String() != "10.55.0.0/16" {
		t.Errorf("%s, want the expiry", got)
	}
	resolves(t, s, listener)
	if lines.Scan(); !strings.Contains(lines.Text(), "10.1.0.10 -> 10.2.0.9: 10.2.0.0/24") {
		t.Errorf("it says %q", lines.Text())
	}
	write("10.2.0.0/24 192.0.2.2\n10.99.0.1/32 drop\n") // 10.3.0.0/16 is gone
	if got := next(t, listener, mapsock.TypeDelete); got.Flags&mapsock.FlagExpired != 0 || got.Prefix.String() != "10.3.0.0/16" {
		t.Errorf("%s, want 10.3.0.0/16 removed", got)
	}
}

// The module's other functions, by a script that a user could write.
func TestPythonModule(t *testing.T) {
	testnet.RequireProgram(t, "python3")
	s := serve(t, Options{})
	fill(t, s, 3000)
	apply(t, s.engine, dataplane.Flush{Database: true}, to("[7]2001:db8:2::/64", "2001:db8:ff00::2"))
	script := `
import errno, sys, mapsock
from mapsock import Locator, MapSocket, Refused
with MapSocket(sys.argv[1]) as control:
    assert len(list(control.dump())) == 3001
    assert control.get("10.0.1.1").eid == "10.0.1.1/32"
    assert control.get("11.0.0.1") is None
    six = control.get("2001:db8:2::9", instance=7)
    assert six.eid == "2001:db8:2::/64" and six.locators[0].rloc == "2001:db8:ff00::2", six
    assert six.moment(mapsock.T_EXPIRES) > six.moment(mapsock.T_CREATED)
    control.add("10.1.0.0/24", [Locator("192.0.2.1")], flags=mapsock.F_DB)
    assert [e.eid for e in control.dump(mapsock.F_DB)] == ["10.1.0.0/24"]
    try:
        control.add("10.9.0.0/24", [Locator("192.0.2.77")], flags=mapsock.F_DB)
        raise SystemExit("a foreign locator was taken")
    except Refused as refused:
        assert refused.errno == errno.EADDRNOTAVAIL, refused
    try:
        control.delete("12.0.0.0/8")
        raise SystemExit("what is not there was deleted")
    except Refused as refused:
        assert refused.errno == errno.ESRCH and "12.0.0.0/8" in refused.strerror, refused
    control.flush()
    assert list(control.dump()) == []
    assert control.counters()["miss_packets"] == 0
    for broken in (b"", b"x", b"\0" * 31, b"\0" * 64):
        try:
            mapsock.decode(broken)
            raise SystemExit("broken octets were taken")
        except ValueError:
            pass
`
	command := exec.Command("python3", "-B", "-c", script, s.path)
	command.Dir = "../python"
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// What is chosen to be told does not take away answers, and a look at what is there does not wait.
func TestPythonListens(t *testing.T) {
	testnet.RequireProgram(t, "python3")
	s := serve(t, Options{})
	script := `
import sys, mapsock
from mapsock import Locator, MapSocket, Refused
with MapSocket(sys.argv[1]) as control, MapSocket(sys.argv[1]) as other:
    control.socket.settimeout(10)
    other.hear(mapsock.HEAR_OPERATIONS)
    control.hear(mapsock.HEAR_EVENTS)
    assert list(control.listen(timeout=0)) == []
    control.socket.settimeout(10)  # an answer that does not come is an error here
    control.add("10.2.0.0/24", [Locator("192.0.2.2")])
    control.delete("10.2.0.0/24")
    try:
        control.delete("10.2.0.0/24")
        raise SystemExit("what is not there was deleted")
    except Refused:
        pass
    control.flush()
    # The echo of a write that nothing waits for is not told, unless it failed or was asked for.
    write, wrong = mapsock.Message(mapsock.FLUSH), mapsock.Message(mapsock.DELETE, eid="10.9.0.0/24")
    control.send(write, wrong)
    assert [m.errno != 0 for m in control.listen(timeout=1)] == [True]
    control.hear(mapsock.HEAR_OWN)
    control.send(write)
    assert [m.type for m in control.listen(timeout=1)] == [mapsock.FLUSH]
    # What has arrived is there at once, more than one message too.
    assert [m.type for m in other.listen(timeout=0)][:2] == [mapsock.ADD, mapsock.DELETE]
    assert list(other.listen(timeout=0)) == []
`
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "python3", "-B", "-c", script, s.path)
	command.Dir = "../python"
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
