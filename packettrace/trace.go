// SPDX-License-Identifier: Apache-2.0

package packettrace

// `loci trace`: what the data plane decides about a packet, one that is made for the purpose or those that come by,
// step by step. It asks no daemon and changes nothing: copies of the programs decide (dataplane/kernel/observe).

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"

	"loci/config"
	"loci/daemon/api"
	"loci/dataplane/kernel/observe"
	"loci/forward"
)

// TraceOptions say what to trace.
type TraceOptions struct {
	ConfigFile string
	Filter     PacketFilter
	Live       bool // packets that come by, rather than one that is made
	Count      int  // so many of them; 0: until the context ends
}

// ErrUsage is wrapped by errors about the filter and the options, ErrNothingInForce where no data plane is there.
var (
	ErrUsage          = errors.New("wrong usage")
	ErrNothingInForce = observe.ErrNothingInForce
)

type usageError struct{ error }

func (e *usageError) Unwrap() []error { return []error{e.error, ErrUsage} }

// Trace traces in the calling thread's network namespace, which must be the daemon's, and
// hands each packet's trace to `each`, until that returns an error.
func Trace(ctx context.Context, o TraceOptions, each func(api.Trace) error) error {
	c, err := config.Load(o.ConfigFile)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("tracing needs root, because the tables are in the kernel: %w", fs.ErrPermission)
	}
	if o.Filter.Interface == "" {
		return &usageError{errors.New("filter: want `in INTERFACE`, or `out INTERFACE` for what this host sends itself")}
	}
	link, err := net.InterfaceByName(o.Filter.Interface)
	if err != nil {
		return &usageError{fmt.Errorf("filter: interface %s: %w", o.Filter.Interface, err)}
	}
	tracer, err := observe.OpenTracer(c.Datapath.PinDirectory, "")
	if err != nil {
		return inUserSpace(err, c.Datapath.Interface)
	}
	defer tracer.Close()
	t := packetTracer{tracer: tracer, link: link, filter: o.Filter}
	if o.Live {
		return t.live(ctx, o.Count, each)
	}
	packet, err := o.Filter.packet()
	if err != nil {
		return &usageError{err}
	}
	traced, err := t.trace(packet, 0)
	if err != nil {
		return err
	}
	return each(traced)
}

// packetTracer traces packets at one interface.
type packetTracer struct {
	tracer *observe.Tracer
	link   *net.Interface
	filter PacketFilter
}

func (t *packetTracer) trace(packet []byte, segment int) (api.Trace, error) {
	decided, err := t.tracer.Trace(observe.TracedPacket{
		Ifindex: uint32(t.link.Index), Leaves: t.filter.Leaves, Packet: packet, Segment: segment, VLAN: uint16(t.filter.VLAN),
	})
	if err != nil {
		return api.Trace{}, err
	}
	traced := api.Trace{At: time.Now(), Interface: t.link.Name, Packet: packetText(packet), Program: decided.Program,
		Verdict: decided.Verdict, Reason: decided.Reason}
	for _, step := range decided.Steps {
		traced.Steps = append(traced.Steps, api.TraceStep{Step: step.Name, Answer: step.Answer})
	}
	if decided.Packet != nil {
		traced.Result = packetText(decided.Packet)
	}
	return traced, nil
}

// packetText is a packet in one line.
func packetText(packet []byte) string {
	h, err := forward.ParseHeader(packet)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s > %s protocol %d", h.Source, h.Destination, h.Protocol)
	if h.Ports != 0 {
		text += fmt.Sprintf(" ports %d > %d", h.Ports>>16, h.Ports&0xffff)
	}
	text += fmt.Sprintf(" ttl %d tos %#02x length %d", h.TTL, h.TrafficClass, h.Length)
	if e, reason := forward.ParseEncapsulated(packet); reason == forward.DropNone {
		text += fmt.Sprintf(" | LISP iid %d | %s", e.Instance, packetText(e.Inner))
	}
	return text
}

// live traces what passes the interface. What XDP takes before the kernel's stack sees it does not pass here.
func (t *packetTracer) live(ctx context.Context, count int, each func(api.Trace) error) error {
	frames, err := listenAt(t.link)
	if err != nil {
		return err
	}
	defer frames.close()
	for traced := 0; ctx.Err() == nil && (count == 0 || traced < count); {
		packet, segment, err := frames.receive(&t.filter)
		if err != nil {
			return err
		}
		if packet == nil || !t.filter.matches(packet) {
			continue
		}
		decided, err := t.trace(packet, segment)
		if err != nil {
			return err
		}
		if err := each(decided); err != nil {
			return err
		}
		traced++
	}
	return nil
}

// inUserSpace words an error anew where the data plane is not in the kernel but at a TUN interface.
func inUserSpace(err error, lispInterface string) error {
	if !errors.Is(err, ErrNothingInForce) {
		return err
	}
	link, linkErr := netlink.LinkByName(lispInterface)
	if tun, is := link.(*netlink.Tuntap); linkErr != nil || !is || tun.Mode != netlink.TUNTAP_MODE_TUN {
		return err
	}
	return fmt.Errorf("%w in the kernel: it is in user space, at %s. `loci explain EID --from EID` tells what packets of a flow meet there, and tcpdump -i %s shows packets before and behind it",
		ErrNothingInForce, lispInterface, lispInterface)
}
