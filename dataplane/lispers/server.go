// SPDX-License-Identifier: Apache-2.0

package lispers

// Server is the data plane's end: a foreign control plane drives a dataplane.Plane.
// Here are its life, its sockets and what it sends; serverapply.go does what the
// control plane says. It resolves nothing and expires nothing: while the control
// plane is away, packets go on by the tables as they are (RFC 9300 s.4).

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// Defaults of ServerOptions and EngineOptions.
const (
	// DefaultStatisticsInterval is what lispers.net's own data plane keeps to.
	DefaultStatisticsInterval = 5 * time.Second
	// DefaultWatchInterval is how often the peer's socket is looked at.
	DefaultWatchInterval = time.Second
)

const (
	// restartPatience is how long a restart may stay unanswered before it is sent
	// again, restartTries how often it is sent to one peer.
	restartPatience = 10 * time.Second
	restartTries    = 3
)

// ServerOptions say what the interface does not.
type ServerOptions struct {
	// Directory holds both sockets; the control plane of lispers.net uses the one it
	// was started in.
	Directory string
	// Settings are the plane's, with at least one own RLOC and the core interfaces.
	// Interfaces that the control plane names are added as site interfaces.
	Settings dataplane.Settings
	// NoLocators is what becomes of packets of a mapping without a usable locator:
	// the interface does not tell a negative mapping from one whose locators are
	// down. ActionNoAction and ActionDrop drop; ActionNativelyForward is what a site
	// needs that reaches destinations without LISP by negative mappings.
	NoLocators lisp.Action

	StatisticsInterval time.Duration // DefaultStatisticsInterval when 0
	WatchInterval      time.Duration // DefaultWatchInterval when 0
	SocketMode         fs.FileMode   // DefaultSocketMode when 0
	Log                *slog.Logger  // none when nil
	Now                func() time.Time
}

func (o *ServerOptions) complete() error {
	if len(o.Settings.LocalRLOCs) == 0 {
		return errors.New("lispers.net interface: no own RLOC is set, and the control plane does not tell it")
	}
	if len(o.Settings.LocalRLOCs) > lisp.MaxLocators {
		return fmt.Errorf("lispers.net interface: %d own RLOCs, at most %d", len(o.Settings.LocalRLOCs), lisp.MaxLocators)
	}
	if o.NoLocators > lisp.ActionDropAuthFailure || o.NoLocators == lisp.ActionSendMapRequest {
		return fmt.Errorf("lispers.net interface: action %q for mappings without locators: the control plane has answered already", o.NoLocators)
	}
	if o.StatisticsInterval == 0 {
		o.StatisticsInterval = DefaultStatisticsInterval
	}
	fillDefaults(&o.WatchInterval, &o.SocketMode, &o.Log, &o.Now)
	return nil
}

func fillDefaults(watch *time.Duration, mode *fs.FileMode, log **slog.Logger, now *func() time.Time) {
	if *watch == 0 {
		*watch = DefaultWatchInterval
	}
	if *mode == 0 {
		*mode = DefaultSocketMode
	}
	if *log == nil {
		*log = slog.New(slog.DiscardHandler)
	}
	if *now == nil {
		*now = time.Now
	}
}

// Server drives a plane by what a foreign control plane says.
type Server struct {
	plane    dataplane.Plane
	options  ServerOptions
	endpoint *endpoint
	limiter  limiter
	tally    tally
	report   report    // of keepTime alone
	warnedAt time.Time // of receive alone

	mu         sync.Mutex
	parameters Parameters
	learned    []dataplane.Interface
	keys       keyring
	awaiting   restartWait
}

// restartWait is a restart that the control plane has not answered.
type restartWait struct {
	tries int // 0: nothing is awaited
	since time.Time
}

// Parameters are settings of lispers.net that no Plane has.
type Parameters struct {
	ControlPlaneLogging bool
	DataPlaneLogging    bool
	RTR                 bool
	ETRNATPort          uint16 // UDP source port of an xTR behind a NAT; 0 for none
	ITRCryptoPort       uint16 // UDP source port of encrypted packets; 0 for none
}

// NewServer binds the data plane's socket and puts the settings in force. The plane
// stays the caller's; no other code should change its tables or take its events.
func NewServer(plane dataplane.Plane, options ServerOptions) (*Server, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	if err := errors.Join(plane.Apply(dataplane.SetSettings{Settings: options.Settings})...); err != nil {
		return nil, fmt.Errorf("lispers.net interface: %w", err)
	}
	e, err := open(options.Directory, DataPlaneSocket, ControlPlaneSocket, options.SocketMode)
	if err != nil {
		return nil, fmt.Errorf("lispers.net interface: %w", err)
	}
	return &Server{plane: plane, options: options, endpoint: e}, nil
}

