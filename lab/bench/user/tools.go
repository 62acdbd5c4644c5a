// SPDX-License-Identifier: Apache-2.0

package user

// The programs of others: where they are, and how to get them.

import (
	"os"
	"os/exec"
	"path/filepath"

	"loci/internal/testnet"
)

// tool is a program that an engine needs.
type tool struct{ program, install string }

var (
	oor       = tool{"oor", "apt-get install openoverlayrouter, and keep its service off: systemctl disable --now oor"}
	openVPN   = tool{"openvpn", "apt-get install openvpn"}
	wireGuard = tool{"wireguard-go", "`make peers` builds it beside loci-lab, from the Go module golang.zx2c4.com/wireguard"}
)

// path is where it is: beside this program, or in PATH. Debian has daemons where not every user's PATH leads.
func (t tool) path() (string, error) {
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), t.program)); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath(t.program)
	if err != nil {
		return exec.LookPath(filepath.Join("/usr/sbin", t.program))
	}
	return found, nil
}

// Missing are the programs that engines need and this machine does not have.
func Missing(engines []*Engine) (problems []testnet.Problem) {
	for _, e := range engines {
		if e.need == (tool{}) {
			continue
		}
		if _, err := e.need.path(); err != nil {
			problems = append(problems, testnet.Problem{
				What: "no " + e.need.program + ", for the arm " + e.Name, Do: e.need.install + "; `make bench` sees to all of them",
			})
		}
	}
	return problems
}
