// SPDX-License-Identifier: Apache-2.0

package daemon

// Telling a supervisor, such as systemd, how far the daemon is: one datagram to the socket
// that it names in NOTIFY_SOCKET (the sd_notify protocol).

import (
	"net"
	"os"
	"strings"
)

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
