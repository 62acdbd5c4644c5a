// SPDX-License-Identifier: Apache-2.0

package events

// Which events stand in the log at its usual level, and how many of them: RFC 9301 s.5.1
// and RFC 9306 s.3 demand that refused messages are logged, RFC 9301 s.5.6 and RFC 9302 s.5
// and s.7.1 that replays and wrong Map-Versions are; RFC 9302 s.8 that no flood of them fills
// it. An iteration of the event loop never waits for the log.

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/internal/wakeup"
)

const (
	// noticeLines of one kind and reason are logged in a noticeWindow; how many are beyond is told
	// with the first line of the next one, or when the window is over.
	noticeLines  = 5
	noticeWindow = 10 * time.Second
	// noticeQueueLength bounds the lines that wait to be written.
	noticeQueueLength = 256
)

// noticeLevels are those of the events that are logged; all others are for debugging.
var noticeLevels = map[control.NoticeKind]slog.Level{
	control.NoticeMessageRefused:          slog.LevelInfo, // any sender causes it at will
	control.NoticeRegistrationRefused:     slog.LevelWarn,
	control.NoticeRegistrationExpired:     slog.LevelInfo,
	control.NoticeMapNotifyReceived:       slog.LevelInfo,
	control.NoticeMapNotifyUnacknowledged: slog.LevelWarn,
	control.NoticeMapServerSilent:         slog.LevelWarn,
	control.NoticeEIDNotAcknowledged:      slog.LevelWarn,
	control.NoticeMapResolverSilent:       slog.LevelWarn,
	control.NoticeMapResolverAnswers:      slog.LevelInfo,
	control.NoticeMapRequestUnanswered:    slog.LevelInfo,
	control.NoticeLocatorDown:             slog.LevelWarn,
	control.NoticeLocatorUnconfirmed:      slog.LevelWarn,
	control.NoticeLocatorUp:               slog.LevelInfo,
	control.NoticeMappingKept:             slog.LevelWarn,
	control.NoticeMappingLost:             slog.LevelWarn,
	control.NoticeMappingStale:            slog.LevelWarn,
	control.NoticeMappingLoop:             slog.LevelWarn,
	control.NoticePathsAmbiguous:          slog.LevelWarn,
	control.NoticeMapVersionNotRaised:     slog.LevelWarn,
	control.NoticeMapVersionInvalid:       slog.LevelWarn,
	control.NoticeSiblingSilent:           slog.LevelWarn,
	control.NoticeSiblingHeard:            slog.LevelInfo,
	control.NoticeSiblingPath:             slog.LevelWarn,
	control.NoticeSiblingPathEnded:        slog.LevelInfo,
	control.NoticeNATFound:                slog.LevelInfo,
	control.NoticeNATGone:                 slog.LevelInfo,
	control.NoticeRTRChosen:               slog.LevelInfo,
	control.NoticeRTRLeft:                 slog.LevelInfo,
	control.NoticeRTRConfirmed:            slog.LevelInfo,
	control.NoticeRTRSilent:               slog.LevelWarn,
	control.NoticeRTRAnswers:              slog.LevelInfo,
	control.NoticeNATBindingLost:          slog.LevelWarn,
}

// noticeLine is a line to be written.
type noticeLine struct {
	level      slog.Level
	kind       control.NoticeKind
	attributes []any
}

// noticeKey is what the lines are counted by: as many as there are kinds and reasons.
type noticeKey struct {
	kind   control.NoticeKind
	reason string
}

func (k noticeKey) compare(other noticeKey) int {
	return cmp.Or(cmp.Compare(k.kind, other.kind), cmp.Compare(k.reason, other.reason))
}

// noticeCount is what was logged of one of them.
type noticeCount struct {
	since   time.Time // begin of the window
	lines   int
	leftOut int
}

// NoticeLog writes events to the log.
type NoticeLog struct {
	log   *slog.Logger
	lines chan noticeLine
	left  wakeup.Signal // wakes who tells what was left out

	mu     sync.Mutex // held for moments: the caller of Take has the loop's lock
	counts map[noticeKey]*noticeCount
}

// NewNoticeLog returns a NoticeLog that writes nothing before Run.
func NewNoticeLog(log *slog.Logger) *NoticeLog {
	return &NoticeLog{log: log, lines: make(chan noticeLine, noticeQueueLength), left: wakeup.New(), counts: map[noticeKey]*noticeCount{}}
}

