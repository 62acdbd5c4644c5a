// SPDX-License-Identifier: Apache-2.0

package transport

// Control messages that leave from the data port: a node behind a NAT sends them so, because the NAT then has one
// binding for them and for data packets (draft-ermagan-lisp-nat-traversal s.5.1.1). Nothing is received here: the
// engine receives at that port.

import (
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loci/forward"
)

// reopenPause is how long a data port that could not be opened is left alone.
const reopenPause = time.Second

// dataPort is the port as a source, opened for a family when a message first leaves from it.
type dataPort struct {
	mu        sync.Mutex // no longer than for opening and closing
	four, six *familySocket
	failedAt  time.Time
	closed    bool
	log       *slog.Logger
}

// socket is that of a family; nil where it cannot be opened.
func (d *dataPort) socket(is4 bool) *familySocket {
	of, at := &d.six, netip.AddrPortFrom(netip.IPv6Loopback(), forward.DataPort)
	if is4 {
		of, at = &d.four, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), forward.DataPort)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if *of != nil || d.closed || time.Since(d.failedAt) < reopenPause {
		return *of
	}
	socket, err := listenFamily(at, setDataPortOptions)
	if err != nil {
		if d.failedAt.IsZero() {
			d.log.Error("control messages cannot leave from the data port", "port", forward.DataPort, "error", err)
		}
		d.failedAt = time.Now()
		return nil
	}
	*of = socket
	return socket
}

func (d *dataPort) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, f := range []*familySocket{d.four, d.six} {
		if f != nil {
			f.socket.Close()
		}
	}
	d.four, d.six = nil, nil
}

// setDataPortOptions lets the socket stand beside those of an engine in this process, which receive at the port. It
// is bound to the loopback address, which may be missing and to which nothing is sent, so it takes nothing away from
// them; each message names its own source.
func setDataPortOptions(network, address string, raw syscall.RawConn) error {
	if err := setSocketOptions(network, address, raw); err != nil {
		return err
	}
	var failed error
	err := raw.Control(func(fd uintptr) {
		free := unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1)
		if network == "udp6" {
			free = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
		}
		failed = errors.Join(free, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 0))
	})
	return errors.Join(err, failed)
}
