// SPDX-License-Identifier: Apache-2.0

// Tests of UDP streams, captures, offloads and the preflight.

package testnet

import (
	"context"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/net/bpf"
)

func TestUDP(t *testing.T) {
	hosts := newTwoHosts(t)
	for name, stream := range map[string]UDP{
		"ipv4": {Destination: netip.AddrPortFrom(b4, 0), Count: 100},
		"ipv6": {Source: netip.AddrPortFrom(a6, 0), Destination: netip.AddrPortFrom(b6, 5000), Count: 10, Octets: 4000, Interval: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			stream.Sender, stream.Receiver = hosts.a, hosts.b
			result, err := stream.Run(context.Background())
			must(t, err)
			if result.Sent != stream.Count || result.Received != stream.Count || result.Lost+result.Reordered+result.Duplicates != 0 {
				t.Errorf("got %+v, want all %d in order", result, stream.Count)
			}
		})
	}
}

func TestUDPResultTellsDisorder(t *testing.T) {
	var result UDPResult
	seen, highest := make([]bool, 5), -1
	for _, number := range []int{0, 2, 1, 2, 4} {
		result.take(number, seen, &highest)
	}
	if result.Received != 4 || result.Reordered != 1 || result.Duplicates != 1 {
		t.Errorf("got %+v, want 4 received, 1 reordered, 1 duplicate", result)
	}
}

func TestCaptureSeesBothDirections(t *testing.T) {
	hosts := newTwoHosts(t)
	for name, c := range map[string]struct {
		capture Capture
		want    int
	}{
		"one interface":    {Capture{Links: []string{"to-a"}}, 2},
		"all, incoming":    {Capture{Links: []string{"to-a", "to-b"}, IncomingOnly: true}, 2},
		"all":              {Capture{Links: []string{"to-a", "to-b"}}, 4},
		"filter on length": {Capture{Links: []string{"to-a"}, Filter: []bpf.Instruction{bpf.RetConstant{Val: 0}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.capture.Namespace = hosts.r
			got := 0
			before := time.Now()
			running, err := c.capture.Start(func(p Captured) error {
				if isEcho(p.Data) {
					got++
				}
				if p.Time.Before(before) || p.Length != len(p.Data) {
					t.Errorf("packet of %d octets with %d at %v, before %v", p.Length, len(p.Data), p.Time, before)
				}
				return nil
			})
			must(t, err)
			result, err := Ping{Namespace: hosts.a, Destination: b4}.Run(context.Background())
			must(t, err)
			must(t, running.Stop())
			if got != c.want*result.Received || result.Received != 1 {
				t.Errorf("captured %d echo packets of %d pings, want %d of 1", got, result.Received, c.want)
			}
		})
	}
}

// TestCapturesAgreeAboutTime looks at one packet on its way over three links, by captures that have just begun.
func TestCapturesAgreeAboutTime(t *testing.T) {
	hosts := newTwoHosts(t)
	for range 20 {
		var seen [3]time.Time // each written by one capture, read after its Stop
		var captures []*Running
		for i, c := range []Capture{
			{Namespace: hosts.a, Links: []string{"eth0"}}, {Namespace: hosts.r, Links: []string{"to-a"}}, {Namespace: hosts.b, Links: []string{"eth0"}},
		} {
			running, err := c.Start(func(p Captured) error {
				if isEcho(p.Data) && p.Data[34] == 8 && seen[i].IsZero() {
					seen[i] = p.Time
				}
				return nil
			})
			must(t, err)
			captures = append(captures, running)
		}
		_, err := Ping{Namespace: hosts.a, Destination: b4}.Run(context.Background())
		must(t, err)
		for _, running := range captures {
			must(t, running.Stop())
		}
		if seen[0].IsZero() || seen[1].Before(seen[0]) || seen[2].Before(seen[1]) {
			t.Fatalf("the packet was at the three links at %v", seen)
		}
	}
}

func isEcho(frame []byte) bool {
	return len(frame) > 34 && binary.BigEndian.Uint16(frame[12:]) == 0x0800 && frame[23] == 1
}

func TestCaptureFileHoldsGSOPackets(t *testing.T) {
	hosts := newTwoHosts(t)
	path := filepath.Join(t.TempDir(), "a.pcap")
	file, err := CreatePcap(path, 1<<20)
	must(t, err)
	running, err := Capture{Namespace: hosts.a, Links: []string{"eth0"}}.Start(file.Take)
	must(t, err)
	_, err = TCP{Client: hosts.a, Server: hosts.b, Destination: b4, Octets: 4 << 20}.Run(context.Background())
	must(t, err)
	must(t, running.Stop())
	must(t, file.Close())
	taken, missed := running.Packets()
	if taken == 0 || missed != 0 || file.LeftOut() == 0 {
		t.Errorf("%d packets, %d missed, %d left out; want many, none, some", taken, missed, file.LeftOut())
	}
	written, largest := readPcap(t, path)
	if uint64(written)+file.LeftOut() != taken || largest <= 1514 {
		t.Errorf("%d packets in the file, the largest of %d octets, %d left out, %d taken", written, largest, file.LeftOut(), taken)
	}
}

func readPcap(t *testing.T, path string) (packets, largest int) {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	reader, err := pcapgo.NewReader(file)
	must(t, err)
	for {
		data, _, err := reader.ReadPacketData()
		if err != nil {
			return packets, largest
		}
		packets++
		largest = max(largest, len(data))
	}
}

func TestOffloadsChangeWhatIsSent(t *testing.T) {
	hosts := newTwoHosts(t)
	for _, feature := range []Feature{TSO, GSO, TxChecksum} {
		must(t, hosts.a.SetOffload("eth0", feature, false))
	}
	largest := 0
	running, err := Capture{Namespace: hosts.a, Links: []string{"eth0"}}.Start(func(p Captured) error {
		if p.Outgoing {
			largest = max(largest, p.Length)
		}
		return nil
	})
	must(t, err)
	_, err = TCP{Client: hosts.a, Server: hosts.b, Destination: b6, Octets: 1 << 20}.Run(context.Background())
	must(t, err)
	must(t, running.Stop())
	if largest != 1514 {
		t.Errorf("the largest frame without offloads has %d octets, want 1514", largest)
	}
	if err := hosts.a.SetOffload("eth0", Feature{"no-such-feature"}, true); err == nil {
		t.Error("a feature that does not exist was set")
	}
}

func TestPreflightFindsNoProblemWhereTestsRun(t *testing.T) {
	RequireRoot(t)
	if problems := append(Preflight(), PreflightFor("user")...); len(problems) != 0 {
		t.Errorf("got %v", problems)
	}
}

func TestSupportedRelease(t *testing.T) {
	for release, want := range map[string]bool{
		"6.1.0-18-amd64": true, "6.18.44": true, "7.0": true, "5.15.0": false, "6.0.9": false, "unknown": false,
	} {
		if got := supportedRelease(release); got != want {
			t.Errorf("%s: got %v", release, got)
		}
	}
}
