// SPDX-License-Identifier: Apache-2.0

package mapsock

// Echoes: the octets of a request with what came of it. They are copied, not written
// anew, so that what is not known here reaches those who know it.

// AppendEcho writes a request behind b with its outcome: err, or nil for one that was
// carried out. told are the flags that the server sets beside DONE, and pid is the
// sender's. What leaves no room for the error's words loses all but the header.
func AppendEcho(b, request []byte, pid int32, told Flags, err error) []byte {
	start := len(b)
	b = append(b, request...)
	if err != nil {
		b = appendOutcome(b, start, err)
	} else {
		told |= FlagDone
		order.PutUint32(b[start+offsetErrno:], 0)
	}
	header := b[start:]
	told |= Flags(order.Uint32(header[offsetFlags:])) &^ FlagsTold
	order.PutUint32(header[offsetFlags:], uint32(told))
	order.PutUint32(header[offsetPID:], uint32(pid))
	order.PutUint16(header[offsetLength:], uint16(len(header)))
	return b
}

// appendOutcome adds errno and ERROR to the copy that begins at start.
func appendOutcome(b []byte, start int, err error) []byte {
	if len(b)-start+attributeHeaderSize+errorSize > MaxMessage {
		b = b[:start+HeaderSize]
		order.PutUint16(b[start+offsetAddresses:], 0)
		order.PutUint32(b[start+offsetLocatorCount:], 0)
		order.PutUint16(b[start+offsetAttributes:], HeaderSize)
	}
	var m Message
	m.SetError(err)
	b = appendError(b, AttributeError, &m)
	order.PutUint32(b[start+offsetErrno:], uint32(m.Errno))
	return b
}
