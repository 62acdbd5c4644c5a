// SPDX-License-Identifier: Apache-2.0

package daemon

// The control socket's server: HTTP with JSON over a Unix socket (package api has
// the documents). It reads snapshots and asks the loop; it changes nothing but
// by asking for a reload.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"loci/daemon/api"
)

const (
	// socketMode lets the owner and its group ask.
	socketMode = 0o660
	// maxConnections bounds the clients of the control socket.
	maxConnections = 64
	// requestTimeout bounds how long a client may take to say what it wants.
	requestTimeout = 5 * time.Second
	// answerTimeout bounds how long an answer takes, reading included.
	answerTimeout = time.Minute
	// maxHeaderOctets bounds what a client may say.
	maxHeaderOctets = 8 << 10
)

// source is what the server tells about; the daemon is one.
type source interface {
	status(context.Context) (api.Status, error)
	mapCache(context.Context) ([]api.MapCacheEntry, error)
	database(context.Context) ([]api.DatabaseEntry, error)
	mapRequests(context.Context) ([]api.PendingMapRequest, error)
	registrations(context.Context) ([]api.Registration, error)
	locators(context.Context) ([]api.LocatorState, error)
	interfaces(context.Context) (api.Interfaces, error)
	siblings(context.Context) (api.Siblings, error)
	datapath(context.Context) (api.Datapath, error)
	counters(context.Context) (api.Counters, error)
	reload(context.Context) (api.Reload, error)
	explain(context.Context, api.ExplainQuery) (api.Explanation, error)
}

// server answers at one Unix socket.
type server struct {
	http     *http.Server
	listener net.Listener
	log      *slog.Logger
}

// listenUnix makes the socket. One that a dead daemon left is replaced; one that
// answers belongs to a running daemon and is an error.
func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if err := clearDeadSocket(path); err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		listener.Close()
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return &limitedListener{Listener: listener, slots: make(chan struct{}, maxConnections)}, nil
}

// clearDeadSocket removes a socket that nobody listens on, and nothing else.
func clearDeadSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("something is there that is no socket: remove it, or name another path (control: socket)")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return errors.New("another daemon answers there: stop it, or give this one its own socket (control: socket)")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

func newServer(listener net.Listener, from source, events *hub, log *slog.Logger) *server {
	mux := http.NewServeMux()
	handle(mux, "GET "+api.PathStatus, from.status)
	handle(mux, "GET "+api.PathMapCache, from.mapCache)
	handle(mux, "GET "+api.PathDatabase, from.database)
	handle(mux, "GET "+api.PathMapRequests, from.mapRequests)
	handle(mux, "GET "+api.PathRegistrations, from.registrations)
	handle(mux, "GET "+api.PathLocators, from.locators)
	handle(mux, "GET "+api.PathInterfaces, from.interfaces)
	handle(mux, "GET "+api.PathSiblings, from.siblings)
	handle(mux, "GET "+api.PathDatapath, from.datapath)
	handle(mux, "GET "+api.PathCounters, from.counters)
	handle(mux, "POST "+api.PathReload, from.reload)
	handleQuery(mux, "GET "+api.PathExplain, func(r *http.Request) (api.Explanation, error) {
		q, err := parseExplainQuery(r.URL.Query())
		if err != nil {
			return api.Explanation{}, err
		}
		return from.explain(r.Context(), q)
	})
	mux.HandleFunc("GET "+api.PathEvents, func(w http.ResponseWriter, r *http.Request) { streamEvents(w, r, events) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, http.StatusNotFound, fmt.Errorf("nothing at %s %s", r.Method, r.URL.Path))
	})
	return &server{
		listener: listener, log: log,
		http: &http.Server{Handler: mux, ReadHeaderTimeout: requestTimeout, IdleTimeout: requestTimeout, MaxHeaderBytes: maxHeaderOctets,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)},
	}
}

// run serves until the context ends; streams are cut off.
func (s *server) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { s.http.Close() })
	defer stop()
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("control socket", "error", err)
	}
}

func handle[T any](mux *http.ServeMux, pattern string, answer func(context.Context) (T, error)) {
	handleQuery(mux, pattern, func(r *http.Request) (T, error) { return answer(r.Context()) })
}

// handleQuery is handle for what takes arguments.
func handleQuery[T any](mux *http.ServeMux, pattern string, answer func(*http.Request) (T, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		// Who does not read what he asked for gives up his place.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
		body, err := answer(r)
		if err != nil {
			writeProblem(w, http.StatusUnprocessableEntity, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body) // a client that left needs no answer
	})
}

func writeProblem(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Problem{Message: err.Error()})
}

func streamEvents(w http.ResponseWriter, r *http.Request, events *hub) {
	mine := events.subscribe()
	if mine == nil {
		writeProblem(w, http.StatusServiceUnavailable, fmt.Errorf("%d clients follow the events already", maxSubscribers))
		return
	}
	defer events.unsubscribe(mine)
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	encoder := json.NewEncoder(w)
	for flush.Flush() == nil {
		select {
		case e := <-mine.events:
			if encoder.Encode(e) != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// limitedListener refuses connections beyond its slots at once.
type limitedListener struct {
	net.Listener
	slots chan struct{}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			conn.Close()
		}
	}
}

type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	c.release()
	return c.Conn.Close()
}
