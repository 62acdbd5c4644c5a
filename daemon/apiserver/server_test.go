// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/daemon/events"
	"loci/lisp"
)

// awaitAnswer waits until a daemon answers at a socket.
func awaitAnswer(t *testing.T, client *api.Client) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, err := client.Status(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer: %v", err)
		}
	}
}

// awaitEvent publishes events of a kind until a client has heard one.
func awaitEvent(t *testing.T, events *events.Hub, heard <-chan string, kind string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		events.Publish(api.Event{Kind: kind})
		select {
		case got := <-heard:
			if got == kind {
				return
			}
		case <-time.After(time.Millisecond):
		}
	}
	t.Fatalf("no client hears of %q", kind)
}

// TestRemovedSocketIsMadeAgain: the file alone, or its directory with it; what else takes its place is left alone.
func TestRemovedSocketIsMadeAgain(t *testing.T) {
	var log lockedText
	client, events, s := serving(t, slog.New(slog.NewTextHandler(&log, nil)))
	path := s.socket.path
	following, stop := context.WithCancel(t.Context())
	defer stop()
	heard := make(chan string)
	go func() { // a client that was there before stays
		_ = client.Events(following, api.EventQuery{}, func(e api.Event) error {
			select {
			case heard <- e.Kind:
			case <-following.Done():
			}
			return nil
		})
	}()
	awaitEvent(t, events, heard, "before")
	for _, remove := range []func(string) error{os.Remove, func(path string) error { return os.RemoveAll(filepath.Dir(path)) }} {
		if err := remove(path); err != nil {
			t.Fatal(err)
		}
		awaitAnswer(t, client)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != socketMode {
			t.Errorf("made again: %v, %v", info, err)
		}
	}
	awaitEvent(t, events, heard, "after")
	if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("precious"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(log.String(), "replaced by something else"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing is told:\n%s", log.String())
		}
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != "precious" {
		t.Errorf("the file holds %q, %v", kept, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	awaitAnswer(t, client)
	if got := strings.Count(log.String(), "made it again"); got != 3 {
		t.Errorf("told %d times:\n%s", got, log.String())
	}
}

// TestStopLeavesTheNextDaemonsSocket: who stops removes its own socket, not the one that took its place.
func TestStopLeavesTheNextDaemonsSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	first, err := Listen(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := Listen(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the second socket is gone: %v", err)
	}
	second.Close()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the second socket is left: %v", err)
	}
}

// idleClients opens connections that say nothing.
func idleClients(t *testing.T, path string, count int) (all []net.Conn) {
	t.Helper()
	for range count {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		all = append(all, conn)
	}
	return all
}

// TestIdleClientsMakeRoom: however many connections say nothing, who asks is answered, and they are closed.
func TestIdleClientsMakeRoom(t *testing.T) {
	client, _, path := serve(t)
	all := idleClients(t, path, 2*maxConnections+refusalConnections)
	for range 3 {
		if _, err := client.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, conn := range all {
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d: read %d octets, %v: want its end", i, n, err)
		}
	}
}

// TestNoRoomIsTold: clients at work keep their places, and the next one is told.
func TestNoRoomIsTold(t *testing.T) {
	client, events, s := serving(t, slog.New(slog.DiscardHandler))
	s.socket.clients.setLimit(2)
	following, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	heard := make(chan struct{}, 2)
	for range 2 {
		ended.Go(func() {
			told := sync.OnceFunc(func() { heard <- struct{}{} })
			_ = client.Events(following, api.EventQuery{}, func(api.Event) error { told(); return nil })
		})
	}
	for count := 0; count < 2; {
		events.Publish(api.Event{Kind: "miss"})
		select {
		case <-heard:
			count++
		case <-time.After(time.Millisecond):
		}
	}
	for range 2 * refusalConnections {
		if _, err := client.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "as many clients as it takes") {
			t.Fatalf("the third client: %v", err)
		}
	}
	stop()
	ended.Wait()
	awaitAnswer(t, client)
}

// TestClientSaysWhatIsWrong: each way not to be answered has its words.
func TestClientSaysWhatIsWrong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	client := api.NewClient(path)
	check := func(ctx context.Context, want string) {
		t.Helper()
		if _, err := client.Status(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	check(soon, "takes too long to answer") // the listener accepts nothing yet
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	check(t.Context(), "closed the connection without an answer")
	listener.Close()
	check(t.Context(), "the one that made this socket has ended")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check(t.Context(), "no daemon answers at")
}

// errListed ends a list.
var errListed = errors.New("the list ends here")

// cannedSource answers without a daemon.
type cannedSource struct {
	Source
	listed *atomic.Int64
}

func (cannedSource) Status(context.Context) (api.Status, error) {
	return api.Status{Ready: true, PID: 42}, nil
}

func (cannedSource) Health(context.Context) (api.Health, error) {
	return api.Health{Verdict: api.VerdictHealthy}, nil
}

func (cannedSource) MapCache(context.Context, api.ListQuery) iter.Seq2[api.MapCacheEntry, error] {
	drop := lisp.ActionDrop
	return func(yield func(api.MapCacheEntry, error) bool) {
		yield(api.MapCacheEntry{EIDPrefix: lisp.MustParsePrefix("[7]10.0.0.0/8"), Action: &drop}, nil)
	}
}

// Database ends with an error in the midst of what it lists.
func (cannedSource) Database(context.Context, api.ListQuery) iter.Seq2[api.DatabaseEntry, error] {
	return func(yield func(api.DatabaseEntry, error) bool) {
		for i := 0; i < 2000 && yield(api.DatabaseEntry{EIDPrefix: lisp.MustParsePrefix("10.0.0.0/8")}, nil); i++ {
		}
		yield(api.DatabaseEntry{}, errListed)
	}
}

// MapRequests fails at once.
func (cannedSource) MapRequests(context.Context, api.ListQuery) iter.Seq2[api.PendingMapRequest, error] {
	return func(yield func(api.PendingMapRequest, error) bool) { yield(api.PendingMapRequest{}, errListed) }
}

// Registrations are without end: listed counts those that were asked for.
func (c cannedSource) Registrations(_ context.Context, q api.ListQuery) iter.Seq2[api.Registration, error] {
	return func(yield func(api.Registration, error) bool) {
		for yield(api.Registration{EIDPrefix: q.EIDPrefix}, nil) {
			c.listed.Add(1)
		}
	}
}

func (cannedSource) Reload(context.Context) (api.Reload, error) {
	return api.Reload{}, errors.New("loci.yaml:3:1: unknown key")
}

func serve(t *testing.T) (*api.Client, *events.Hub, string) {
	t.Helper()
	client, events, s := serving(t, slog.New(slog.DiscardHandler))
	return client, events, s.socket.path
}

func serving(t *testing.T, log *slog.Logger) (*api.Client, *events.Hub, *Server) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "deep", "control.sock")
	listener, err := Listen(path, log)
	if err != nil {
		t.Fatal(err)
	}
	events := events.NewHub()
	s := New(listener, cannedSource{listed: new(atomic.Int64)}, events, log)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	return api.NewClient(path), events, s
}

