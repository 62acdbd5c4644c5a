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
	http       *http.Server
	perMapping atomic.Bool
	serving    sync.WaitGroup
	log        *slog.Logger

	mu        sync.Mutex
	listeners map[netip.AddrPort]net.Listener
}

// New makes a server that listens at nothing yet.
func New(log *slog.Logger) *Server {
	return &Server{log: log, listeners: map[netip.AddrPort]net.Listener{}}
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
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: scrapeTimeout, WriteTimeout: 2 * scrapeTimeout, IdleTimeout: 6 * scrapeTimeout, MaxHeaderBytes: maxHeaderOctets,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// Run serves until the context ends.
func (s *Server) Run(ctx context.Context) {
	<-ctx.Done()
	s.http.Close()
	s.mu.Lock()
	for _, l := range s.listeners { // http closes those that it has begun to serve
		l.Close()
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
		if s.listeners[at] != nil {
			continue
		}
		l, err := listen(at)
		if err != nil {
			change.Drop()
			return Change{}, fmt.Errorf("metrics.listen: %s: %w: is it another program's? (ss -ltnp)", at, err)
		}
		change.opened[at] = l
	}
	for at := range s.listeners {
		if !wanted[at] {
			change.left = append(change.left, at)
		}
	}
	return change, nil
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

// Make puts the configuration in force. Connections to addresses that are left end with their next answer.
func (c Change) Make() {
	s := c.server
	s.perMapping.Store(c.perMapping)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range c.left {
		s.listeners[at].Close()
		delete(s.listeners, at)
	}
	for at, l := range c.opened {
		s.listeners[at] = l
		s.serving.Go(func() { s.serve(l) })
	}
}

func (s *Server) serve(l net.Listener) {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		s.log.Error("metrics", "error", err)
	}
}
