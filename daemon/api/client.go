// SPDX-License-Identifier: Apache-2.0

package api

// The client of the control socket, for commands and tests.

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"syscall"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"loci/internal/errorkind"
)

// What the errors of a client wrap: no daemon answers at the socket, or the daemon (or the kernel) refuses to.
var (
	ErrNoDaemon = errors.New("no daemon answers")
	ErrRefused  = errors.New("the daemon refused")
)

// streamTimeout bounds how long the beginning of a stream is waited for.
const streamTimeout = 30 * time.Second

// maxAnswerOctets bounds a document other than a list.
const maxAnswerOctets = 1 << 30

// maxElementOctets bounds an element of a list.
const maxElementOctets = 1 << 24

var errNoArray = errors.New("not a JSON array")

// maxProblemOctets bounds the body of an answer that is not 200.
const maxProblemOctets = 1 << 20

// Client asks one daemon.
type Client struct{ socket string }

// NewClient makes a client of the daemon that listens at the socket's path.
func NewClient(socket string) *Client { return &Client{socket} }

// Events calls f for every event that is wanted, until the context ends or f fails.
func (c *Client) Events(ctx context.Context, q EventQuery, f func(Event) error) error {
	opening, giveUp := context.WithCancelCause(ctx) // the stream itself may last
	defer giveUp(nil)
	late := time.AfterFunc(streamTimeout, func() { giveUp(context.DeadlineExceeded) })
	body, err := c.open(opening, http.MethodGet, PathEvents+q.encode())
	late.Stop()
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("event from %s: %w", c.socket, err)
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), ctx.Err())
}

// each yields the elements of an array, and an error as the last.
func each[T any](ctx context.Context, c *Client, path string, q ListQuery) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		fail := func(err error) { yield(*new(T), fmt.Errorf("answer of %s to %s: %w", c.socket, path, err)) }
		body, err := c.open(ctx, http.MethodGet, path+q.encode())
		if err != nil {
			yield(*new(T), err)
			return
		}
		defer body.Close()
		limited := &io.LimitedReader{R: body}
		list := jsontext.NewDecoder(limited)
		for {
			limited.N = maxElementOctets
			element, more, err := next[T](list)
			if limited.N == 0 {
				err = fmt.Errorf("an element has more than %d octets", maxElementOctets)
			}
			if err != nil {
				fail(err)
				return
			}
			if !more || !yield(element, nil) {
				return
			}
		}
	}
}

// next decodes the next element of an array; without more there is none.
func next[T any](list *jsontext.Decoder) (element T, more bool, err error) {
	if list.StackDepth() == 0 {
		opening, err := list.ReadToken()
		if err != nil || opening.Kind() != jsontext.KindBeginArray {
			return element, false, cmp.Or(err, errNoArray)
		}
	}
	if list.PeekKind() == jsontext.KindEndArray {
		return element, false, nil
	}
	return element, true, jsonv2.UnmarshalDecode(list, &element)
}

// collect is never nil without an error.
func collect[T any](elements iter.Seq2[T, error]) ([]T, error) {
	list := []T{}
	for element, err := range elements {
		if err != nil {
			return nil, err
		}
		list = append(list, element)
	}
	return list, nil
}

func (c *Client) get(ctx context.Context, path string, v any) error {
	return c.do(ctx, http.MethodGet, path, v)
}

func (c *Client) do(ctx context.Context, method, path string, v any) error {
	body, err := c.open(ctx, method, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxAnswerOctets)).Decode(v); err != nil {
		return fmt.Errorf("answer of %s to %s: %w", c.socket, path, err)
	}
	return nil
}

func (c *Client) open(ctx context.Context, method, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://loci"+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := exchange(request, c.socket)
	if err != nil {
		return nil, c.noAnswer(err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	problem := &Problem{}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxProblemOctets)).Decode(problem); err != nil {
		return nil, fmt.Errorf("%s: %s", path, answer.Status)
	}
	return nil, errorkind.Mark(problem, ErrRefused)
}

// noAnswer says of what kind the error is for which there is no answer.
func (c *Client) noAnswer(err error) error {
	kind := ErrNoDaemon
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EAGAIN) {
		kind = ErrRefused
	}
	if errors.Is(err, context.Canceled) {
		return c.whyNoAnswer(err)
	}
	return errorkind.Mark(c.whyNoAnswer(err), kind)
}

// whyNoAnswer says it in the user's words.
func (c *Client) whyNoAnswer(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no daemon answers at %s (is `loci run` running, and is this its socket?): %w", c.socket, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no daemon answers at %s: the one that made this socket has ended (start `loci run` again): %w", c.socket, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the control socket %s is for its owner and its group alone: %w", c.socket, err)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("the daemon at %s takes no more clients: too many wait already: %w", c.socket, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the daemon at %s takes too long to answer: it is busy, has too many clients, or is stopped: %w", c.socket, err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("the daemon at %s closed the connection without an answer: it has too many clients, or is stopping: %w", c.socket, err)
	}
	return fmt.Errorf("no daemon answers at %s (is `loci run` running, and is this its socket?): %w", c.socket, err)
}
