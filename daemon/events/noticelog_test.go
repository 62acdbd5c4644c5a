// SPDX-License-Identifier: Apache-2.0

package events

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loci/control"
)

// logged is what events come to in a log of some level.
func logged(t *testing.T, level slog.Level, take func(*NoticeLog)) string {
	t.Helper()
	var text bytes.Buffer
	l := NewNoticeLog(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level})))
	take(l)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	l.Run(ctx) // writes what waits
	return text.String()
}

func take(l *NoticeLog, n control.Notice) {
	e := FromNotice(n)
	l.Take(n, &e)
}

func refusalOf(at time.Time, reason string) control.Notice {
	return control.Notice{Kind: control.NoticeMessageRefused, At: at, Reason: reason, Detail: "why"}
}

// A refused message is logged at the default level, and a flood of them is summed up.
// Shows RFC 9301 s.5.1 (1), RFC 9302 s.5 (2), RFC 9302 s.7.1 (3).
func TestRefusalsAreLogged(t *testing.T) {
	start := time.Now()
	text := logged(t, slog.LevelInfo, func(l *NoticeLog) {
		for i := range 1000 {
			n := refusalOf(start.Add(time.Duration(i)*time.Millisecond), "unknown-afi")
			take(l, n)
		}
		for _, n := range []control.Notice{
			refusalOf(start, "truncated"), {Kind: control.NoticeRegistrationRefused, At: start, Reason: "replay"},
			{Kind: control.NoticeMapVersionInvalid, At: start}, {Kind: control.NoticeMapReplySent, At: start, Detail: "of every message"},
			refusalOf(start.Add(noticeWindow), "unknown-afi"),
		} {
			take(l, n)
		}
	})
	for want, count := range map[string]int{
		`level=INFO msg=message-refused reason=unknown-afi detail=why`: noticeLines + 1, "left_out_before=995": 1, "reason=truncated detail=why": 1,
		"level=WARN msg=registration-refused": 1, "level=WARN msg=map-version-invalid": 1, "of every message": 0,
	} {
		if got := strings.Count(text, want); got != count {
			t.Errorf("%q stands %d times in the log, want %d:\n%s", want, got, count, text)
		}
	}
}

// What was left out is told in one order, whatever order a map has: that of kinds, then of reasons.
func TestLeftOutLinesHaveAnOrder(t *testing.T) {
	reasons := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	text := logged(t, slog.LevelInfo, func(l *NoticeLog) {
		for _, reason := range reasons {
			for range noticeLines + 1 {
				take(l, refusalOf(time.Now(), reason))
				take(l, control.Notice{Kind: control.NoticeRegistrationRefused, At: time.Now(), Reason: reason})
			}
		}
	})
	want, got := "", ""
	for _, kind := range []string{"message-refused", "registration-refused"} {
		for _, reason := range reasons {
			want += kind + " " + reason + "\n"
		}
	}
	for line := range strings.Lines(text) {
		if _, found, ok := strings.Cut(strings.TrimSuffix(line, " left_out=1\n"), "msg="); ok && strings.HasSuffix(line, " left_out=1\n") {
			got += strings.Replace(found, "reason=", "", 1) + "\n"
		}
	}
	if got != want {
		t.Errorf("left out are\n%s, want\n%s", got, want)
	}
}

func TestLogForDebuggingHasEverything(t *testing.T) {
	text := logged(t, slog.LevelDebug, func(l *NoticeLog) {
		for range 2 * noticeLines {
			n := refusalOf(time.Now(), "replay")
			take(l, n)
		}
		take(l, control.Notice{Kind: control.NoticeMapReplySent})
	})
	if strings.Count(text, "message-refused") != 2*noticeLines || !strings.Contains(text, "level=DEBUG msg=map-reply-sent") {
		t.Errorf("the log is\n%s", text)
	}
}

// A log that is not written does not hold the loop up. The daemon counts what found no room and tells it later.
func TestStalledLogHoldsNoLoopUp(t *testing.T) {
	start := time.Now()
	text := logged(t, slog.LevelInfo, func(l *NoticeLog) {
		for i := range noticeQueueLength + 7 { // each in a window of its own
			n := refusalOf(start.Add(time.Duration(i)*noticeWindow), "replay")
			take(l, n)
		}
		for len(l.lines) > 0 {
			l.write(<-l.lines)
		}
		take(l, refusalOf(start, "replay"))
	})
	if strings.Count(text, "msg=") != noticeQueueLength+1 || !strings.Contains(text, "left_out_before=7") {
		t.Errorf("%d lines, the last is %q", strings.Count(text, "msg="), text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:])
	}
}

// sharedText is a log that is read while it is written.
type sharedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *sharedText) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *sharedText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// What was left out is told though nothing of that kind happens again, and once.
func TestLeftOutLinesAreToldWhenTheWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text sharedText
		l := NewNoticeLog(slog.New(slog.NewTextHandler(&text, nil)))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go l.Run(ctx)
		flood := func(reason string, count int) {
			for range count {
				take(l, refusalOf(time.Now(), reason))
				synctest.Wait()
			}
		}
		told := func(line string, want int) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(text.String(), line); got != want {
				t.Errorf("after %v %q stands %d times in the log: want %d\n%s", time.Now(), line, got, want, text.String())
			}
		}
		flood("replay", noticeLines)
		time.Sleep(2 * noticeWindow)
		told("left_out", 0)
		flood("replay", noticeLines+995)
		time.Sleep(noticeWindow / 2)
		flood("truncated", noticeLines+3)
		told("left_out", 0)
		time.Sleep(3 * noticeWindow)
		told("level=INFO msg=message-refused reason=replay left_out=995", 1)
		told("reason=truncated left_out=3", 1)
		time.Sleep(10 * noticeWindow)
		flood("replay", noticeLines+1)
		told("left_out", 2)
		stop()
		told("reason=replay left_out=1", 1) // the end of the daemon
		told("left_out", 3)
	})
}
