// SPDX-License-Identifier: Apache-2.0

// Command testprogress runs `go test` and tells meanwhile what it does: a line for each package as it finishes, with the output of its
// failed tests, and every 20 seconds what runs. At the end it prints the line that `go test` prints for each package, and ends with the
// exit status of `go test`.
//
//	go run ./internal/testprogress -packages 40 go test -race ./...
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// interval is the pause between two lines about what runs.
const interval = 20 * time.Second

func main() {
	total := flag.Int("packages", 0, "how many packages there are, to say how far it is")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: testprogress [-packages N] go test ARGUMENT...")
		os.Exit(2)
	}
	status, err := run(flag.Args(), newProgress(os.Stdout, *total))
	if err != nil {
		fmt.Fprintln(os.Stderr, "testprogress:", err)
	}
	os.Exit(status)
}

// run runs the command to its end and returns its exit status.
func run(command []string, p *progress) (status int, err error) {
	arguments := append([]string{command[1], "-json"}, command[2:]...)
	cmd := exec.Command(command[0], arguments...)
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	follow(output, p)
	err = cmd.Wait()
	p.end(time.Now())
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return max(ended.ExitCode(), 1), nil // -1 of a signal
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// follow reads lines to their end, and says what runs while none comes.
func follow(output io.Reader, p *progress) {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		for reader := bufio.NewReader(output); ; {
			line, err := reader.ReadBytes('\n')
			if len(line) > 0 {
				lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case line, more := <-lines:
			if !more {
				return
			}
			p.take(line)
		case now := <-tick.C:
			p.tell(now)
		}
	}
}

// take takes a line of `go test -json`; what is no event is printed as it is.
func (p *progress) take(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		_, _ = p.out.Write(line)
		return
	}
	p.handle(e)
}
