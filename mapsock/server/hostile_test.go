// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/internal/testnet"
	"loci/lisp"
	"loci/mapsock"
)

// unknownMandatory is an attribute that no version knows, with a number.
var unknownMandatory = binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, 4000|1<<15), 4), 0)

// Whatever one client sends, it is answered, counted, and the next message of
// another client works as before.
func TestBrokenDatagrams(t *testing.T) {
	s := serve(t, Options{})
	good := s.dial(t)
	lying := mustAppend(t, nil, ask(t, 7, to("10.2.0.0/24", "192.0.2.2")))
	binary.NativeEndian.PutUint16(lying, uint16(len(lying)+4))
	version := mustAppend(t, nil, &mapsock.Message{Type: mapsock.TypeFlush, Seq: 7})
	version[2] = 9
	attribute := mustAppend(t, nil, &mapsock.Message{Type: mapsock.TypeFlush, Seq: 7})
	attribute = append(attribute, unknownMandatory...)
	binary.NativeEndian.PutUint16(attribute, uint16(len(attribute)))
	twice := mustAppend(t, nil, withHops(ask(t, 7, to("10.2.0.0/24", "192.0.2.2"))))
	twice[bytes.LastIndex(twice, []byte{192, 0, 2, 3})+3] = 2
	event := mustAppend(t, nil, &mapsock.Message{Type: mapsock.TypeMissEID, Seq: 7, HasEID: true, Prefix: lisp.MustParsePrefix("10.2.0.1")})
	long := make([]byte, mapsock.MaxDatagram+8)
	copy(long, mustAppend(t, nil, &mapsock.Message{Type: mapsock.TypeFlush, Seq: 7}))
	for _, test := range []struct {
		name     string
		datagram []byte
		seq      uint32
		want     unix.Errno
	}{
		{"one octet", []byte{1}, 0, unix.EBADMSG},
		{"short header", lying[:20], 0, unix.EBADMSG},
		{"lying length", lying, 7, unix.EBADMSG},
		{"zeros", make([]byte, 4096), 0, unix.EPROTONOSUPPORT},
		{"wrong version", version, 7, unix.EPROTONOSUPPORT},
		{"unknown mandatory attribute", attribute, 7, unix.ENOPROTOOPT},
		{"event from a client", event, 7, unix.EOPNOTSUPP},
		{"a path that meets a hop twice", twice, 7, unix.EINVAL},
		{"too long", long, 7, unix.EMSGSIZE},
	} {
		t.Run(test.name, func(t *testing.T) {
			bad, raw := s.connect(t, mapsock.HearOwn)
			before := s.server.Counters()["mapsock_refused_format_total"]
			if _, err := raw.Write(test.datagram); err != nil {
				t.Fatal(err)
			}
			got, err := bad.Next()
			if err != nil {
				t.Fatal(err)
			}
			if got.Errno != test.want || got.Seq != test.seq || got.ErrorText == "" || got.Flags&mapsock.FlagOwn == 0 {
				t.Errorf("answer %s, want errno %d, seq %d", got, test.want, test.seq)
			}
			if after := s.server.Counters()["mapsock_refused_format_total"]; after != before+1 {
				t.Errorf("counted %d times", after-before)
			}
			apply(t, good, to("10.2.0.0/24", "192.0.2.2"))
			send(t, bad, &mapsock.Message{Type: mapsock.TypeGetSettings, Seq: 8})
			if got := next(t, bad, mapsock.TypeGetSettings); got.Errno != 0 {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

// longPath has as many hops as there may be.
func longPath(t *testing.T) lisp.Path {
	t.Helper()
	hops := make([]lisp.RLOC, lisp.MaxHops)
	for i := range hops {
		hops[i] = lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, byte(2 + i)})).WithPort(uint16(i))
	}
	path, err := lisp.NewPath(hops...)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// withHops adds hops to the first locator of a message, the last of which is 192.0.2.3.
func withHops(m *mapsock.Message) *mapsock.Message {
	path, _ := lisp.NewPath(m.Locators[0].RLOC, lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.3")))
	m.Locators[0].Behind = path.Behind
	return m
}

// A thousand random datagrams, cut and turned ones among them: the server stays.
func TestRandomDatagrams(t *testing.T) {
	s := serve(t, Options{})
	random := rand.New(rand.NewPCG(1, 2))
	bad, raw := s.connect(t, 0)
	go func() {
		for {
			if _, err := bad.Next(); err != nil && !errors.As(err, new(*mapsock.FormatError)) {
				return
			}
		}
	}()
	various := []dataplane.Operation{
		dataplane.PutLocatorState{RLOC: longPath(t).RLOC, Behind: longPath(t).Behind, State: dataplane.LocatorDown},
		dataplane.SetSettings{Settings: dataplane.Settings{Wait: dataplane.DefaultWaitBounds, Roles: []dataplane.RolePolicy{
			{EIDs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, {Role: dataplane.RolePITR, EIDs: []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}},
		}}},
		to("10.2.0.0/24", "192.0.2.2", "2001:db8::1"), own("10.1.0.0/24"), dataplane.PutLocatorState{RLOC: peerRLOC, State: dataplane.LocatorDown},
		dataplane.SetSettings{Settings: s.engine.Settings()},
	}
	for range 1000 {
		b := mustAppend(t, nil, ask(t, 1, various[random.IntN(len(various))]))
		for range random.IntN(8) {
			b[random.IntN(len(b))] = byte(random.Uint32())
		}
		b = append(b, b[:random.IntN(len(b))]...)
		if _, err := raw.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, s.dial(t), to("10.2.0.0/24", "192.0.2.2"))
}

// A listener that does not read loses what it does not read, is told how much, and
// no other client notices.
func TestStoppedListenerLosesItsOwn(t *testing.T) {
	s := serve(t, Options{Limits: Limits{QueueOctets: 64 << 10}})
	stopped, awake, control := s.monitor(t, mapsock.HearOperations), s.monitor(t, mapsock.HearOperations), s.dial(t)
	const operations = 20000
	for i := 0; i < operations; i += 100 {
		var batch []dataplane.Operation
		for j := range 100 {
			batch = append(batch, to(fmt.Sprintf("10.2.%d.%d/32", (i+j)>>8, (i+j)&255), "192.0.2.2"))
		}
		apply(t, control, batch...)
		for range batch {
			next(t, awake, mapsock.TypeAdd)
		}
	}
	got, lost, gaps := 0, uint64(0), 0
	for got+int(lost) < operations {
		m, err := stopped.Next()
		if err != nil {
			t.Fatalf("after %d messages, %d lost: %v", got, lost, err)
		}
		switch m.Type {
		case mapsock.TypeLost:
			lost += m.Lost
			gaps++
		case mapsock.TypeAdd:
			if want := got + int(lost); m.Prefix.String() != fmt.Sprintf("10.2.%d.%d/32", want>>8, want&255) {
				t.Fatalf("message %d is %s: the loss was told at the wrong place", want, m)
			}
			got++
		}
	}
	if lost == 0 || gaps == 0 || s.server.Counters()["mapsock_messages_lost_total"] != lost {
		t.Errorf("%d lost in %d gaps, %d counted", lost, gaps, s.server.Counters()["mapsock_messages_lost_total"])
	}
	apply(t, control, to("10.3.0.0/24", "192.0.2.2"))
	next(t, stopped, mapsock.TypeAdd)
}

// A client that asks and does not read its answers is not read any more; memory
// stays bounded, and others go on.
func TestFloodWithoutReading(t *testing.T) {
	s := serve(t, Options{Limits: Limits{QueueOctets: 64 << 10}})
	_, raw := s.connect(t, mapsock.HearOwn)
	control := s.dial(t)
	var b []byte
	for i := range 500 {
		b = mustAppend(t, b, &mapsock.Message{Type: mapsock.TypeGetCounters, Seq: uint32(i)})
	}
	_ = raw.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	written := 0
	for ; written < 1000; written++ {
		if _, err := raw.Write(b); err != nil {
			break
		}
	}
	if written == 1000 {
		t.Error("500,000 requests without reading an answer were taken")
	}
	apply(t, control, to("10.2.0.0/24", "192.0.2.2"))
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	for c := range s.server.sessions {
		c.queue.mu.Lock()
		if c.queue.octets > 64<<10 {
			t.Errorf("%d octets wait for a client", c.queue.octets)
		}
		c.queue.mu.Unlock()
	}
}

// A dump that is not read costs its client the connection, and its place is free.
func TestStoppedDumpIsCutOff(t *testing.T) {
	s := serve(t, Options{Limits: Limits{DumpPatience: 50 * time.Millisecond}})
	fill(t, s, 20000)
	c, control := s.monitor(t, mapsock.HearOwn), s.dial(t)
	send(t, c, &mapsock.Message{Type: mapsock.TypeDump})
	for deadline := time.Now().Add(patience); s.server.Counters()["mapsock_clients_cut_total"] == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is still connected")
		}
	}
	apply(t, control, to("11.0.0.0/8", "192.0.2.2"))
	for {
		if _, err := c.Next(); err != nil {
			return
		}
	}
}

// A client that closes its sending side gets its answers and an end.
func TestHalfOpen(t *testing.T) {
	s := serve(t, Options{})
	fill(t, s, 5000)
	c, raw := s.connect(t, mapsock.HearOwn)
	send(t, c, &mapsock.Message{Type: mapsock.TypeGetSettings, Seq: 1})
	send(t, c, &mapsock.Message{Type: mapsock.TypeDump, Seq: 2})
	if err := raw.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	counts := map[uint32]int{}
	for {
		m, err := c.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		counts[m.Seq]++
	}
	if counts[1] != 1 || counts[2] != 5001 {
		t.Errorf("answers by seq: %v", counts)
	}
}

func TestTooManyClients(t *testing.T) {
	s := serve(t, Options{Limits: Limits{Writers: 2}})
	first := s.dial(t)
	s.dial(t)
	if _, err := mapsock.Dial(s.path); !errors.Is(err, unix.EUSERS) {
		t.Errorf("the third client: %v", err)
	}
	if _, err := mapsock.DialMonitor(s.path, 0); !errors.Is(err, unix.EUSERS) {
		t.Errorf("the third client, a monitor: %v", err)
	}
	if got := s.server.Counters()["mapsock_clients_refused_total"]; got != 2 {
		t.Errorf("%d counted", got)
	}
	_ = first.Close()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		c, err := mapsock.Dial(s.path)
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a place is free: %v", err)
		}
	}
}

