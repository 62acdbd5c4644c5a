// SPDX-License-Identifier: Apache-2.0

package main_test

// lispers.net's JSON interface between two processes of ours: the control plane of
// one drives the data plane of the other by it.

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loci/internal/testnet"
)

func TestPlanesMeetAtTheLispersInterface(t *testing.T) {
	n := newLISPNetwork(t)
	directory := filepath.Join(n.dir, "lispers")
	n.must(os.Mkdir(directory, 0o700))
	configuration := strings.Replace(n.xtr(1), "datapath:\n", "datapath:\n  lispers: {directory: "+directory+"}\n", 1)
	n.must(os.WriteFile(n.file("xtr1"), []byte(configuration), 0o600))
	n.run("ms", n.mappingSystem())
	n.launch("data", "xtr1", "--planes", "data", "--detach")
	n.launch("control", "xtr1", "--planes", "control")
	n.awaitReady("xtr1")
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	one, two := testSite{1}, testSite{2}
	// The interface has no word for "ready": the data plane looks for its peer once a second.
	n.await("the data plane knows its EIDs", func(ctx context.Context) bool {
		result, err := testnet.Ping{Namespace: n.at["host1"], Source: one.host4(), Destination: two.host4(), Timeout: 300 * time.Millisecond}.Run(ctx)
		return err == nil && result.Received == 1
	})
	n.ping("host1", one.host4(), two.host4(), 5)
	n.ping("host1", one.host6(), two.host6(), 5)
	n.ping("host2", two.host4(), one.host4(), 5)
}
