// SPDX-License-Identifier: Apache-2.0

// Time stamps of packets. The kernel stamps packets on arrival only while some socket asks for it, and begins with that a
// while after the first one asks; until then a packet gets the time at which it is read, which may be much later, and
// captures of different interfaces would disagree about what came first.
//
// A capture never begins before stamps are those of arrival.

package testnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	stampProbeWait  = 2 * time.Millisecond // how long a probe lies unread
	stampProbeLimit = 5000                 // probes, about ten seconds: the kernel begins in the background
)

// askForStamps makes the kernel stamp what the socket receives.
func askForStamps(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
}

// stampOf finds the kernel's time stamp among a packet's control messages.
func stampOf(control []byte) (time.Time, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Time{}, err
	}
	for _, message := range messages {
		if message.Header.Level != unix.SOL_SOCKET || message.Header.Type != unix.SCM_TIMESTAMPNS {
			continue
		}
		switch data := message.Data; len(data) { // a struct timespec
		case 8: // of a machine of 32 bits
			seconds, nanoseconds := binary.NativeEndian.Uint32(data), binary.NativeEndian.Uint32(data[4:])
			return time.Unix(int64(seconds), int64(nanoseconds)), nil
		case 16:
			seconds, nanoseconds := binary.NativeEndian.Uint64(data), binary.NativeEndian.Uint64(data[8:])
			return time.Unix(int64(seconds), int64(nanoseconds)), nil
		}
	}
	return time.Time{}, errors.New("a packet has no time stamp")
}

// awaitArrivalStamps sends datagrams over lo, in the namespace of the calling thread, until one that lay unread has the
// time of its arrival.
func awaitArrivalStamps() error {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var asked error
	if err := raw.Control(func(fd uintptr) { asked = askForStamps(int(fd)) }); err != nil || asked != nil {
		return errors.Join(err, asked)
	}
	for range stampProbeLimit {
		if onArrival, err := probeStamp(conn); onArrival || err != nil {
			return err
		}
	}
	return fmt.Errorf("packets do not get the time of their arrival: %w", os.ErrDeadlineExceeded)
}

func probeStamp(conn *net.UDPConn) (onArrival bool, err error) {
	if _, err := conn.WriteTo([]byte{0}, conn.LocalAddr()); err != nil {
		return false, err
	}
	time.Sleep(stampProbeWait) // over lo it has arrived by now
	readAt := time.Now()
	control := make([]byte, 128)
	_, n, _, _, err := conn.ReadMsgUDP(make([]byte, 1), control)
	if err != nil {
		return false, err
	}
	stamp, err := stampOf(control[:n])
	return stamp.Before(readAt), err
}
