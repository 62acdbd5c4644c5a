// SPDX-License-Identifier: Apache-2.0

package main_test

// loci capture: dropped packets with their reasons, as JSON and in a file that tshark reads.

import (
	"bytes"
	"encoding/json"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/command"
)

func TestCaptureShowsWhatIsDroppedAndWhy(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.runAll()
	one, two := testSite{1}, testSite{2}
	n.kill("ms") // no router answers Map-Requests: what waits is dropped in the end
	if out, status := n.loci("xtr1", "capture", "--config", n.file("xtr1"), "--reason", "boredom"); status != command.StatusUsage || !strings.Contains(out, "nothing is dropped for that") {
		t.Errorf("an unknown reason: status %d, %s", status, out)
	}
	file := filepath.Join(n.dir, "drops.pcapng")
	var out bytes.Buffer
	cmd := exec.Command(binary, "capture", "--config", n.file("xtr1"), "--json", "--count", "2", "--reason", "waiting-time-limit", "--write", file)
	cmd.Stdout, cmd.Stderr = &out, &out
	n.must(n.at["xtr1"].Start(cmd))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	deadline := time.After(60 * time.Second)
	for capturing := true; capturing; {
		n.sendDatagram("host1", two.host4().String())
		n.sendDatagram("host1", two.host6().String())
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("loci capture: %v, %s", err, out.String())
			}
			capturing = false
		case <-deadline:
			_ = cmd.Process.Kill()
			t.Fatal("nothing was captured")
		case <-time.After(100 * time.Millisecond):
		}
	}
	decoder := json.NewDecoder(&out)
	for range 2 {
		var d api.Drop
		n.must(decoder.Decode(&d))
		fromHost := strings.HasPrefix(d.Packet, one.host4().String()+" > ") || strings.HasPrefix(d.Packet, one.host6().String()+" > ")
		if d.Interface != "site0" || d.Reason != "waiting-time-limit" || !fromHost {
			t.Errorf("dropped: %+v", d)
		}
	}
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed")
	}
	told, err := exec.Command(tshark, "-r", file, "-T", "fields", "-e", "frame.interface_name", "-e", "udp.dstport").CombinedOutput()
	if err != nil || strings.Count(string(told), "site0 waiting-time-limit\t9\n") != 2 {
		t.Errorf("tshark: %v, %s", err, told)
	}
}

// sendDatagram sends one from a namespace; no host has to answer.
func (n *lispNetwork) sendDatagram(from, to string) {
	n.t.Helper()
	n.must(n.at[from].Do(func() error {
		conn, err := net.Dial("udp", net.JoinHostPort(to, "9"))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("to no one there"))
		return err
	}))
}
