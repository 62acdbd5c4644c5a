// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"net"
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
