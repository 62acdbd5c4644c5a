// SPDX-License-Identifier: Apache-2.0

package complete

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// asking is a command whose daemon is the handler.
func asking(t *testing.T, handler http.HandlerFunc) *cobra.Command {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "control.sock")
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.Flags().String("socket", socket, "")
	if handler == nil {
		return cmd
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return cmd
}

func TestEIDsAreCompleted(t *testing.T) {
	var asked []string
	cmd := asking(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+"?"+r.URL.Query().Get("eid"))
		switch r.URL.Path {
		case api.PathMapCache:
			_ = jsondoc.Write(w, []api.MapCacheEntry{{EIDPrefix: lisp.MustParsePrefix("10.2.1.0/24")}, {EIDPrefix: lisp.MustParsePrefix("10.2.30.0/24")}})
		case api.PathDatabase:
			_ = jsondoc.Write(w, []api.DatabaseEntry{{EIDPrefix: lisp.MustParsePrefix("10.2.3.0/24")}})
		default:
			_ = jsondoc.Write(w, []api.Registration{{EIDPrefix: lisp.MustParsePrefix("10.2.3.0/24")}})
		}
	})
	if words, _ := FirstEID(cmd, nil, "10.2.3"); strings.Join(words, " ") != "10.2.3.0/24 10.2.30.0/24" {
		t.Errorf("got %v", words)
	}
	if len(asked) != 3 || asked[0] != api.PathMapCache+"?10.2.0.0/16" {
		t.Errorf("asked %v", asked)
	}
	if words, _ := FirstEID(cmd, []string{"10.2.3.0/24"}, ""); len(words) != 0 {
		t.Errorf("a second EID: %v", words)
	}
}

// TestHostsAreCompleted: without the length of the EID-Prefix, with its Instance-ID, and so that the word goes on.
func TestHostsAreCompleted(t *testing.T) {
	cmd := asking(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != api.PathMapCache {
			_ = jsondoc.Write(w, []string{})
			return
		}
		var list []api.MapCacheEntry
		for _, p := range []string{"10.2.0.0/16", "10.2.0.0/24", "10.2.0.7/32", "[7]10.2.0.0/16", "2001:db8:2::/48"} {
			list = append(list, api.MapCacheEntry{EIDPrefix: lisp.MustParsePrefix(p)})
		}
		_ = jsondoc.Write(w, list)
	})
	for begun, want := range map[string]string{
		"": "10.2.0.0 10.2.0.7 2001:db8:2:: [7]10.2.0.0", "10.2.0.": "10.2.0.0 10.2.0.7", "[7]": "[7]10.2.0.0", "2001": "2001:db8:2::", "10.2.0.0/1": "",
	} {
		words, directive := FirstHost(cmd, nil, begun)
		if strings.Join(words, " ") != want || directive != cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp {
			t.Errorf("%q: %q, directive %d; want %q", begun, words, directive, want)
		}
	}
	if words, directive := FirstHost(cmd, []string{"10.2.0.1"}, ""); len(words) != 0 || directive != cobra.ShellCompDirectiveNoFileComp {
		t.Errorf("a second EID: %v", words)
	}
}

// TestDaemonThatDoesNotAnswer: the shell gets nothing, and does not wait for long.
func TestDaemonThatDoesNotAnswer(t *testing.T) {
	hangs := asking(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, cmd := range []*cobra.Command{hangs, asking(t, nil)} {
		if words, _ := EIDs(cmd, nil, ""); len(words) != 0 {
			t.Errorf("EIDs %v", words)
		}
		if words, _ := Interfaces(cmd, []string{"in"}, ""); len(words) != 0 {
			t.Errorf("interfaces %v", words)
		}
	}
}

func TestInterfacesAreCompleted(t *testing.T) {
	cmd := asking(t, func(w http.ResponseWriter, _ *http.Request) {
		lan, wan := api.InterfaceState{}, api.InterfaceState{}
		lan.Name, wan.Name = "lan0", "wan0"
		_ = jsondoc.Write(w, api.Interfaces{Interfaces: []api.InterfaceState{wan, lan, lan}})
	})
	if words, _ := Interfaces(cmd, []string{"src", "10.1.0.1", "in"}, ""); strings.Join(words, " ") != "lan0 wan0" {
		t.Errorf("got %v", words)
	}
	if words, _ := Interfaces(cmd, []string{"src"}, ""); len(words) != 0 {
		t.Errorf("an address is an interface: %v", words)
	}
}

// TestWithin: a text that is begun is asked for by the EID-Prefix that it is in.
func TestWithin(t *testing.T) {
	for begun, want := range map[string]string{
		"": "", "10": "", "10.": "10.0.0.0/8", "10.2.3": "10.2.0.0/16", "10.2.3.": "10.2.3.0/24", "[7]10.2": "[7]10.0.0.0/8", "[7": "",
		"2001:": "2001::/16", "2001:db8:1": "2001:db8::/32", "2001:db8::1": "", "fo.o.": "", "10.2.3.0/2": "10.2.3.0/24",
	} {
		got := ""
		if p := within(begun); !p.IsZero() {
			got = p.String()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", begun, got, want)
		}
	}
}
