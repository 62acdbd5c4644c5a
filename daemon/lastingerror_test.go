// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLastingErrorIsToldOnce(t *testing.T) {
	var text bytes.Buffer
	l := lastingError{log: slog.New(slog.NewTextHandler(&text, nil)), what: "the thing fails", after: hostRetry}
	start, one, other := time.Now(), errors.New("one reason"), errors.New("another reason")
	said := func(seconds float64, err error) string {
		text.Reset()
		l.tell(start.Add(time.Duration(seconds*float64(time.Second))), err)
		return text.String()
	}
	for _, c := range []struct {
		at   float64
		err  error
		want string
	}{
		{0, one, ""}, {0.03, nil, ""}, // healed at once
		{2, one, ""}, {2.5, other, ""}, {3, one, "level=ERROR msg=\"the thing fails\" error=\"one reason\""}, {4, one, ""},
		{5, other, "another reason"}, {6, nil, "level=INFO msg=\"over: the thing fails\""}, {7, nil, ""},
		{8, one, ""}, {8.1, nil, ""},
	} {
		if got := said(c.at, c.err); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("at %v s, %v: told %q, want %q", c.at, c.err, got, c.want)
		}
	}
}
