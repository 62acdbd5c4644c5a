// SPDX-License-Identifier: Apache-2.0

package tidy

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestLocks(t *testing.T) {
	const queue = "import \"sync\"\ntype Queue struct {\n\tmu sync.Mutex\n\twake *sync.Cond\n\tnext *Queue\n}\n"
	for name, c := range map[string]struct {
		text string
		want []string // one part of each finding, in their order
	}{
		"a type's own": {queue + `
func New() *Queue { q := &Queue{}; q.wake = sync.NewCond(&q.mu); return q }
func (q *Queue) Put() { q.mu.Lock(); defer q.mu.Unlock() }
func (q *Queue) put() { func() { if q.mu.TryLock() { q.mu.Unlock() } }() }
func once() { var mu sync.Mutex; mu.Lock(); go mu.Unlock() }`, nil},
		"of another value": {queue + `
func (q *Queue) Take() { q.next.mu.Lock() }
func Look(q *Queue) { q.mu.Unlock() }
func (q *Queue) same(other *Queue) { other.mu.Lock() }`, []string{
			"mu is locked outside", "mu is locked outside", "mu is locked outside",
		}},
		"of what a wrapper embeds": {queue + `
type reader struct{ *Queue }
func (r reader) Read() { r.mu.Lock() }`, []string{
			"mu is locked outside",
		}},
		"handed out": {queue + `
type part struct { Mu sync.Locker; own *sync.Mutex }
func (q *Queue) lend() *sync.RWMutex { use(&q.mu); return nil }
func (q *Queue) lendMethod() { use(q.mu.Unlock) }
func wait(l sync.Locker) {}`, []string{
			"a lock is handed out", "a lock is handed out", "a lock is handed out",
			"mu is handed out", "Unlock of mu is handed out",
			"a lock is handed out",
		}},
		"for everyone": {`import "sync"
type Open struct { sync.Mutex; Mu sync.RWMutex }
var table sync.Mutex`, []string{
			"an embedded mutex", "an exported mutex", "belongs to no type",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := load(fstest.MapFS{"daemon/a.go": {Data: []byte(source("daemon", c.text))}})
			if err != nil {
				t.Fatal(err)
			}
			found := checkLocks(files)
			if len(found) != len(c.want) {
				t.Fatalf("found %v, want %d", found, len(c.want))
			}
			for i, want := range c.want {
				if !strings.Contains(found[i].String(), want) {
					t.Errorf("found %v, want %s", found[i], want)
				}
			}
		})
	}
}

// TestLockedElsewhereBecomesShorter has a function in the list that locks nothing of another type any more.
func TestLockedElsewhereBecomesShorter(t *testing.T) {
	text := source("model", "type Hosted struct{}\nfunc (h Hosted) Count() {}")
	files, err := load(fstest.MapFS{"dataplane/model/host.go": {Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	found := checkLocks(files)
	if len(found) == 0 || !strings.Contains(found[0].String(), "take it out of lockedElsewhere") {
		t.Errorf("found %v", found)
	}
}

func TestLockDocuments(t *testing.T) {
	const queue = "package daemon\n\nimport \"sync\"\n\ntype Queue struct{ mu sync.Mutex }\n"
	for comment, want := range map[string]int{
		"// Package daemon queues.\n":                                       1,
		"// Package daemon queues. Queues has a lock for all.\n":            1,
		"// Package daemon queues.\n//\n// Queue has a lock for all.\n":     0,
		"// Package daemon queues. Queue is blocked while there is room.\n": 1,
	} {
		files, err := load(fstest.MapFS{"daemon/doc.go": {Data: []byte(comment + queue)}})
		if err != nil {
			t.Fatal(err)
		}
		if found := checkLockDocuments(files); len(found) != want {
			t.Errorf("%s: found %v, want %d", comment, found, want)
		}
	}
}
