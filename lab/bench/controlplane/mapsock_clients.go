// SPDX-License-Identifier: Apache-2.0

// Clients of a mapping socket for `loci bench mapsock`: one that writes and reads, and an audience of many listeners that one
// thread hears, so that what is measured is the server rather than the bench. Format: docs/mapsock.md.

package controlplane

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loci/lab/bench/testbed"
	"loci/lisp"
	"loci/mapsock"
)

const (
	// manyListeners is the number that the target names.
	manyListeners = 64
	// addedPrefixes is how many mappings adds make and then replace.
	addedPrefixes = 1 << 14
	// mapsockPatience bounds what is waited for.
	mapsockPatience = 10 * time.Second
)

// mapConnection is one client, as a plain program is one: it waits in the system call.
type mapConnection struct {
	fd      int
	buffer  []byte
	rest    []byte // of the datagram that is being read
	message mapsock.Message
	out     []byte
	seq     uint32
}

// dialMapsock connects a client that hears the answers to what it asks alone.
func dialMapsock(path string) (*mapConnection, error) {
	fd, err := connectMapsock(path)
	if err != nil {
		return nil, err
	}
	c := &mapConnection{fd: fd, buffer: make([]byte, mapsock.MaxDatagram)}
	patience := unix.NsecToTimeval(int64(mapsockPatience))
	err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience), c.hear(mapsock.HearOwn))
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func connectMapsock(path string) (fd int, err error) {
	if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

func (c *mapConnection) close() { unix.Close(c.fd) }

func (c *mapConnection) hear(what mapsock.Hearing) error {
	m := mapsock.Message{Type: mapsock.TypeListen, Hearing: what}
	m.Mark(mapsock.AttributeListen)
	return c.ask(&m)
}

func (c *mapConnection) send(m *mapsock.Message) error {
	c.seq++
	m.Seq = c.seq
	out, err := m.Append(c.out[:0])
	if err != nil {
		return err
	}
	c.out = out
	return c.write(out)
}

func (c *mapConnection) write(datagram []byte) error {
	_, err := uninterrupted(func() (int, error) { return unix.Write(c.fd, datagram) })
	return err
}

// uninterrupted repeats a system call that a signal to the process, as Go's runtime sends them, has interrupted.
func uninterrupted(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// next waits for a message, which is valid until the following call.
func (c *mapConnection) next() (*mapsock.Message, error) {
	if err := c.receive(); err != nil {
		return nil, err
	}
	length, err := c.message.Parse(c.rest)
	c.rest = c.rest[length:]
	return &c.message, err
}

// receive waits for a datagram, unless there is still something of the last.
func (c *mapConnection) receive() error {
	if len(c.rest) > 0 {
		return nil
	}
	n, err := uninterrupted(func() (int, error) { return unix.Read(c.fd, c.buffer) })
	if err == nil && n == 0 {
		err = io.EOF
	}
	c.rest = c.buffer[:max(n, 0)]
	return err
}

// ask sends a message and waits for its answer.
func (c *mapConnection) ask(m *mapsock.Message) error {
	if err := c.send(m); err != nil {
		return err
	}
	return c.await(1)
}

// await waits for answers, which must all be good ones.
func (c *mapConnection) await(answers int) error {
	for answers > 0 {
		m, err := c.next()
		if err != nil {
			return err
		}
		if m.Flags&mapsock.FlagOwn == 0 {
			continue
		}
		if err := m.Err(); err != nil {
			return err
		}
		answers--
	}
	return nil
}

// sendAdds adds or replaces the mappings that come next, in one datagram.
func (c *mapConnection) sendAdds(from, count int) error {
	return c.sendHosts(mapsockAdded, from%addedPrefixes, count)
}

func (c *mapConnection) sendHosts(prefix netip.Prefix, from, count int) (err error) {
	out := c.out[:0]
	for i := range count {
		m := addOf(netip.PrefixFrom(host(prefix, uint32(from+i)), 32), testbed.Core4Dec.Addr())
		c.seq++
		m.Seq = c.seq
		if out, err = m.Append(out); err != nil {
			return err
		}
	}
	c.out = out
	return c.write(out)
}

// sendFull sends a message as often as a datagram holds it, and says how often.
func (c *mapConnection) sendFull(m *mapsock.Message) (count int, err error) {
	out := c.out[:0]
	for len(out)+len(out)/max(count, 1) <= mapsock.MaxDatagram {
		c.seq++
		m.Seq = c.seq
		if out, err = m.Append(out); err != nil {
			return 0, err
		}
		count++
	}
	c.out = out
	return count, c.write(out)
}

// dumpAll reads the map-cache and counts its entries.
func dumpAll(path string) (entries int, err error) {
	c, err := dialMapsock(path)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := c.send(&mapsock.Message{Type: mapsock.TypeDump}); err != nil {
		return 0, err
	}
	for {
		if err := c.receive(); err != nil {
			return entries, err
		}
		// By their headers: what a reader makes of the entries is its own affair, and would be in the figure.
		length, flags := headerOf(c.rest)
		if length > 0 && flags&mapsock.FlagMore != 0 {
			c.rest = c.rest[length:]
			entries++
			continue
		}
		m, err := c.next()
		if err != nil {
			return entries, err
		}
		return entries, m.Err()
	}
}

// headerOf finds the length and the flags of the first message of a datagram; 0 when there is none.
func headerOf(datagram []byte) (length int, flags mapsock.Flags) {
	const offsetFlags = 4
	if len(datagram) < mapsock.HeaderSize {
		return 0, 0
	}
	length = int(binary.NativeEndian.Uint16(datagram))
	if length < mapsock.HeaderSize || length > len(datagram) {
		return 0, 0
	}
	return length, mapsock.Flags(binary.NativeEndian.Uint32(datagram[offsetFlags:]))
}

// audience is a number of listeners, and how many messages they have heard together.
type audience struct {
	files []int
	poll  int
	stop  atomic.Bool
	ended sync.WaitGroup

	heard, lost atomic.Int64
	lastAt      atomic.Int64 // nanoseconds since began
	began       time.Time
	more        chan struct{} // more was heard
}

func newAudience(path string, hearing mapsock.Hearing, listeners int) (*audience, error) {
	a := &audience{began: time.Now(), more: make(chan struct{}, 1)}
	var err error
	if a.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	for range listeners {
		if err := a.add(path, hearing); err != nil {
			a.close()
			return nil, err
		}
	}
	a.ended.Go(a.listen)
	return a, nil
}

// add connects a listener, and waits until it is one.
func (a *audience) add(path string, hearing mapsock.Hearing) error {
	fd, err := connectMapsock(path)
	if err != nil {
		return err
	}
	a.files = append(a.files, fd)
	m := mapsock.Message{Type: mapsock.TypeListen, Hearing: hearing}
	m.Mark(mapsock.AttributeListen)
	ask, err := m.Append(nil)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, ask); err != nil {
		return err
	}
	answer := make([]byte, mapsock.MaxDatagram)
	n, err := unix.Read(fd, answer)
	if err != nil {
		return err
	}
	if _, err := m.Parse(answer[:n]); err != nil {
		return err
	}
	if err := m.Err(); err != nil {
		return err
	}
	return unix.EpollCtl(a.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (a *audience) close() {
	a.stop.Store(true)
	a.ended.Wait()
	for _, fd := range a.files {
		unix.Close(fd)
	}
	unix.Close(a.poll)
}

// listen hears all, by a thread of its own.
func (a *audience) listen() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const lookUpMilliseconds = 50
	events := make([]unix.EpollEvent, manyListeners)
	buffer := make([]byte, mapsock.MaxDatagram)
	for !a.stop.Load() {
		n, err := unix.EpollWait(a.poll, events, lookUpMilliseconds)
		if err != nil && err != unix.EINTR {
			return
		}
		for _, event := range events[:max(n, 0)] {
			octets, _, err := unix.Recvfrom(int(event.Fd), buffer, unix.MSG_DONTWAIT)
			if err == nil && octets > 0 {
				a.hear(buffer[:octets])
			}
		}
		if n > 0 {
			a.lastAt.Store(int64(time.Since(a.began)))
			select {
			case a.more <- struct{}{}:
			default:
			}
		}
	}
}

// hear counts the messages of a datagram by their headers.
func (a *audience) hear(datagram []byte) {
	const offsetType = 3
	for {
		length, _ := headerOf(datagram)
		if length == 0 {
			return
		}
		if mapsock.Type(datagram[offsetType]) == mapsock.TypeLost {
			var m mapsock.Message
			if _, err := m.Parse(datagram[:length]); err == nil {
				a.lost.Add(int64(m.Lost))
			}
		} else {
			a.heard.Add(1)
		}
		datagram = datagram[length:]
	}
}

// await waits until so many messages were heard or lost, and returns when that was.
func (a *audience) await(ctx context.Context, messages int64) (time.Time, error) {
	late := time.After(mapsockPatience)
	for {
		if a.heard.Load()+a.lost.Load() >= messages {
			return a.began.Add(time.Duration(a.lastAt.Load())), nil
		}
		select {
		case <-a.more:
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-late:
			return time.Time{}, fmt.Errorf("listeners heard %d of %d messages, and lost %d", a.heard.Load(), messages, a.lost.Load())
		}
	}
}

// The EIDs of the bench: those that packets go to, those that adds are about, those that fill the table.
var (
	mapsockMissed = netip.MustParsePrefix("10.64.0.0/10")
	mapsockAdded  = netip.MustParsePrefix("10.32.0.0/12")
	mapsockFilled = netip.MustParsePrefix("10.128.0.0/9")
)

// host is the n-th address of an IPv4 prefix.
func host(prefix netip.Prefix, n uint32) netip.Addr {
	octets := prefix.Addr().As4()
	base := uint32(octets[0])<<24 | uint32(octets[1])<<16 | uint32(octets[2])<<8 | uint32(octets[3])
	base += n
	return netip.AddrFrom4([4]byte{byte(base >> 24), byte(base >> 16), byte(base >> 8), byte(base)})
}

// addOf is a mapping with one locator.
func addOf(prefix netip.Prefix, rloc netip.Addr) mapsock.Message {
	m := mapsock.Message{Type: mapsock.TypeAdd, Flags: mapsock.FlagReplace, Locators: []mapsock.Locator{{
		Locator: lisp.NewLocator(lisp.RLOCFromAddr(rloc)),
	}}}
	p, err := lisp.PrefixFrom(0, lisp.EIDFromAddr(prefix.Addr()), prefix.Bits())
	if err == nil {
		m.SetPrefix(p)
	}
	return m
}
