// SPDX-License-Identifier: Apache-2.0

package daemon

// Telling a service manager how far the daemon is: one datagram to the socket
// that it names in NOTIFY_SOCKET (systemd's sd_notify protocol).

import (
	"net"
	"os"
	"strings"
)

// notifyManager is best effort: without a manager there is nobody to tell.
func notifyManager(state string) {
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
