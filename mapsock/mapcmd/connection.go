// SPDX-License-Identifier: Apache-2.0

package mapcmd

// The connection: one message out, its answers back, and errors in words that say
// what to do.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loci/internal/errorkind"
	"loci/mapsock"
)

// patience is how long an answer may take. The data plane answers at once; only a
// dump of a large table goes on for seconds, with a message every moment.
const patience = 30 * time.Second

// connection is a mapping socket on which this process asks.
type connection struct {
	socket *mapsock.Monitor
	path   string
	seq    uint32
	end    func() bool
}

// dial connects; the connection ends with the context.
func dial(ctx context.Context, path string, hearing mapsock.Hearing) (*connection, error) {
	socket, err := mapsock.DialMonitor(path, hearing)
	if err != nil {
		return nil, explainDial(path, err)
	}
	return &connection{socket: socket, path: path, end: context.AfterFunc(ctx, func() { _ = socket.Close() })}, nil
}

func (c *connection) close() {
	c.end()
	_ = c.socket.Close() // nothing is left to be lost
}

// ask sends a message and hands its answers to take: all the entries of a dump, or the
// one answer of anything else.
func (c *connection) ask(m *mapsock.Message, take func(*mapsock.Message) error) error {
	c.seq++
	m.Seq = c.seq
	if err := c.socket.Send(m); err != nil {
		return fmt.Errorf("mapping socket %s: %w", c.path, err)
	}
	for {
		_ = c.socket.SetDeadline(time.Now().Add(patience)) // fails when closed, as Next will
		answer, err := c.socket.Next()
		if err != nil {
			return c.explainEnd(err)
		}
		if answer.Flags&mapsock.FlagOwn == 0 || answer.Seq != c.seq || answer.Type != m.Type {
			continue
		}
		if err := answer.Err(); err != nil {
			return explain(m, err)
		}
		more := answer.Flags&mapsock.FlagMore != 0
		if more || m.Type != mapsock.TypeDump {
			if err := take(answer); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

func (c *connection) explainEnd(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return absent("mapping socket %s: no answer within %s: is the data plane stopped?", c.path, patience)
	}
	return absent("mapping socket %s: the data plane has ended the connection: %w", c.path, err)
}

// absent is an error where no data plane answers.
func absent(format string, values ...any) error {
	return errorkind.Mark(fmt.Errorf(format, values...), ErrNoDataPlane)
}

func explainDial(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return absent("mapping socket %s: there is none; does a data plane run, with datapath.mapping-socket.path in its configuration? --socket names another path", path)
	case errors.Is(err, unix.ECONNREFUSED):
		return absent("mapping socket %s: no data plane listens: the one that made it is gone; start it again", path)
	case errors.Is(err, fs.ErrPermission):
		return errorkind.Mark(fmt.Errorf("mapping socket %s: you may not connect: only its owner and group may (datapath.mapping-socket.group)", path), fs.ErrPermission)
	case errors.Is(err, unix.EUSERS):
		return errorkind.Mark(fmt.Errorf("mapping socket %s: too many clients are connected: end some", path), fs.ErrPermission)
	}
	return err
}

// explain says what a refusal means for who asked.
func explain(m *mapsock.Message, err error) error {
	var refusal *mapsock.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	text := advice(m, refusal)
	if text == "" {
		return fmt.Errorf("%s%s: %w", m.Type, subject(m), err)
	}
	return fmt.Errorf("%s%s: %w: %s", m.Type, subject(m), err, text)
}

func subject(m *mapsock.Message) string {
	if !m.HasEID {
		return ""
	}
	return " " + eidText(m)
}

// eidText is the EID as it was asked for: without a length when any will do.
func eidText(m *mapsock.Message) string {
	if m.HasMask {
		return m.Prefix.String()
	}
	text, _, _ := strings.Cut(m.Prefix.String(), "/")
	return text
}

// advice is what to do about a refusal, "" when its own words say enough.
func advice(m *mapsock.Message, refusal *mapsock.Refusal) string {
	switch refusal.Errno {
	case unix.EEXIST:
		return fmt.Sprintf("delete it first: map delete %s", again(m))
	case unix.ESRCH:
		return "mapstat -X lists what is there" + otherTable(m.Flags)
	case unix.EPERM:
		return "only root, the data plane's own user and datapath.mapping-socket.owner may change the tables"
	case unix.EADDRNOTAVAIL:
		return "add an RLOC of this system to it; a Database entry needs one"
	case unix.EOPNOTSUPP:
		return "this data plane cannot do it; instead of -locbits there is datapath.data-header.locator-status-bits in its configuration"
	case unix.EAFNOSUPPORT:
		return "this data plane forwards no such EIDs; want IPv4 or IPv6"
	case unix.ENOBUFS:
		return "delete mappings, or raise the limit in the configuration"
	case unix.EPROTONOSUPPORT, unix.EBADMSG, unix.ENOPROTOOPT:
		return "the data plane is of another version than this command"
	case unix.EBUSY:
		return "too many tables are being read at the moment: try again"
	case unix.ESHUTDOWN:
		return "the data plane is stopping"
	case unix.EIO:
		return "the data plane failed; its log says more"
	}
	return "" // EINVAL: the data plane's own words say what
}

// again are the words that name a mapping once more.
func again(m *mapsock.Message) string {
	text := "-" + familyOfKind(m.Prefix.Kind()).String() + " " + m.Prefix.String()
	switch {
	case m.Flags&mapsock.FlagAll != 0:
		return "-all " + text
	case m.Flags&mapsock.FlagDatabase != 0:
		return "-database " + text
	}
	return text
}

// otherTable reminds of the table that was not asked.
func otherTable(flags mapsock.Flags) string {
	switch {
	case flags&mapsock.FlagAll != 0:
		return ""
	case flags&mapsock.FlagDatabase != 0:
		return " (only the Database was asked, because of -database)"
	}
	return " (only the map-cache was asked; -database asks the Database)"
}

// tablesOf names the tables that a message speaks of.
func tablesOf(flags mapsock.Flags) string {
	switch {
	case flags&mapsock.FlagAll != 0:
		return "map-cache and Database"
	case flags&mapsock.FlagDatabase != 0:
		return "Database"
	}
	return "map-cache"
}