// Connections that come and go leave nothing behind.
func TestNothingIsLeft(t *testing.T) {
	s := serve(t, Options{})
	fill(t, s, 2000)
	s.dial(t)
	before := runtime.NumGoroutine()
	for range 50 {
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: s.path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(mustAppend(t, nil, &mapsock.Message{Type: mapsock.TypeDump}))
		_ = c.Close()
	}
	for deadline := time.Now().Add(patience); s.server.Counters()["mapsock_clients"] > 1 || runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d clients, %d goroutines, %d before", s.server.Counters()["mapsock_clients"], runtime.NumGoroutine(), before)
		}
	}
}

const actAsEnvironment = "MAPSOCK_TEST_ACT_ON"

// TestMain lets the test be a client of another user.
func TestMain(m *testing.M) {
	if path := os.Getenv(actAsEnvironment); path != "" {
		fmt.Println(actAsReader(path))
		return
	}
	os.Exit(m.Run())
}

// actAsReader tries everything that a reader may and may not.
func actAsReader(path string) string {
	c, err := mapsock.Dial(path)
	if err != nil {
		return "dial: " + err.Error()
	}
	defer c.Close()
	_, readable := c.Mapping(lisp.MustParsePrefix("10.2.0.0/24"))
	var refused []string
	for _, operation := range []dataplane.Operation{
		to("10.3.0.0/24", "192.0.2.2"), dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix("10.2.0.0/24")}, dataplane.Flush{MapCache: true},
		dataplane.SetSettings{Settings: dataplane.Settings{}}, dataplane.PutLocatorState{RLOC: peerRLOC},
	} {
		refused = append(refused, fmt.Sprint(errors.Is(errors.Join(c.Apply(operation)...), unix.EPERM)))
	}
	err = c.Detach(context.Background())
	return fmt.Sprintf("reads %v, is refused %s %v", readable, strings.Join(refused, " "), errors.Is(err, unix.EPERM))
}

