// SPDX-License-Identifier: Apache-2.0

package measured

// OpenOverlayRouter as a mobile node, beside ours.

import (
	"os"
	"os/exec"
	"sync"

	"loci/internal/testnet"
	"loci/lab"
)

// oorMobileNode is a node with two links and the EID 10.1.0.4, with the settings that OpenOverlayRouter ships with, but
// for keys and addresses.
const oorMobileNode = `operating-mode = MN
nat_traversal_support = off
map-resolver = {
 172.16.9.2
}
map-server {
 address = 172.16.9.2
 key-type = 1
 key = experiment-oor-0123456789
 proxy-reply = off
}
rloc-probing {
 rloc-probe-interval = 30
 rloc-probe-retries = 2
 rloc-probe-retries-interval = 5
}
database-mapping {
 eid-prefix = 10.1.0.4/32
 iid = 0
 ttl = 10
 rloc-iface {
  interface = wlan0
  ip_version = 4
  priority = 1
  weight = 50
 }
 rloc-iface {
  interface = wwan0
  ip_version = 4
  priority = 1
  weight = 50
 }
}
`

// oorProgram is where it is: Debian has daemons where not every user's PATH leads.
var oorProgram = sync.OnceValues(func() (string, error) {
	path, err := exec.LookPath("oor")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/oor")
	}
	return path, err
})

func hasOOR() bool {
	_, err := oorProgram()
	return err == nil
}

// startOOR starts it at its node.
func (m *measuring) startOOR() error {
	path, err := oorProgram()
	if err != nil {
		return err
	}
	// A veth never finishes the checksum that the host leaves to its interface, and OpenOverlayRouter takes it as
	// it is.
	if err := m.Nodes["host-b"].SetOffload("eth0", testnet.TxChecksum, false); err != nil {
		return err
	}
	file := m.Directory.Path("oor.conf")
	if err := os.WriteFile(file, []byte(oorMobileNode), 0o600); err != nil {
		return err
	}
	started, err := lab.StartProcess(m.Nodes["oor"], "oor", m.Directory.Path("oor.log"),
		exec.Command(path, "-d", "1", "-f", file))
	if err != nil {
		return err
	}
	m.Started = append(m.Started, started)
	return nil
}
