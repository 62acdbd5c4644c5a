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
	every   time.Duration // more time for the start is asked for so often at most
	longer  time.Time     // when that was last
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
	// longestWork is for how long work may go on that does not say how far it is.
	longestWork  = 10 * time.Minute
	openingPlane = "opening the data plane, with what an earlier run left"
)

// atWork asks for more time for a start that is getting on, at a piece of long work.
func (s *supervisor) atWork(what string) {
	s.telling.Lock()
	defer s.telling.Unlock()
	if now := time.Now(); !s.started && now.Sub(s.longer) >= s.every {
		s.longer = now
		tellSupervisor("EXTEND_TIMEOUT_USEC=" + moreTime + "\nSTATUS=" + what)
	}
}

// during asks for more time while work goes on that does not say how far it is.
func (s *supervisor) during(what string, work func() error) error {
	done := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		again := time.NewTicker(s.every)
		defer again.Stop()
		tooLong := time.NewTimer(longestWork)
		defer tooLong.Stop()
		for {
			select {
			case <-again.C:
				s.atWork(what)
			case <-tooLong.C:
				return
			case <-done:
				return
			}
		}
	})
	defer asking.Wait()
	defer close(done)
	return work()
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
