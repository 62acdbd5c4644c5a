// SPDX-License-Identifier: Apache-2.0

package errorkind

import (
	"errors"
	"io/fs"
	"testing"
)

func TestMark(t *testing.T) {
	kind := errors.New("of a kind")
	err := Mark(fs.ErrNotExist, kind)
	if err.Error() != fs.ErrNotExist.Error() || !errors.Is(err, kind) || !errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
}
