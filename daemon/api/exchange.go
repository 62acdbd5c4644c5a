// SPDX-License-Identifier: Apache-2.0

package api

// A request and its answer, on a connection of their own: one kept for later would take one of the daemon's few places. net/http
// writes and reads them, but its client is left out: it brings TLS, a tenth of the binary, which no Unix socket has.

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
)

// maxHeaderOctets bounds the header of an answer.
const maxHeaderOctets = 1 << 16

// answerBody ends the connection when it is closed, or with the context of the request.
type answerBody struct {
	io.ReadCloser
	ctx  context.Context
	conn net.Conn
	stop func() bool // keeps the context from closing the connection
}

// exchange sends a request without a body to the server at a Unix socket. The caller closes the answer's body.
func exchange(request *http.Request, socket string) (*http.Response, error) {
	ctx := request.Context()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	b := &answerBody{ctx: ctx, conn: conn, stop: context.AfterFunc(ctx, func() { _ = conn.Close() })}
	request.Close = true
	refused := request.Write(conn) // the server may have answered all the same
	from := &io.LimitedReader{R: conn, N: maxHeaderOctets}
	answer, err := http.ReadResponse(bufio.NewReader(from), request)
	if err != nil {
		_ = b.end()
		return nil, cmp.Or(context.Cause(ctx), refused, err)
	}
	from.N = math.MaxInt64
	b.ReadCloser, answer.Body = answer.Body, b
	return answer, nil
}

// Read fails with the reason for which the context has ended.
func (b *answerBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if err != nil && err != io.EOF {
		err = cmp.Or(context.Cause(b.ctx), err)
	}
	return n, err
}

// Close leaves what was not read.
func (b *answerBody) Close() error { return b.end() }

func (b *answerBody) end() error {
	b.stop()
	if err := b.conn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