// Take logs an event, if it is one for the log and the limit allows it.
func (l *NoticeLog) Take(n control.Notice, e *api.Event) {
	level, told := noticeLevels[n.Kind]
	if !told {
		level = slog.LevelDebug
	}
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	line := noticeLine{level: level, kind: n.Kind, attributes: attributesOf(e)}
	if !told {
		l.log.Debug(string(n.Kind), line.attributes...) // all of them, for debugging
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	count := l.count(n)
	if count.lines == noticeLines && !l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.leaveOut(count)
		return
	}
	if count.leftOut > 0 {
		line.attributes = append(line.attributes, slog.Int("left_out_before", count.leftOut))
	}
	select {
	case l.lines <- line:
		count.lines, count.leftOut = min(count.lines+1, noticeLines), 0
	default:
		l.leaveOut(count)
	}
}

// leaveOut counts an event that is not logged.
func (l *NoticeLog) leaveOut(c *noticeCount) {
	c.leftOut++
	l.left.Set()
}

// count is that of the event's kind and reason, in the window that is now.
func (l *NoticeLog) count(n control.Notice) *noticeCount {
	key := noticeKey{n.Kind, n.Reason}
	c := l.counts[key]
	if c == nil {
		c = &noticeCount{since: n.At}
		l.counts[key] = c
	}
	if age := n.At.Sub(c.since); age >= noticeWindow || age < 0 {
		c.since, c.lines = n.At, 0
	}
	return c
}

// Run writes lines until the context ends, and then what waits.
func (l *NoticeLog) Run(ctx context.Context) {
	var ends <-chan time.Time // of a window in which something was left out
	for {
		select {
		case line := <-l.lines:
			l.write(line)
		case <-l.left:
			if ends == nil {
				ends = time.After(noticeWindow)
			}
		case now := <-ends:
			if ends = nil; l.tellLeftOut(now) {
				ends = time.After(noticeWindow)
			}
		case <-ctx.Done():
			for len(l.lines) > 0 {
				l.write(<-l.lines)
			}
			l.tellLeftOut(time.Now().Add(noticeWindow))
			return
		}
	}
}

// tellLeftOut tells of windows that are over how many events were left out, and reports whether there are others.
func (l *NoticeLog) tellLeftOut(now time.Time) (more bool) {
	l.mu.Lock()
	var lines []noticeLine
	for _, key := range slices.SortedStableFunc(maps.Keys(l.counts), noticeKey.compare) {
		c := l.counts[key]
		switch {
		case c.leftOut == 0:
		case now.Sub(c.since) < noticeWindow:
			more = true
		default:
			lines = append(lines, leftOutLine(key, c.leftOut))
			c.leftOut = 0
		}
	}
	l.mu.Unlock()
	for _, line := range lines {
		l.write(line)
	}
	return more
}

func leftOutLine(key noticeKey, count int) noticeLine {
	line := noticeLine{level: noticeLevels[key.kind], kind: key.kind}
	if key.reason != "" {
		line.attributes = append(line.attributes, slog.String("reason", key.reason))
	}
	line.attributes = append(line.attributes, slog.Int("left_out", count))
	return line
}

func (l *NoticeLog) write(line noticeLine) {
	l.log.Log(context.Background(), line.level, string(line.kind), line.attributes...)
}

// FromNotice is the event that a notice of the Node is.
func FromNotice(n control.Notice) api.Event {
	e := api.Event{At: n.At, Kind: string(n.Kind), RLOC: n.RLOC, Site: n.Site, Reason: n.Reason, Detail: n.Detail}
	if !n.Prefix.EID().IsZero() {
		e.EIDPrefix = &n.Prefix
	}
	if n.Remote.IsValid() {
		e.Peer = n.Remote.String()
	}
	if n.Took != 0 {
		e.Fields = map[string]string{"round_trip_seconds": strconv.FormatFloat(n.Took.Seconds(), 'f', -1, 64)}
	}
	return e
}

// attributesOf are those of an event's line: what has names, then what is in words.
func attributesOf(e *api.Event) (list []any) {
	add := func(name, value string) {
		if value != "" {
			list = append(list, slog.String(name, value))
		}
	}
	if e.EIDPrefix != nil {
		add("eid_prefix", e.EIDPrefix.String())
	}
	add("peer", e.Peer)
	add("rloc", e.RLOC)
	add("site", e.Site)
	add("reason", e.Reason)
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		add(name, e.Fields[name])
	}
	add("detail", e.Detail)
	return list
}
