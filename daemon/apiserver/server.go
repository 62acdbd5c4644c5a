// SPDX-License-Identifier: Apache-2.0

package apiserver

// The control socket's server: HTTP with JSON over a Unix socket (package api has
// the documents). It reads snapshots and asks the loop; it changes nothing but
// by asking for a reload.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"loci/daemon/api"
	"loci/daemon/events"
	"loci/internal/jsondoc"
)

const (
	// requestTimeout bounds how long a client may take to say what it wants; one that says nothing is sent away then.
	requestTimeout = 5 * time.Second
	// answerTimeout bounds how long an answer takes, reading included.
	answerTimeout = time.Minute
	// maxHeaderOctets bounds what a client may say.
	maxHeaderOctets = 8 << 10
)

// Source is what the server tells about; the daemon is one.
type Source interface {
	Status(context.Context) (api.Status, error)
	Health(context.Context) (api.Health, error)
	MapCache(context.Context, api.ListQuery) iter.Seq2[api.MapCacheEntry, error]
	Database(context.Context, api.ListQuery) iter.Seq2[api.DatabaseEntry, error]
	MapRequests(context.Context, api.ListQuery) iter.Seq2[api.PendingMapRequest, error]
	Registrations(context.Context, api.ListQuery) iter.Seq2[api.Registration, error]
	Locators(context.Context) ([]api.LocatorState, error)
	Subflows(context.Context) ([]api.Subflow, error)
	AnsweredSubflows(context.Context) ([]api.AnsweredSubflow, error)
	Interfaces(context.Context) (api.Interfaces, error)
	Siblings(context.Context) (api.Siblings, error)
	NAT(context.Context) (api.NAT, error)
	Translations(context.Context) (api.Translations, error)
	Datapath(context.Context) (api.Datapath, error)
	Counters(context.Context) (api.Counters, error)
	Reload(context.Context) (api.Reload, error)
	Explain(context.Context, api.ExplainQuery) (api.Explanation, error)
	RunningConfig(ctx context.Context, defaults bool) (api.RunningConfig, error)
	LogLevel(context.Context) (api.LogLevel, error)
	SetLogLevel(ctx context.Context, level string) (api.LogLevel, error)
}

// Server answers at one Unix socket.
type Server struct {
	http   *http.Server
	socket *Socket
	log    *slog.Logger
}

// New returns a server that answers when it runs.
func New(socket *Socket, from Source, hub *events.Hub, log *slog.Logger) *Server {
	mux := http.NewServeMux()
	handle(mux, "GET "+api.PathStatus, from.Status)
	handle(mux, "GET "+api.PathHealth, from.Health)
	handleList(mux, "GET "+api.PathMapCache, from.MapCache)
	handleList(mux, "GET "+api.PathDatabase, from.Database)
	handleList(mux, "GET "+api.PathMapRequests, from.MapRequests)
	handleList(mux, "GET "+api.PathRegistrations, from.Registrations)
	handle(mux, "GET "+api.PathLocators, from.Locators)
	handle(mux, "GET "+api.PathSubflows, from.Subflows)
	handle(mux, "GET "+api.PathAnsweredSubflows, from.AnsweredSubflows)
	handle(mux, "GET "+api.PathInterfaces, from.Interfaces)
	handle(mux, "GET "+api.PathSiblings, from.Siblings)
	handle(mux, "GET "+api.PathNAT, from.NAT)
	handle(mux, "GET "+api.PathTranslations, from.Translations)
	handle(mux, "GET "+api.PathDatapath, from.Datapath)
	handle(mux, "GET "+api.PathCounters, from.Counters)
	handle(mux, "POST "+api.PathReload, from.Reload)
	handleQuery(mux, "GET "+api.PathExplain, func(r *http.Request) (api.Explanation, error) {
		q, err := api.ParseExplainQuery(r.URL.Query())
		if err != nil {
			return api.Explanation{}, err
		}
		return from.Explain(r.Context(), q)
	})
	handleQuery(mux, "GET "+api.PathRunningConfig, func(r *http.Request) (api.RunningConfig, error) {
		defaults, err := api.ParseDefaults(r.URL.Query())
		if err != nil {
			return api.RunningConfig{}, err
		}
		return from.RunningConfig(r.Context(), defaults)
	})
	handle(mux, "GET "+api.PathLogLevel, from.LogLevel)
	handleQuery(mux, "POST "+api.PathLogLevel, func(r *http.Request) (api.LogLevel, error) {
		level, err := api.ParseLogLevel(r.URL.Query())
		if err != nil {
			return api.LogLevel{}, err
		}
		return from.SetLogLevel(r.Context(), level)
	})
	mux.HandleFunc("GET "+api.PathEvents, func(w http.ResponseWriter, r *http.Request) { streamEvents(w, r, hub) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, http.StatusNotFound, fmt.Errorf("nothing at %s %s", r.Method, r.URL.Path))
	})
	return &Server{
		socket: socket, log: log,
		http: &http.Server{Handler: whereThereIsRoom(mux), ReadHeaderTimeout: requestTimeout, IdleTimeout: requestTimeout, MaxHeaderBytes: maxHeaderOctets,
			ConnState: socket.clients.follow, ConnContext: withClient, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)},
	}
}

