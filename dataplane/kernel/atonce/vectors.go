// SPDX-License-Identifier: Apache-2.0

package atonce

// A frame that is put together of pieces, written with one system call.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Vectors is memory for the pieces of a frame, used again for the next.
type Vectors struct{ pieces []unix.Iovec }

// Write writes all pieces as one frame, or fails.
func (v *Vectors) Write(fd uintptr, pieces [][]byte) error {
	v.pieces = v.pieces[:0]
	for _, piece := range pieces {
		vector := unix.Iovec{Base: unsafe.SliceData(piece)}
		vector.SetLen(len(piece))
		v.pieces = append(v.pieces, vector)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(unsafe.SliceData(v.pieces))), uintptr(len(v.pieces)))
	clear(v.pieces)
	if errno != 0 {
		return errno
	}
	return nil
}
