// SPDX-License-Identifier: Apache-2.0

package lispers

// A peer written from the interface's description alone: it binds one of the sockets,
// sends texts to the other and reads generic JSON. It shares no code with what it
// tests but the names of the sockets.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

type object = map[string]any

type peer struct {
	testing.TB
	conn *net.UnixConn
	to   string
}

func newPeer(t testing.TB, d, own, other string) *peer {
	t.Helper()
	path := filepath.Join(d, own)
	_ = os.Remove(path)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{TB: t, conn: conn, to: filepath.Join(d, other)}
	t.Cleanup(p.die)
	return p
}

func controlPlanePeer(t testing.TB, d string) *peer {
	t.Helper()
	return newPeer(t, d, "lispers.net-itr", "lisp-ipc-data-plane")
}

func dataPlanePeer(t testing.TB, d string) *peer {
	t.Helper()
	return newPeer(t, d, "lisp-ipc-data-plane", "lispers.net-itr")
}

// die leaves the socket's file behind, as a process that is killed does.
func (p *peer) die() { _ = p.conn.Close() }

func (p *peer) say(format string, arguments ...any) {
	p.Helper()
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: p.to, Net: "unixgram"})
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	text := format
	if len(arguments) > 0 {
		text = fmt.Sprintf(format, arguments...)
	}
	if _, err := conn.Write([]byte(text)); err != nil {
		p.Fatal(err)
	}
}

// hear returns the next message; ok is false when none comes within patience.
func (p *peer) hear(patience time.Duration) (m object, octets int, ok bool) {
	p.Helper()
	buffer := make([]byte, 1<<17)
	_ = p.conn.SetReadDeadline(time.Now().Add(patience))
	n, err := p.conn.Read(buffer)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, 0, false
	}
	if err != nil {
		p.Fatal(err)
	}
	if err := json.Unmarshal(buffer[:n], &m); err != nil {
		p.Fatalf("%q: %v", buffer[:n], err)
	}
	return m, n, true
}

// await returns the next message of a type; others are passed over.
func (p *peer) await(kind string) object {
	p.Helper()
	m, _ := p.awaitSized(kind)
	return m
}

func (p *peer) awaitSized(kind string) (object, int) {
	p.Helper()
	for deadline := time.Now().Add(watchdog); time.Now().Before(deadline); {
		if m, octets, ok := p.hear(watchdog); ok && m["type"] == kind {
			return m, octets
		}
	}
	p.Fatalf("no message %s came", kind)
	return nil, 0
}

// quiet reads what is there, and reports how many messages of a type were among it.
func (p *peer) quiet(kind string) (count int) {
	p.Helper()
	for {
		m, _, ok := p.hear(10 * testInterval)
		if !ok {
			return count
		}
		if m["type"] == kind {
			count++
		}
	}
}

func parse(t testing.TB, text string) (m object) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

// same demands a message to be what the text says, in any order of fields.
func (p *peer) same(got object, want string) {
	p.Helper()
	if !reflect.DeepEqual(got, parse(p, want)) {
		text, _ := json.Marshal(got)
		p.Errorf("got  %s\nwant %s", text, want)
	}
}
