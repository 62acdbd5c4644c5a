// SPDX-License-Identifier: Apache-2.0

//go:build !nometrics

package metrics

// The HTTP server: what it listens at follows the configuration.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"

	"loci/config"
)

// Present says whether this build serves metrics.
const Present = true

const (
	// scrapeTimeout bounds a scrape, and each part of its connection's life.
	scrapeTimeout = 10 * time.Second
	// mostScrapes is how many are answered at once; more are refused with status 503.
	mostScrapes = 4
	// mostConnections bounds those of one address.
	mostConnections = 64
	// maxHeaderOctets bounds what a client may say.
	maxHeaderOctets = 8 << 10
)

// Server serves metrics at the addresses of the configuration.
type Server struct {
	handler    http.Handler
	perMapping atomic.Bool
	serving    sync.WaitGroup
	log        *slog.Logger

	mu      sync.Mutex
	servers map[netip.AddrPort]addressServer
	ended   bool // nothing is served any more
}

// addressServer serves at one address.
type addressServer struct {
	http     *http.Server
	listener net.Listener
}

// close ends the connections too.
func (s addressServer) close() {
	s.http.Close()
	s.listener.Close() // http closes it only when it has begun to serve
}

// New makes a server that listens at nothing yet.
func New(log *slog.Logger) *Server {
	return &Server{log: log, servers: map[netip.AddrPort]addressServer{}}
}

// Start says what the metrics are made of; before it no Change is made.
func (s *Server) Start(from Source) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{from: from, perMapping: &s.perMapping, log: s.log}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: mostScrapes, Timeout: scrapeTimeout, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Loci: metrics are at /metrics") })
	s.handler = mux
}

func (s *Server) at(l net.Listener) addressServer {
	return addressServer{listener: l, http: &http.Server{
		Handler: s.handler, ReadHeaderTimeout: scrapeTimeout, WriteTimeout: 2 * scrapeTimeout, IdleTimeout: 6 * scrapeTimeout, MaxHeaderBytes: maxHeaderOctets,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}}
}

// Run serves until the context ends.
func (s *Server) Run(ctx context.Context) {
	<-ctx.Done()
	s.mu.Lock()
	s.ended = true
	for _, server := range s.servers {
		server.close()
	}
	s.mu.Unlock()
	s.serving.Wait()
}

// Change is another configuration, which is in force when it is made. It is to be made or dropped.
type Change struct {
	server     *Server
	perMapping bool
	opened     map[netip.AddrPort]net.Listener
	left       []netip.AddrPort
}

// Prepare opens what a configuration adds. Nothing is served there yet, and an error leaves everything as it is.
func (s *Server) Prepare(c config.Metrics) (Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change := Change{server: s, perMapping: c.PerMapping, opened: map[netip.AddrPort]net.Listener{}}
	wanted := map[netip.AddrPort]bool{}
	for _, address := range c.Listen {
		at := address.AddrPort
		wanted[at] = true
		if _, serves := s.servers[at]; serves {
			continue
		}
		l, err := listen(at)
		if err != nil {
			change.Drop()
			return Change{}, fmt.Errorf("metrics.listen: %s: %w: %s", at, err, s.whyNot(address))
		}
		change.opened[at] = l
	}
	for at := range s.servers {
		if !wanted[at] {
			change.left = append(change.left, at)
		}
	}
	return change, nil
}

// whyNot is what may be in the way of an address, and what to do about it.
func (s *Server) whyNot(address config.ListenAddress) string {
	for own := range s.servers {
		if address.Excludes(config.ListenAddress{AddrPort: own}) {
			return fmt.Sprintf("this daemon still listens at %s: take that address out, reload, then add this one and reload again", own)
		}
	}
	return "is it another program's? (ss -ltnp)"
}

// listen also takes addresses that this host does not have yet.
func listen(at netip.AddrPort) (net.Listener, error) {
	free := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1) }), err)
	}}
	network := "tcp4"
	if at.Addr().Is6() {
		network = "tcp6"
	}
	l, err := free.Listen(context.Background(), network, at.String())
	if err != nil {
		return nil, err
	}
	return netutil.LimitListener(l, mostConnections), nil
}

// Drop gives back what was opened.
func (c Change) Drop() {
	for _, l := range c.opened {
		l.Close()
	}
}

// Make puts the configuration in force. An address that is left ends with its connections.
func (c Change) Make() { c.server.change(c) }

func (s *Server) change(c Change) {
	s.perMapping.Store(c.perMapping)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		c.Drop()
		return
	}
	for _, at := range c.left {
		s.servers[at].close()
		delete(s.servers, at)
	}
	for at, l := range c.opened {
		server := s.at(l)
		s.servers[at] = server
		s.serving.Go(func() { s.serve(server) })
	}
}

func (s *Server) serve(server addressServer) {
	if err := server.http.Serve(server.listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		s.log.Error("metrics", "error", err)
	}
}
