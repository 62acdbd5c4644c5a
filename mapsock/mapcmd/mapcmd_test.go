// SPDX-License-Identifier: Apache-2.0

package mapcmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/lisp"
	"loci/mapsock"
)

// monitoring runs map monitor and gives its lines. The returned function ends it and
// gives its error.
func (s *served) monitoring(t *testing.T, words ...string) (<-chan string, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Map(ctx, append(words, "--socket", s.path), Terminal{Out: writer, Err: writer, Now: func() time.Time { return at }})
		_ = writer.Close()
		ended <- err
	}()
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	s.awaitClient(t, lines)
	return lines, func() error {
		cancel()
		return <-ended
	}
}

// awaitClient waits until the monitor hears: it prints the deletions that are tried.
func (s *served) awaitClient(t *testing.T, lines <-chan string) {
	t.Helper()
	client, err := mapsock.Dial(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 1000 {
		client.Apply(dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix("198.18.0.0/15")})
		select {
		case <-lines:
			for len(lines) > 0 {
				<-lines
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("the monitor prints nothing")
}

func nextLine(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line := <-lines:
		return line
	case <-time.After(20 * time.Second):
		t.Fatal("no line")
		return ""
	}
}

func TestMonitorTellsMissResolutionAndExpiry(t *testing.T) {
	s := serve(t)
	lines, end := s.monitoring(t, "monitor")
	client, err := mapsock.Dial(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s.run(t, strings.Fields("map -q add -database -inet 10.1.0.0/24 -inet 192.0.2.1 1 100 1"))
	expect := func(lines <-chan string, all ...string) {
		t.Helper()
		for _, want := range all {
			for line := nextLine(t, lines); line != want; line = nextLine(t, lines) {
				if !strings.Contains(line, "198.18.0.0/15") {
					t.Fatalf("%q, want %q", line, want)
				}
			}
		}
	}
	s.send("10.1.0.10", "10.2.0.10")
	expect(lines,
		"05:06:07.000000 add EID 10.1.0.0/24 RLOC inet 192.0.2.1 priority 1 weight 100 flags U flags: <STATIC,DB,DONE>",
		"05:06:07.000000 miss-eid EID 10.2.0.10 from 10.1.0.10 on site0")
	prefix := lisp.MustParsePrefix("10.2.0.0/24")
	locators, err := lisp.NewLocatorSet(lisp.Locator{RLOC: mustRLOC(t, "192.0.2.2"), Priority: 1, Weight: 100, Reachable: true})
	if err != nil {
		t.Fatal(err)
	}
	client.Apply(dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
		Mapping:   lisp.Mapping{Prefix: prefix, Locators: locators, TTLMinutes: 1},
		CreatedAt: at.Add(-2 * time.Minute), ExpiresAt: at.Add(-time.Minute),
	}})
	client.Apply(dataplane.PutLocatorState{RLOC: mustRLOC(t, "192.0.2.2"), State: dataplane.LocatorDown})
	path, err := lisp.NewPath(mustRLOC(t, "192.0.2.2"), mustRLOC(t, "2001:db8::3").WithPort(40001))
	if err != nil {
		t.Fatal(err)
	}
	client.Apply(dataplane.PutLocatorState{RLOC: path.RLOC, Behind: path.Behind, State: dataplane.LocatorDown})
	client.Apply(dataplane.DeleteMapping{Prefix: prefix})
	client.Apply(dataplane.DeleteMapping{Prefix: prefix})
	expect(lines,
		"05:06:07.000000 add EID 10.2.0.0/24 RLOC inet 192.0.2.2 priority 1 weight 100 flags U flags: <DONE>",
		"05:06:07.000000 set-locator-state down RLOC inet 192.0.2.2 flags: <DONE>",
		"05:06:07.000000 set-locator-state down RLOC inet 192.0.2.2,[2001:db8::3]:40001 flags: <DONE>",
		"05:06:07.000000 delete EID 10.2.0.0/24 flags: <EXPIRED,DONE>",
		"05:06:07.000000 delete EID 10.2.0.0/24 error: mapping 10.2.0.0/24: no such entry (ESRCH)")
	if err := end(); err != nil {
		t.Errorf("monitor ended with %v", err)
	}
}

func mustRLOC(t *testing.T, text string) lisp.RLOC {
	t.Helper()
	rloc, err := lisp.ParseRLOC(text)
	if err != nil {
		t.Fatal(err)
	}
	return rloc
}

// TestMonitorTellsOfFlows: those that are bound, by text and as JSON, and what begins on a connection.
func TestMonitorTellsOfFlows(t *testing.T) {
	s := serve(t)
	lines, end := s.monitoring(t, "monitor")
	documents, endDocuments := s.monitoring(t, "--json", "monitor")
	client, err := mapsock.Dial(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	flow := lisp.Flow{
		Instance: 7, Protocol: 6, SourcePort: 40000, DestinationPort: 443,
		Source: lisp.MustParsePrefix("10.1.0.1").EID(), Destination: lisp.MustParsePrefix("10.2.0.1").EID(),
	}
	path, err := lisp.NewPath(mustRLOC(t, "192.0.2.2"), mustRLOC(t, "192.0.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	client.Apply(dataplane.PutFlow{Flow: flow, Path: path}, dataplane.DeleteFlow{Flow: flow},
		dataplane.DeleteFlow{Flow: flow})
	s.engine.Raise(dataplane.Subflow{Flow: flow, FromCore: true, TCP: make([]byte, 20)})
	s.engine.Raise(dataplane.Subflow{Flow: flow, TCP: make([]byte, 20)})
	const its = " flow [7] tcp 10.1.0.1:40000 > 10.2.0.1:443"
	for _, want := range []string{
		"put-flow" + its + " RLOC inet 192.0.2.2,192.0.2.3 flags: <DONE>", "delete-flow" + its +
			" flags: <DONE>",
		"delete-flow" + its + " error: flow [7] tcp 10.1.0.1:40000 > 10.2.0.1:443: no such entry (ESRCH)",
		"subflow" + its + " from the core", "subflow" + its + " to the core",
	} {
		line := nextLine(t, lines)
		for strings.Contains(line, "198.18.0.0/15") {
			line = nextLine(t, lines)
		}
		if line != "05:06:07.000000 "+want {
			t.Errorf("%q, want %q", line, want)
		}
	}
	var d struct {
		Type     string `json:"type"`
		Instance int    `json:"instance_id"`
		Flow     *struct {
			Source   string `json:"source"`
			Protocol int    `json:"protocol"`
			Port     int    `json:"destination_port"`
		} `json:"flow"`
	}
	for d.Flow == nil {
		if err := json.Unmarshal([]byte(nextLine(t, documents)), &d); err != nil {
			t.Fatal(err)
		}
	}
	if f := d.Flow; d.Type != "put-flow" || d.Instance != 7 || f.Source != "10.1.0.1" || f.Protocol != 6 ||
		f.Port != 443 {
		t.Errorf("the document is %+v with flow %+v", d, *f)
	}
	if err := errors.Join(end(), endDocuments()); err != nil {
		t.Error(err)
	}
}

func TestMonitorPrintsJSONLines(t *testing.T) {
	s := serve(t)
	lines, end := s.monitoring(t, "--json", "monitor")
	s.run(t, strings.Fields("map -q add -negative -inet6 2001:db8::/32"))
	var d struct {
		At     time.Time `json:"at"`
		Type   string    `json:"type"`
		Prefix string    `json:"eid_prefix"`
		Flags  []string  `json:"flags"`
	}
	for d.Prefix != "2001:db8::/32" {
		if err := json.Unmarshal([]byte(nextLine(t, lines)), &d); err != nil {
			t.Fatal(err)
		}
	}
	if !d.At.Equal(at) || d.Type != "add" || strings.Join(d.Flags, " ") != "static negative done" {
		t.Errorf("monitor told %+v", d)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// With -v the answers to what others ask are told, too.
func TestVerboseMonitorHearsReads(t *testing.T) {
	s := serve(t)
	s.run(t, strings.Fields("map -q add -inet 10.2.0.0/24 -inet 192.0.2.2 1 100 1"))
	lines, end := s.monitoring(t, "-v", "monitor")
	s.run(t, strings.Fields("map get 10.2.0.1"))
	for line := nextLine(t, lines); !strings.Contains(line, " get EID 10.2.0.0/24 "); line = nextLine(t, lines) {
		if !strings.Contains(line, "198.18.0.0/15") {
			t.Fatal(line)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestMonitorSaysThatTheDataPlaneEnded(t *testing.T) {
	s := serve(t)
	lines, end := s.monitoring(t, "monitor")
	if err := s.engine.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range lines { // until the monitor ends by itself
	}
	if err := end(); err == nil || !strings.Contains(err.Error(), "the data plane has ended the connection") {
		t.Errorf("monitor ended with %v", err)
	}
}

// Each refusal comes with its number and with what to do.
func TestRefusalsHelp(t *testing.T) {
	m := &mapsock.Message{Type: mapsock.TypeAdd}
	m.SetPrefix(lisp.MustParsePrefix("[3]10.2.0.0/16"))
	for errno, want := range map[unix.Errno]string{
		unix.EEXIST: "map delete -inet [3]10.2.0.0/16", unix.ESRCH: "mapstat -X", unix.EPERM: "datapath.mapping-socket.owner",
		unix.EADDRNOTAVAIL: "RLOC of this system", unix.EOPNOTSUPP: "-locbits", unix.EAFNOSUPPORT: "IPv4 or IPv6",
		unix.ENOBUFS: "limit", unix.EPROTONOSUPPORT: "version", unix.EBADMSG: "version", unix.ENOPROTOOPT: "version",
		unix.EBUSY: "again", unix.ESHUTDOWN: "stopping", unix.EIO: "log", unix.EINVAL: "in its own words",
	} {
		err := explain(m, &mapsock.Refusal{Errno: errno, Text: "in its own words"})
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "add [3]10.2.0.0/16: ") {
			t.Errorf("%v: %v, want %q", errno, err, want)
		}
	}
	for cause, want := range map[error]string{
		fs.ErrNotExist: "datapath.mapping-socket.path", unix.ECONNREFUSED: "start it again", fs.ErrPermission: "owner and group", unix.EUSERS: "too many",
	} {
		if err := explainDial("/run/x", cause); !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", cause, err, want)
		}
	}
}

func TestSocketWithoutAServer(t *testing.T) {
	directory, err := os.MkdirTemp("", "mc")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, "map.sock")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	if err := Mapstat(t.Context(), []string{"-X", "--socket", path}, Terminal{}); err == nil || !strings.Contains(err.Error(), "no data plane listens") {
		t.Errorf("mapstat: %v", err)
	}
}

// TestEntryWithoutAnEID: a data plane of another kind may send one in a dump. It is left out.
func TestEntryWithoutAnEID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "map.sock")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		buffer := make([]byte, mapsock.MaxDatagram)
		for {
			var m mapsock.Message
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			if _, err := m.Parse(buffer[:n]); err != nil {
				return
			}
			var answers []mapsock.Message
			if m.Type == mapsock.TypeDump {
				full := mapsock.Message{Flags: mapsock.FlagMore}
				full.SetPrefix(lisp.MustParsePrefix("10.2.0.0/16"))
				answers = append(answers, mapsock.Message{Flags: mapsock.FlagMore}, full)
			}
			for _, answer := range append(answers, mapsock.Message{}) {
				answer.Type, answer.Seq, answer.Flags = m.Type, m.Seq, answer.Flags|mapsock.FlagOwn
				octets, err := answer.Append(nil)
				if err == nil {
					_, err = conn.Write(octets)
				}
				if err != nil {
					return
				}
			}
		}
	}()
	var out bytes.Buffer
	if err := Mapstat(t.Context(), []string{"-X", "--socket", path}, Terminal{Out: &out, Err: &out}); err != nil || strings.Count(out.String(), "10.2.0.0/16") != 1 {
		t.Errorf("mapstat -X: %v, %s", err, &out)
	}
}

// The manual pages name every option, and groff renders them without a warning.
func TestManualPages(t *testing.T) {
	for name, options := range map[string]string{
		"loci-map.8": "-d -n -q -t -v add delete get monitor flush -cache -database -all -static -nostatic -version -locbits -negative " +
			"-instance -inet -inet6 L P S E N --socket --json --help EEXIST ESRCH EPERM EADDRNOTAVAIL EUSERS",
		"loci-mapstat.8": "-X -W -s -n -z -p -f -inet -inet6 --socket --json --help",
	} {
		path := filepath.Join("..", "..", "docs", "man", name)
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		plain := strings.ReplaceAll(string(page), `\-`, "-")
		for option := range strings.FieldsSeq(options) {
			if !strings.Contains(plain, "\n.B "+option+"\n") && !strings.Contains(plain, "\n.BI "+option+" ") && !strings.Contains(plain, "\n.BR "+option+" ") {
				t.Errorf("%s does not describe %s", name, option)
			}
		}
		if _, err := exec.LookPath("groff"); err != nil {
			continue
		}
		var complaints bytes.Buffer
		groff := exec.Command("groff", "-man", "-Tascii", "-ww", "-z", path)
		groff.Stderr = &complaints
		if err := groff.Run(); err != nil || complaints.Len() > 0 {
			t.Errorf("groff %s: %v\n%s", name, err, complaints.String())
		}
	}
}

func FuzzWords(f *testing.F) {
	f.Add("-dv add -version 3 -inet 10.2.0.0/16 -inet 192.0.2.2 1 100 1 -inet6 2001:db8::2")
	f.Add("add 10.2.0.0/16 192.0.2.2+S,[2001:db8::2]:4343+LPN 1 100 1 192.0.2.2:65535 1 192.0.2.2+E 1 100 1")
	f.Add("flush -all -inet --json")
	f.Add("-XWs -f inet6 -p lisp")
	f.Fuzz(func(t *testing.T, line string) {
		list := strings.Fields(line)
		if r, err := parseMap(list); err == nil {
			if _, err := r.message().Append(nil); err != nil {
				t.Errorf("map %s: %v", line, err)
			}
		}
		_, _ = parseMapstat(list)
	})
}
