// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve answers each connection to a Unix socket.
func serve(t *testing.T, answer func(net.Conn)) (c *Client) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { answer(conn); _ = conn.Close() }()
		}
	}()
	return NewClient(path)
}

// TestHeaderWithoutEnd: what answers at the socket cannot fill the client's memory.
func TestHeaderWithoutEnd(t *testing.T) {
	c := serve(t, func(conn net.Conn) {
		line := []byte(strings.Repeat("x", 1000))
		_, err := conn.Write([]byte("HTTP/1.1 200 OK\r\nA: "))
		for err == nil {
			_, err = conn.Write(line)
		}
	})
	if _, err := c.Status(t.Context()); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("a header without end: %v", err)
	}
}

// TestContextEndsAnAnswer: a list of which nothing more comes ends with the context, for its reason.
func TestContextEndsAnAnswer(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	c := serve(t, func(conn net.Conn) {
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[{\r\n"))
		<-done
	})
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := c.MapCache(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an answer without end: %v", err)
	}
}

// TestTruncatedAnswer: an answer that breaks off is no short one.
func TestTruncatedAnswer(t *testing.T) {
	c := serve(t, func(conn net.Conn) {
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[\r\n"))
	})
	if _, err := c.MapCache(t.Context()); err == nil {
		t.Error("half an answer is taken for a whole one")
	}
}

// TestLists that are none, break off or do not end are errors, and what came before is there.
func TestLists(t *testing.T) {
	const one = `{"eid_prefix": "10.1.0.0/24", "unheard-of": [1]}`
	for _, c := range []struct {
		name, body string
		elements   int
		fails      string
	}{
		{"empty", " [ \n ] ", 0, ""},
		{"two", "[" + one + " ,\n" + one + "]", 2, ""},
		{"no array", one, 0, "not a JSON array"},
		{"no JSON", "<html>", 0, "<"},
		{"nothing", "", 0, "EOF"},
		{"broken off between elements", "[" + one, 1, "EOF"},
		{"broken off within one", "[" + one + `,{"eid_p`, 1, "EOF"},
		{"an element of another kind", "[" + one + ",7]", 1, "unmarshal JSON number"},
		{"a prefix that is none", `[{"eid_prefix": "ten"}]`, 0, "ten"},
		{"an element without end", "[" + one + `,{"site":"` + strings.Repeat("x", maxElementOctets+1<<16), 1, "has more than 16777216 octets"},
	} {
		client := serve(t, func(conn net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(conn)) // what is not read resets the connection
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"+c.body)
		})
		elements := 0
		var failed error
		for _, err := range client.EachDatabase(t.Context(), ListQuery{}) {
			if err != nil {
				failed = err
				break
			}
			elements++
		}
		if elements != c.elements || (failed == nil) != (c.fails == "") || failed != nil && !strings.Contains(failed.Error(), c.fails) {
			t.Errorf("%s: %d elements, %v; want %d, %q", c.name, elements, failed, c.elements, c.fails)
		}
	}
}
