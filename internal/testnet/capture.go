// SPDX-License-Identifier: Apache-2.0

// Captures by AF_PACKET, in Go alone: packets with the kernel's time stamps in nanoseconds, as they pass an interface.
//
// What an interface carries inside one machine is not always what a wire would carry: a packet's own TCP or UDP checksum
// may be unfinished (checksum offload), and one packet may be a GSO packet of up to 64 KiB that leaves in segments
// (GSO). Both are captured as they are.
//
// A capture never holds more than its queue, and says how many packets it missed.

package testnet

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	// CaptureSnapOctets is the longest packet that is captured whole: a GSO packet and its headers fit.
	CaptureSnapOctets = 256 << 10

	captureQueueBytes = 64 << 20
	maxDrainPackets   = 1 << 16
)

// Captured is one packet. Data is valid only during the call that gets it.
type Captured struct {
	Time     time.Time
	Link     string
	Outgoing bool // sent by the interface, seen from its namespace
	Length   int  // octets on the link
	Data     []byte
}

// Capture says what to capture.
type Capture struct {
	Namespace *Namespace
	Links     []string // Ethernet interfaces
	// IncomingOnly leaves out what the interfaces send: on a router each packet is then captured once, as it comes in.
	IncomingOnly bool
	Filter       []bpf.Instruction // of classic BPF, on the frame; empty captures everything
}

// Running is a capture at work.
type Running struct {
	file  *os.File
	links map[int]string
	given Capture
	take  func(Captured) error
	done  chan error

	packets, missed uint64
}

// Start begins to capture: when it returns, every packet that passes from now on is captured. take gets the packets one
// after another on a goroutine of the capture; its first error ends the capture.
func (c Capture) Start(take func(Captured) error) (*Running, error) {
	r := &Running{given: c, take: take, links: map[int]string{}, done: make(chan error, 1)}
	for _, name := range c.Links {
		link, err := c.Namespace.link.LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("testnet: capture %s in %s: %w", name, c.Namespace.name, err)
		}
		r.links[link.Attrs().Index] = name
	}
	if len(r.links) == 0 {
		return nil, fmt.Errorf("testnet: capture in %s: no interface named", c.Namespace.name)
	}
	if err := c.Namespace.Do(r.open); err != nil {
		return nil, fmt.Errorf("testnet: capture %v in %s: %w", c.Links, c.Namespace.name, err)
	}
	go r.run()
	return r, nil
}

// open makes the socket deaf at first (protocol 0): nothing gets in before the filter is in place.
func (r *Running) open() error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	r.file = os.NewFile(uintptr(fd), "capture")
	if err := r.prepare(fd); err != nil {
		r.file.Close()
		return err
	}
	return nil
}

func (r *Running) prepare(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureQueueBytes); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	if err := errors.Join(askForStamps(fd), awaitArrivalStamps()); err != nil {
		return fmt.Errorf("time stamps: %w", err)
	}
	if err := setFilter(fd, r.given.Filter); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	address := &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL)}
	if len(r.links) == 1 { // several are told apart by what each packet says; one is bound, which is cheaper
		for index := range r.links {
			address.Ifindex = index
		}
	}
	return unix.Bind(fd, address)
}

