// SPDX-License-Identifier: Apache-2.0

// Emulated links: TAP interfaces in two or more namespaces, and this process between them, which delays, limits and loses
// their frames. The kernels that Loci is tested on need no netem module for it.

package testnet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Impairment is what an emulated link does to the frames from one node to another. The zero value is a perfect path.
type Impairment struct {
	// Delay is from the moment a frame has left the sender's queue until it is delivered. Jitter varies it, evenly
	// distributed from Delay-Jitter to Delay+Jitter. Frames never overtake each other: one that follows a late frame closely is
	// late as well.
	Delay, Jitter time.Duration
	// Rate is in bits of Ethernet frames (without preamble and checksum) a second; 0 is unlimited.
	Rate uint64
	// Queue is how much time's worth of frames may wait for the Rate; a frame that would wait longer is dropped. 0 is 100 ms.
	Queue time.Duration
	// Loss is the probability that a frame is lost, from 0 to 1.
	Loss float64
}

// defaultQueue is a common size of a router's queue.
const defaultQueue = 100 * time.Millisecond

// maxDelayed bounds the frames in flight in one direction of a pair, and with them memory.
const maxDelayed = 1 << 15

func (i Impairment) check() error {
	switch {
	case i.Delay < 0 || i.Jitter < 0 || i.Queue < 0:
		return errors.New("delay, jitter and queue must not be negative")
	case i.Jitter > i.Delay:
		return fmt.Errorf("jitter %v is more than delay %v", i.Jitter, i.Delay)
	case !(i.Loss >= 0 && i.Loss <= 1):
		return fmt.Errorf("loss %v: must be from 0 to 1", i.Loss)
	}
	return nil
}

// EmulatedLink connects interfaces of two or more namespaces like an Ethernet switch. Each pair of nodes has an Impairment for
// each direction. Its methods may be called from several goroutines.
type EmulatedLink struct {
	ports []*emulatedPort
	byMAC map[[6]byte]*emulatedPort // read only after the start
	ended sync.WaitGroup
}

// emulatedPort is one interface.
type emulatedPort struct {
	namespace *Namespace
	tap       *os.File
	paths     []*emulatedPath // to each other port
}

// Emulate makes the interfaces, sets them up with their addresses and MTU, and begins to pass frames, at first without any
// impairment. Equal seeds lose the same frames of equal traffic. The caller calls Close. After an error nothing is left.
func Emulate(seed uint64, ends ...End) (*EmulatedLink, error) {
	if len(ends) < 2 {
		return nil, fmt.Errorf("testnet: an emulated link needs two ends at least, not %d", len(ends))
	}
	l := &EmulatedLink{byMAC: make(map[[6]byte]*emulatedPort)}
	for _, end := range ends {
		if err := l.addPort(end); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	for i, from := range l.ports {
		for j, to := range l.ports {
			if from != to {
				from.paths = append(from.paths, newEmulatedPath(to, seededRandom(seed, i, j)))
			}
		}
	}
	for _, port := range l.ports {
		l.ended.Go(func() { l.read(port) })
		for _, path := range port.paths {
			l.ended.Go(path.deliver)
		}
	}
	return l, nil
}

// seededRandom decides about the frames from one port to another.
func seededRandom(seed uint64, from, to int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(from)<<32|uint64(to)))
}

func (l *EmulatedLink) addPort(end End) error {
	port := &emulatedPort{namespace: end.Namespace}
	for _, other := range l.ports {
		if other.namespace == end.Namespace {
			return fmt.Errorf("testnet: namespace %s has two ends on one emulated link", end.Namespace.name)
		}
	}
	err := end.Namespace.Do(func() (err error) {
		port.tap, err = openTAP(end.Name)
		return err
	})
	if err != nil {
		return end.failed("make a TAP interface", err)
	}
	l.ports = append(l.ports, port)
	if err := end.configure(); err != nil {
		return err
	}
	link, err := end.Namespace.link.LinkByName(end.Name)
	if err != nil {
		return end.failed("find", err)
	}
	l.byMAC[[6]byte(link.Attrs().HardwareAddr)] = port
	return nil
}

// openTAP makes a TAP interface in the namespace of the thread. It takes neither GSO packets nor packets without checksum, so
// what passes is what a cable carries. The interface goes with the file.
func openTAP(name string) (*os.File, error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Close takes the interfaces away and waits until no frame is under way any more.
func (l *EmulatedLink) Close() error {
	var all []error
	for _, port := range l.ports {
		all = append(all, port.tap.Close())
		for _, path := range port.paths {
			path.close()
		}
	}
	l.ended.Wait()
	return errors.Join(all...)
}

// Impair changes what happens to frames that are sent from now on, in one direction.
func (l *EmulatedLink) Impair(from, to *Namespace, i Impairment) error {
	if err := i.check(); err != nil {
		return fmt.Errorf("testnet: emulated link from %s to %s: %w", from.name, to.name, err)
	}
	path, err := l.path(from, to)
	if err != nil {
		return err
	}
	path.impair(i)
	return nil
}

// ImpairBoth is Impair in both directions.
func (l *EmulatedLink) ImpairBoth(a, b *Namespace, i Impairment) error {
	return errors.Join(l.Impair(a, b, i), l.Impair(b, a, i))
}

// Counts returns what happened to the frames of one direction.
func (l *EmulatedLink) Counts(from, to *Namespace) (EmulatedCounts, error) {
	path, err := l.path(from, to)
	if err != nil {
		return EmulatedCounts{}, err
	}
	return path.count(), nil
}

func (l *EmulatedLink) path(from, to *Namespace) (*emulatedPath, error) {
	for _, port := range l.ports {
		if port.namespace != from {
			continue
		}
		for _, path := range port.paths {
			if path.to.namespace == to {
				return path, nil
			}
		}
	}
	return nil, fmt.Errorf("testnet: no emulated link from %s to %s", from.name, to.name)
}

// ethernetHeader is destination, source and type.
const ethernetHeader = 14

// maxFrame is the longest frame that a TAP hands over: the largest MTU, Ethernet's header and a VLAN tag.
const maxFrame = 65535 + 18

// read takes what a port sends until its TAP is closed or its namespace is gone.
func (l *EmulatedLink) read(from *emulatedPort) {
	buffer := make([]byte, maxFrame)
	for {
		n, err := from.tap.Read(buffer)
		if err != nil {
			return
		}
		if n < ethernetHeader {
			continue
		}
		now := time.Now()
		to := l.byMAC[[6]byte(buffer[:6])]
		for _, path := range from.paths {
			if to == nil || path.to == to { // all others hear group addresses and addresses of unknown owners
				path.send(buffer[:n], now)
			}
		}
	}
}
