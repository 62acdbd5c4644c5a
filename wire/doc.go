// SPDX-License-Identifier: Apache-2.0

// Package wire turns bytes into LISP messages and back: the control messages of
// RFC 9301, RFC 8111 and RFC 9304, every address format of RFC 8060, RFC 9306 and
// RFC 9735, message authentication, and the data header of RFC 9300.
//
// Parsers are total: any bytes give a message or a *ParseError that names the
// message, the field, the offset and a countable reason. They copy what they
// keep, so a message never points into the caller's buffer, and what they
// allocate is bounded by the input. Encoders append to the caller's buffer and
// do not allocate while its capacity lasts.
//
// The package never opens sockets, reads clocks, or draws random numbers: nonces
// and keys are arguments.
package wire