func TestServerAnswers(t *testing.T) {
	client, _, path := serve(t)
	if s, err := client.Status(t.Context()); err != nil || !s.Ready || s.PID != 42 {
		t.Errorf("status %+v, %v", s, err)
	}
	list, err := client.MapCache(t.Context())
	if err != nil || len(list) != 1 || list[0].EIDPrefix.String() != "[7]10.0.0.0/8" || *list[0].Action != lisp.ActionDrop {
		t.Errorf("map-cache %+v, %v", list, err)
	}
	if _, err := client.Reload(t.Context()); err == nil || err.Error() != "loci.yaml:3:1: unknown key" {
		t.Errorf("reload: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != socketMode {
		t.Errorf("socket mode %v, %v", info.Mode(), err)
	}
}

// TestListsAreSentAsTheyCome: a client has the first entries of a list that never ends, and who leaves ends it.
func TestListsAreSentAsTheyCome(t *testing.T) {
	client, _, _ := serve(t)
	within := lisp.MustParsePrefix("10.1.0.0/16")
	for limit, want := range map[int]int{3: 3, 1: 1, 0: 5000} {
		read := 0
		for r, err := range client.EachRegistrations(t.Context(), api.ListQuery{EIDPrefix: within, Limit: limit}) {
			if err != nil || r.EIDPrefix != within {
				t.Fatalf("%+v, %v", r, err)
			}
			if read++; read == 5000 {
				break
			}
		}
		if read != want {
			t.Errorf("limit %d: %d entries, want %d", limit, read, want)
		}
	}
}

// TestListThatFails is never taken for a whole one.
func TestListThatFails(t *testing.T) {
	client, _, path := serve(t)
	if list, err := client.Database(t.Context()); err == nil {
		t.Errorf("%d entries, and no error", len(list))
	}
	if _, err := client.MapRequests(t.Context()); err == nil || err.Error() != errListed.Error() {
		t.Errorf("a list that fails at once: %v", err)
	}
	local := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	for _, query := range []string{"?eid=nonsense", "?limit=-1", "?limit=many"} {
		answer, err := local.Get("http://loci" + api.PathRegistrations + query)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %s", query, answer.Status)
		}
	}
}

func TestClientsKeepNoPlaces(t *testing.T) {
	_, _, path := serve(t)
	for i := range 2 * maxConnections {
		if _, err := api.NewClient(path).Status(t.Context()); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
	}
}

func TestEventsAreStreamed(t *testing.T) {
	client, events, _ := serve(t)
	enough := errors.New("enough")
	done := make(chan struct{})
	defer close(done)
	go func() { // until the client has heard one
		for {
			events.Publish(api.Event{Kind: "miss", Fields: map[string]string{"destination": "10.2.0.1"}})
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	err := client.Events(t.Context(), api.EventQuery{}, func(e api.Event) error {
		if e.Kind != "miss" || e.Fields["destination"] != "10.2.0.1" {
			t.Errorf("got %+v", e)
		}
		return enough
	})
	if !errors.Is(err, enough) {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestSocketOfARunningDaemonIsNotTaken(t *testing.T) {
	_, _, path := serve(t)
	if _, err := Listen(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "another daemon answers") {
		t.Errorf("got %v", err)
	}
}

func TestSocketOfADeadDaemonIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	listener, err := Listen(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
}

func TestWhatIsNoSocketStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precious.txt")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("got %v", err)
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != "precious" {
		t.Errorf("the file holds %q, %v", kept, err)
	}
}

func TestClientTellsThatNoDaemonAnswers(t *testing.T) {
	_, err := api.NewClient(filepath.Join(t.TempDir(), "none.sock")).Status(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no daemon answers at") {
		t.Errorf("got %v", err)
	}
}

// lockedText is a log that is read while it is written.
type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
