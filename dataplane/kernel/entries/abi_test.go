// SPDX-License-Identifier: Apache-2.0

package entries

import (
	"testing"

	"loci/dataplane/kernel/kerneltest"
)

func TestConstantsAreThoseOfTheABI(t *testing.T) {
	kerneltest.ExpectConstants(t, map[string]uint64{"LISP_HEARD_ANEW": heardAnew})
}
