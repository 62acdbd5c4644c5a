// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/lisp"
)

// cannedSource answers without a daemon.
type cannedSource struct{ source }

func (cannedSource) status(context.Context) (api.Status, error) {
	return api.Status{Ready: true, PID: 42}, nil
}

func (cannedSource) mapCache(context.Context) ([]api.MapCacheEntry, error) {
	drop := lisp.ActionDrop
	return []api.MapCacheEntry{{EIDPrefix: lisp.MustParsePrefix("[7]10.0.0.0/8"), Action: &drop}}, nil
}

func (cannedSource) reload(context.Context) (api.Reload, error) {
	return api.Reload{}, errors.New("loci.yaml:3:1: unknown key")
}

func serve(t *testing.T) (*api.Client, *hub, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "deep", "control.sock")
	listener, err := listenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	events := newHub()
	s := newServer(listener, cannedSource{}, events, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	return api.NewClient(path), events, path
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
			events.publish(api.Event{Kind: "miss", Fields: map[string]string{"destination": "10.2.0.1"}})
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	err := client.Events(t.Context(), func(e api.Event) error {
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
	if _, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), "another daemon answers") {
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
	listener, err := listenUnix(path)
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
	if _, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("got %v", err)
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != "precious" {
		t.Errorf("the file holds %q, %v", kept, err)
	}
}

func TestClientTellsThatNobodyAnswers(t *testing.T) {
	_, err := api.NewClient(filepath.Join(t.TempDir(), "none.sock")).Status(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no daemon answers at") {
		t.Errorf("got %v", err)
	}
}