// clientKey is where the context of a request has its client.
type clientKey struct{}

func withClient(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, clientKey{}, conn)
}

// whereThereIsRoom tells clients beyond the limit that there is no room.
func whereThereIsRoom(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(clientKey{}).(*client); ok && c.beyond {
			w.Header().Set("Connection", "close")
			writeProblem(w, http.StatusServiceUnavailable, errNoRoom)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var errNoRoom = errors.New("the control socket has as many clients as it takes, all at work: end one (`loci monitor`, for example), or try again")

// Run serves until the context ends; streams are cut off.
func (s *Server) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { s.http.Close() })
	defer stop()
	s.socket.leaveDescriptors()
	var keeping sync.WaitGroup
	defer keeping.Wait()
	keeping.Go(func() { s.socket.keep(ctx) })
	if err := s.http.Serve(s.socket); !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("control socket", "error", err)
	}
}

func handle[T any](mux *http.ServeMux, pattern string, answer func(context.Context) (T, error)) {
	handleQuery(mux, pattern, func(r *http.Request) (T, error) { return answer(r.Context()) })
}

// handleQuery is handle for what takes arguments.
func handleQuery[T any](mux *http.ServeMux, pattern string, answer func(*http.Request) (T, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		// A client that does not read its answer loses its place.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
		body, err := answer(r)
		if err != nil {
			writeProblem(w, http.StatusUnprocessableEntity, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = jsondoc.Write(w, body) // a client that left needs no answer
	})
}

// handleList answers with an array, whose elements are sent as they come. An error in the midst of it ends
// the connection: the document is not complete then.
func handleList[T any](mux *http.ServeMux, pattern string, list func(context.Context, api.ListQuery) iter.Seq2[T, error]) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		q, err := api.ParseListQuery(r.URL.Query())
		if err != nil {
			writeProblem(w, http.StatusUnprocessableEntity, err)
			return
		}
		out := &listWriter{control: http.NewResponseController(w), to: bufio.NewWriterSize(w, listBuffer)}
		var entry T
		for element, err := range list(r.Context(), q) {
			if err != nil && out.elements == 0 {
				writeProblem(w, http.StatusUnprocessableEntity, err)
				return
			}
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			if out.elements == 0 {
				w.Header().Set("Content-Type", "application/json")
			}
			entry = element
			if out.element(&entry) != nil || out.elements == q.Limit {
				break
			}
		}
		if out.elements == 0 {
			w.Header().Set("Content-Type", "application/json")
		}
		_ = out.end() // a client that left needs no answer
	})
}

// listBuffer is how many octets of a list wait until they are sent.
const listBuffer = 32 << 10

// listWriter writes a JSON array. A client that does not read its answer loses its place.
type listWriter struct {
	control  *http.ResponseController
	to       *bufio.Writer
	elements int
	text     []byte // of an element
}

// element writes what a pointer to a document points to.
func (l *listWriter) element(entry any) (err error) {
	separator := byte(',')
	if l.elements == 0 {
		separator = '['
	}
	l.elements++
	if l.text, err = jsondoc.Append(append(l.text[:0], separator), entry); err != nil {
		return err
	}
	if l.to.Available() <= len(l.text) {
		_ = l.control.SetWriteDeadline(time.Now().Add(answerTimeout))
	}
	_, err = l.to.Write(l.text)
	return err
}

func (l *listWriter) end() error {
	_ = l.control.SetWriteDeadline(time.Now().Add(answerTimeout))
	if l.elements == 0 {
		_ = l.to.WriteByte('[')
	}
	_, _ = l.to.WriteString("]\n")
	return l.to.Flush()
}

func writeProblem(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	var problem *api.Problem
	if !errors.As(err, &problem) {
		problem = &api.Problem{Message: err.Error()}
	}
	_ = jsondoc.Write(w, problem)
}

func streamEvents(w http.ResponseWriter, r *http.Request, hub *events.Hub) {
	wants, err := api.ParseEventQuery(r.URL.Query())
	if err != nil {
		writeProblem(w, http.StatusUnprocessableEntity, err)
		return
	}
	mine := hub.Subscribe(wants)
	if mine == nil {
		writeProblem(w, http.StatusServiceUnavailable, fmt.Errorf("%d clients follow the events already", events.MaxSubscribers))
		return
	}
	defer hub.Unsubscribe(mine)
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	for _, e := range mine.History {
		if jsondoc.Write(w, e) != nil {
			return
		}
	}
	for flush.Flush() == nil {
		select {
		case e := <-mine.Events:
			if jsondoc.Write(w, e) != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