// Serve works until the context ends, the plane closes its events or the Server is
// closed. It leaves the plane's tables in force.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var failure error
	wg.Go(func() { defer cancel(); failure = s.receive() })
	wg.Go(func() { defer cancel(); s.forwardEvents(ctx) })
	wg.Go(func() { s.keepTime(ctx) })
	<-ctx.Done()
	err := s.Close()
	wg.Wait()
	if errors.Is(failure, net.ErrClosed) {
		return err
	}
	return errors.Join(failure, err)
}

// Close ends Serve and removes the socket. It may be called twice.
func (s *Server) Close() error { return s.endpoint.close() }

func (s *Server) receive() error {
	buffer := receiveBuffer()
	for {
		datagram, err := s.endpoint.receive(buffer)
		if err != nil {
			return err
		}
		s.handle(datagram)
	}
}

// keepTime watches the peer and sends statistics.
func (s *Server) keepTime(ctx context.Context) {
	watch, statistics := time.NewTicker(s.options.WatchInterval), time.NewTicker(s.options.StatisticsInterval)
	defer watch.Stop()
	defer statistics.Stop()
	for {
		s.attend()
		select {
		case <-ctx.Done():
			return
		case <-watch.C:
		case <-statistics.C:
			s.sendStatistics()
		}
	}
}

// attend tells a control plane that comes that it has to fill the tables. Until it
// does, the old ones stay.
func (s *Server) attend() {
	came, lost := s.endpoint.attend()
	if lost {
		s.tally.add(peersLost)
		s.options.Log.Warn("control plane of lispers.net is gone, forwarding goes on", "socket", s.endpoint.peer)
	}
	now := s.options.Now()
	s.mu.Lock()
	if came {
		s.tally.add(peersCame)
		s.awaiting = restartWait{}
	}
	again := s.awaiting.tries > 0 && s.awaiting.tries < restartTries && now.Sub(s.awaiting.since) >= restartPatience
	due := came || again
	if due {
		s.awaiting = restartWait{tries: s.awaiting.tries + 1, since: now}
	}
	s.mu.Unlock()
	if due && s.send(restartMessage{}.json()) {
		s.tally.add(restarts)
	}
}

// send reports whether the control plane got the message.
func (s *Server) send(m any) bool {
	text := encode(m)
	if len(text) > MaxToControlPlane {
		s.tally.add(messagesTooLong)
		return false
	}
	if err := s.endpoint.send(text); err != nil {
		s.tally.add(messagesUnsent)
		s.options.Log.Debug("message not sent to the control plane", "error", err)
		return false
	}
	s.tally.add(messagesSent)
	return true
}

// forwardEvents makes misses discoveries. One that cannot be sent is lost: the plane
// raises it again for the next packet.
func (s *Server) forwardEvents(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-s.plane.Events():
			if !open {
				return
			}
			if miss, ok := event.(dataplane.Miss); ok {
				s.discover(miss)
			}
		}
	}
}

func (s *Server) discover(miss dataplane.Miss) {
	if !s.endpoint.connected() {
		s.tally.add(messagesUnsent)
		return
	}
	if !s.limiter.allow(s.options.Now(), destination{instance: miss.Instance, eid: miss.Destination}) {
		s.tally.add(discoveriesLimited)
		return
	}
	m := discoveryMessage{instance: miss.Instance, source: miss.Source, destination: miss.Destination, interfaceName: miss.Interface}
	if s.send(m.json()) {
		s.tally.add(discoveries)
	}
}

// Counters returns what the Server counts, by the names of docs/lispers-interface.md.
func (s *Server) Counters() map[string]uint64 {
	m := make(map[string]uint64, counterCount)
	s.tally.into(m)
	return m
}

// Status is what the control plane has said beyond tables, and whether it is there.
type Status struct {
	Connected      bool
	Parameters     Parameters
	Interfaces     []dataplane.Interface // learned from the control plane
	EncryptionKeys int                   // RLOCs with keys; the keys themselves stay inside
	DecryptionKeys int
}

// Status tells the state of the interface.
func (s *Server) Status() Status {
	connected := s.endpoint.connected()
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{
		Connected: connected, Parameters: s.parameters, Interfaces: slices.Clone(s.learned),
		EncryptionKeys: len(s.keys.encryption), DecryptionKeys: len(s.keys.decryption),
	}
}

// EncryptionKeys returns what the control plane gave for packets to an RLOC.
func (s *Server) EncryptionKeys(to lisp.RLOC) ([]Key, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys, ok := s.keys.encryption[to]
	return slices.Clone(keys), ok
}

// DecryptionKeys returns what the control plane gave for packets of an RLOC from a UDP
// port; port 0 stands for keys that were given without one.
func (s *Server) DecryptionKeys(from lisp.RLOC, port uint16) ([]Key, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys, ok := s.keys.decryption[peerPort{from, port}]
	return slices.Clone(keys), ok
}