// The group reads, the owner writes, others do not get in.
func TestPermissions(t *testing.T) {
	testnet.RequireRoot(t)
	const group, reader, writer = 64001, 64002, 64003
	s := serve(t, Options{Writers: []uint32{writer}})
	apply(t, s.engine, to("10.2.0.0/24", "192.0.2.2"))
	if err := errors.Join(os.Chmod(filepath.Dir(s.path), 0o755), os.Chown(s.path, -1, group)); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(s.path), "client")
	if err := copyFile(program); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		uid, gid uint32
		want     string
	}{
		{reader, group, "reads true, is refused true true true true true true"},
		{reader, reader, "permission denied"},
	} {
		command := exec.Command(program)
		command.Env = []string{actAsEnvironment + "=" + s.path}
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: test.uid, Gid: test.gid}}
		output, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(output), test.want) {
			t.Errorf("user %d, group %d: %s (%v), want %s", test.uid, test.gid, output, err, test.want)
		}
	}
	if got := s.server.Counters()["mapsock_refused_permission_total"]; got != 6 {
		t.Errorf("%d refusals counted", got)
	}
	command := exec.Command(program)
	command.Env = []string{actAsEnvironment + "=" + s.path}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: writer, Gid: group}}
	output, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "reads true, is refused false false false false false false") {
		t.Errorf("the writer: %s (%v)", output, err)
	}
}

// copyFile puts this test where others may run it.
func copyFile(to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}

func TestListenReplacesOnlyTheDead(t *testing.T) {
	path := socketPath(t)
	first, err := Listen(path, Access{UID: -1, GID: -1})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != DefaultMode {
		t.Errorf("%v %v, want mode %o", info, err, DefaultMode)
	}
	if _, err := Listen(path, Access{UID: -1, GID: -1}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a socket that is served: %v", err)
	}
	_ = first.UnixListener.Close() // as a killed process leaves it
	second, err := Listen(path, Access{UID: -1, GID: -1})
	if err != nil {
		t.Fatalf("a socket that no process serves: %v", err)
	}
	_ = first.Close()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the first removed the second's socket: %v", err)
	}
	_ = second.Close()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, Access{UID: -1, GID: -1}); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file: %v", err)
	}
}
