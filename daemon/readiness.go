// SPDX-License-Identifier: Apache-2.0

package daemon

// Telling a supervisor, such as systemd, how far the daemon is: one datagram to the socket
// that it names in NOTIFY_SOCKET (the sd_notify protocol).

import (
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// supervisor is told that the daemon has started, once, and what it waits for, when that changes.
type supervisor struct {
	telling sync.Mutex
	status  string
	started bool
	longer  time.Time // when more time for the start was last asked for
}

// start says that the configuration is in force, whatever is still awaited.
func (s *supervisor) start() {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.started = true
	tellSupervisor("READY=1\nSTATUS=" + s.status)
}

// state says what the daemon waits for.
func (s *supervisor) state(status string) {
	s.telling.Lock()
	defer s.telling.Unlock()
	status = strings.ReplaceAll(status, "\n", "; ")
	if s.status != status && s.started {
		tellSupervisor("STATUS=" + status)
	}
	s.status = status
}

const (
	moreTime      = "30000000" // microseconds
	moreTimeEvery = 5 * time.Second
)

// atWork asks for more time for a start that is getting on, at a piece of long work.
func (s *supervisor) atWork(what string) {
	if now := time.Now(); now.Sub(s.longer) >= moreTimeEvery {
		s.longer = now
		tellSupervisor("EXTEND_TIMEOUT_USEC=" + moreTime + "\nSTATUS=" + what)
	}
}

// tellSupervisor is best effort: without a supervisor it does nothing.
func tellSupervisor(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if strings.HasPrefix(path, "@") {
		path = "\x00" + path[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(state))
}
