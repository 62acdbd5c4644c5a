// SPDX-License-Identifier: Apache-2.0

package packettrace

// `loci capture`: the packets that the data plane drops, and why, as lines, JSON or a pcapng file. It asks no daemon.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"loci/config"
	"loci/daemon/api"
	"loci/dataplane/kernel/observe"
	"loci/dataplane/kernel/pins"
	"loci/forward"
	"loci/internal/version"
)

// CaptureOptions say what to capture.
type CaptureOptions struct {
	ConfigFile string
	Reasons    []string  // docs/counters.md has them; none: all
	Count      int       // end after so many; 0: when the context ends
	File       io.Writer // gets the packets as pcapng, if it is given
}

// Capture captures in the calling thread's network namespace, which must be the
// daemon's, and hands each packet to `each`. It returns how many packets were lost
// because they came faster than they were read.
func Capture(ctx context.Context, o CaptureOptions, each func(api.Drop) error) (lost uint64, err error) {
	c, err := config.Load(o.ConfigFile)
	if err != nil {
		return 0, err
	}
	wanted, err := dropReasons(o.Reasons)
	if err != nil {
		return 0, err
	}
	if os.Geteuid() != 0 {
		return 0, fmt.Errorf("capturing needs root, because the tables are in the kernel: %w", fs.ErrPermission)
	}
	capture, err := observe.OpenCapture(c.Datapath.PinDirectory, "")
	if errors.Is(err, pins.ErrBusy) {
		return 0, errors.New("another capture is running: end it first")
	}
	if err != nil {
		return 0, inUserSpace(err, c.Datapath.Interface)
	}
	defer capture.Close()
	w := dropWriter{wanted: wanted, left: o.Count, each: each, names: map[uint32]string{}}
	if o.File != nil {
		w.file = &dropFile{out: o.File, interfaces: map[string]int{}}
	}
	err = capture.Read(ctx, w.take)
	if errors.Is(err, errEnough) {
		err = nil
	}
	lost, lostErr := capture.Lost()
	return lost, errors.Join(err, lostErr, w.file.flush())
}

// errEnough ends a capture that has as many packets as it wants.
var errEnough = errors.New("enough packets")

// DropReasons lists the reasons that CaptureOptions may name.
func DropReasons() (names []string) {
	for _, reason := range forward.DropReasons() {
		names = append(names, reason.String())
	}
	return names
}

// dropReasons reads reasons.
func dropReasons(names []string) (map[forward.DropReason]bool, error) {
	known := map[string]forward.DropReason{}
	for _, reason := range forward.DropReasons() {
		known[reason.String()] = reason
	}
	wanted := map[forward.DropReason]bool{}
	for _, name := range names {
		reason, ok := known[name]
		if !ok {
			return nil, &usageError{fmt.Errorf("reason %q: nothing is dropped for that; docs/counters.md has the reasons", name)}
		}
		wanted[reason] = true
	}
	return wanted, nil
}

// dropWriter passes on the packets that are wanted.
type dropWriter struct {
	wanted map[forward.DropReason]bool
	left   int // 0: without end
	each   func(api.Drop) error
	file   *dropFile
	names  map[uint32]string // of interfaces
}

func (w *dropWriter) take(p observe.DroppedPacket) error {
	if len(w.wanted) > 0 && !w.wanted[p.Reason] {
		return nil
	}
	d := api.Drop{At: p.At, Interface: w.name(p.Ifindex), Reason: p.Reason.String(), Octets: p.Octets, Packet: droppedText(p)}
	if err := errors.Join(w.file.write(d, p), w.each(d)); err != nil {
		return err
	}
	if w.left == 1 {
		return errEnough
	}
	w.left = max(w.left-1, 0)
	return nil
}

func (w *dropWriter) name(ifindex uint32) string {
	name, ok := w.names[ifindex]
	if !ok {
		name = fmt.Sprintf("if%d", ifindex)
		if link, err := net.InterfaceByIndex(int(ifindex)); err == nil {
			name = link.Name
		}
		w.names[ifindex] = name
	}
	return name
}

// droppedText is the packet in one line. Only the beginning of a longer one is known.
func droppedText(p observe.DroppedPacket) string {
	packet := p.Frame[min(p.Link, len(p.Frame)):]
	return packetText(append(packet[:len(packet):len(packet)], make([]byte, max(p.Octets-len(p.Frame), 0))...))
}

// dropFile is a pcapng file with one interface for each interface and reason: readers
// show its name beside every packet.
type dropFile struct {
	out        io.Writer
	ng         *pcapgo.NgWriter
	interfaces map[string]int
}

func (f *dropFile) write(d api.Drop, p observe.DroppedPacket) error {
	if f == nil {
		return nil
	}
	linkType := layers.LinkTypeEthernet
	if p.Link == 0 {
		linkType = layers.LinkTypeRaw
	}
	index, err := f.interfaceOf(d, linkType)
	if err != nil {
		return fmt.Errorf("writing the capture: %w", err)
	}
	info := gopacket.CaptureInfo{Timestamp: d.At, CaptureLength: len(p.Frame), Length: max(p.Octets, len(p.Frame)), InterfaceIndex: index}
	if err := f.ng.WritePacket(info, p.Frame); err != nil {
		return fmt.Errorf("writing the capture: %w", err)
	}
	return f.flush() // for a reader that follows the file
}

func (f *dropFile) interfaceOf(d api.Drop, linkType layers.LinkType) (int, error) {
	name := d.Interface + " " + d.Reason
	if index, ok := f.interfaces[name]; ok {
		return index, nil
	}
	description := pcapgo.NgInterface{Name: name, Description: "dropped: " + d.Reason, LinkType: linkType, TimestampResolution: 9,
		SnapLength: uint32(captureOctets)}
	index := 0
	var err error
	if f.ng == nil {
		f.ng, err = pcapgo.NewNgWriterInterface(f.out, description, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "loci " + version.String}})
	} else {
		index, err = f.ng.AddInterface(description)
	}
	f.interfaces[name] = index
	return index, err
}

func (f *dropFile) flush() error {
	if f == nil || f.ng == nil {
		return nil
	}
	return f.ng.Flush()
}