func setFilter(fd int, instructions []bpf.Instruction) error {
	if len(instructions) == 0 {
		return nil
	}
	assembled, err := bpf.Assemble(instructions)
	if err != nil {
		return err
	}
	program := make([]unix.SockFilter, 0, len(assembled))
	for _, i := range assembled {
		program = append(program, unix.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}

// Stop takes what is still queued, ends the capture and returns its error. A second Stop is an error.
func (r *Running) Stop() error {
	if err := r.file.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return fmt.Errorf("testnet: stop the capture in %s: %w", r.given.Namespace.name, err)
	}
	err := <-r.done
	if err != nil {
		return fmt.Errorf("testnet: capture %v in %s: %w", r.given.Links, r.given.Namespace.name, err)
	}
	return nil
}

// Packets returns how many packets were taken, and how many the full queue missed. Call it after Stop.
func (r *Running) Packets() (taken, missed uint64) { return r.packets, r.missed }

func (r *Running) run() {
	defer r.file.Close()
	raw, err := r.file.SyscallConn()
	if err != nil {
		r.done <- err
		return
	}
	reader := frameReader{buffer: make([]byte, CaptureSnapOctets), control: make([]byte, 256)}
	for err == nil {
		err = raw.Read(func(fd uintptr) bool { return reader.read(int(fd)) })
		if err == nil {
			err = r.give(&reader)
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = r.drain(&reader)
	}
	raw.Control(func(fd uintptr) {
		if stats, statsErr := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); statsErr == nil {
			r.missed = uint64(stats.Drops)
		}
	})
	r.done <- err
}

// drain takes what was queued when Stop was called; traffic that goes on cannot make it endless.
func (r *Running) drain(reader *frameReader) error {
	if err := r.file.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	raw, err := r.file.SyscallConn()
	if err != nil {
		return err
	}
	for range maxDrainPackets {
		ready := false
		if err := raw.Control(func(fd uintptr) { ready = reader.read(int(fd)) }); err != nil {
			return err
		}
		if !ready {
			return nil
		}
		if err := r.give(reader); err != nil {
			return err
		}
	}
	return nil
}

func (r *Running) give(reader *frameReader) error {
	if reader.err != nil {
		return reader.err
	}
	link, wanted := r.links[reader.from.Ifindex]
	outgoing := reader.from.Pkttype == unix.PACKET_OUTGOING
	if !wanted || (outgoing && r.given.IncomingOnly) {
		return nil
	}
	r.packets++
	return r.take(Captured{
		Time: reader.time, Link: link, Outgoing: outgoing, Length: reader.length,
		Data: reader.buffer[:min(reader.length, len(reader.buffer))],
	})
}

// frameReader receives one frame at a time.
type frameReader struct {
	buffer, control []byte
	length          int
	time            time.Time
	from            unix.SockaddrLinklayer
	err             error
}

// read returns false when there is nothing to read now.
func (f *frameReader) read(fd int) bool {
	n, controlLength, _, from, err := unix.Recvmsg(fd, f.buffer, f.control, unix.MSG_TRUNC|unix.MSG_DONTWAIT)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return false
	}
	f.err, f.length = err, n
	if link, ok := from.(*unix.SockaddrLinklayer); ok {
		f.from = *link
	}
	if err == nil {
		f.time, f.err = stampOf(f.control[:controlLength])
	}
	return true
}

func networkOrder(v uint16) uint16 { return v<<8 | v>>8 }

// PcapFile is a capture file of Ethernet frames in the pcap format with nanoseconds. Its Take fits Capture.Start.
type PcapFile struct {
	file      *os.File
	buffered  *bufio.Writer
	writer    *pcapgo.Writer
	maxOctets int64
	octets    int64
	left      uint64
}

// CreatePcap creates or replaces a capture file. Packets that would make it longer than maxOctets are left out, and
// counted.
func CreatePcap(path string, maxOctets int64) (*PcapFile, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("testnet: capture file: %w", err)
	}
	p := &PcapFile{file: file, buffered: bufio.NewWriterSize(file, 1<<20), maxOctets: maxOctets}
	p.writer = pcapgo.NewWriterNanos(p.buffered)
	if err := p.writer.WriteFileHeader(CaptureSnapOctets, layers.LinkTypeEthernet); err != nil {
		file.Close()
		return nil, fmt.Errorf("testnet: capture file: %w", err)
	}
	return p, nil
}

// Take appends one packet.
func (p *PcapFile) Take(packet Captured) error {
	const recordHeaderOctets = 16
	size := int64(len(packet.Data)) + recordHeaderOctets
	if p.octets+size > p.maxOctets {
		p.left++
		return nil
	}
	p.octets += size
	return p.writer.WritePacket(gopacket.CaptureInfo{
		Timestamp: packet.Time, CaptureLength: len(packet.Data), Length: packet.Length,
	}, packet.Data)
}

// LeftOut returns the number of packets that did not fit.
func (p *PcapFile) LeftOut() uint64 { return p.left }

// Close finishes the file.
func (p *PcapFile) Close() error {
	err := errors.Join(p.buffered.Flush(), p.file.Close())
	if err != nil {
		return fmt.Errorf("testnet: capture file: %w", err)
	}
	return nil
}

var _ io.Closer = (*PcapFile)(nil)
