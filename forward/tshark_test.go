// SPDX-License-Identifier: Apache-2.0

package forward

// Another reader's opinion of golden packets that go to the core: tshark finds the headers that
// the table means, and the inner packet behind them. What tshark 4.0 does not know is left out:
// the P bit of LISP-GPE, whose inner packet it finds all the same.

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"loci/internal/golden"
)

var tsharkFields = []string{
	"lisp-data.flags.nonce", "lisp-data.flags.lsb", "lisp-data.flags.enr", "lisp-data.flags.mv", "lisp-data.iid", "lisp-data.lsb", "lisp-data.lsb8",
	"lisp-data.srcmapver", "lisp-data.dstmapver", "vxlan.vni", "vxlan.next_proto", "ip.dst", "ipv6.dst",
}

// tsharkOpinions are the fields of golden packets by name, "." where there is none.
var tsharkOpinions = map[string]string{
	"udp ipv4-in-ipv4":                 "1 0 0 0 . . . . . . . 192.0.2.2,10.2.0.10 .",
	"udp ipv6-in-ipv4":                 "1 0 0 0 . . . . . . . 192.0.2.2 2001:db8:2::10",
	"udp ipv4-in-ipv6":                 "1 0 0 0 . . . . . . . 10.3.0.10 2001:db8:ff00::2",
	"udp ipv6-in-ipv6":                 "1 0 0 0 . . . . . . . . 2001:db8:ff00::2,2001:db8:3::10",
	"instance-id 7 ipv4-in-ipv6":       "1 0 0 0 7 . . . . . . 10.2.0.10 2001:db8:ff00::2",
	"send status-bits":                 "1 1 0 0 . 0x00000001 . . . . . 192.0.2.2,10.2.0.10 .",
	"send status-bits and instance-id": "1 1 0 0 7 . 0x03 . . . . 10.2.0.10 2001:db8:ff00::2",
	"send versions":                    "0 0 0 1 . . . 69 100 . . 192.0.2.2,10.2.0.10 .",
	"send versions and status-bits":    "0 1 0 1 . 0x00000001 . 69 100 . . 192.0.2.2,10.2.0.10 .",
	"request an echo":                  "1 0 1 0 . . . . . . . 192.0.2.2,10.2.0.10 .",
	"public internet":                  "0 0 0 0 . . . . . . . 192.0.2.2,10.2.0.10 .",
	"send lisp-gpe ipv4-in-ipv4":       "0 0 0 0 . . . . . . . 192.0.2.2,10.2.0.10 .",
	"send vxlan-gpe ipv4-in-ipv4":      ". . . . . . . . . 0 1 192.0.2.2,10.2.0.10 .",
	"send vxlan-gpe ipv6-in-ipv6":      ". . . . . . . . . 0 2 . 2001:db8:ff00::2,2001:db8:3::10",
	"send vxlan-gpe instance-id":       ". . . . . . . . . 7 1 10.2.0.10 2001:db8:ff00::2",
}

func TestTsharkAgreesOnGoldenPackets(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("tshark is missing, and CI must not skip its opinion")
	}
	if err != nil {
		t.Skip("tshark is missing")
	}
	table, err := golden.Load("..")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var packets [][]byte
	for _, c := range table.Cases {
		if tsharkOpinions[c.Name] != "" {
			names, packets = append(names, c.Name), append(packets, c.Output)
		}
	}
	if len(names) != len(tsharkOpinions) {
		t.Fatalf("the table has %v, want %d of them", names, len(tsharkOpinions))
	}
	args := []string{"-r", writePackets(t, packets), "-T", "fields", "-E", "separator=;", "-E", "aggregator=,"}
	for _, field := range tsharkFields {
		args = append(args, "-e", field)
	}
	output, err := exec.Command(tshark, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range strings.Split(strings.TrimRight(string(output), "\n"), "\n") {
		columns := strings.Split(row, ";")
		for j := range columns {
			if columns[j] == "" {
				columns[j] = "."
			}
		}
		if got := strings.Join(columns, " "); got != tsharkOpinions[names[i]] {
			t.Errorf("%s: tshark says\n%s, want\n%s", names[i], got, tsharkOpinions[names[i]])
		}
	}
}

// writePackets writes a capture of IP packets.
func writePackets(t *testing.T, packets [][]byte) string {
	t.Helper()
	var capture bytes.Buffer
	w := pcapgo.NewWriter(&capture)
	if err := w.WriteFileHeader(65535, layers.LinkTypeRaw); err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(p), Length: len(p)}, p); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "golden.pcap")
	if err := os.WriteFile(path, capture.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
