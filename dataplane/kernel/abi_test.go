// SPDX-License-Identifier: Apache-2.0

// These tests hold together what is said twice: bpf/abi.h, its mirror, and the
// numbers and names of this package and of package forward.

package kernel

import (
	"testing"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/kerneltest"
	"loci/forward"
	"loci/lisp"
)

func TestConstantsAreThoseOfTheABI(t *testing.T) {
	kerneltest.ExpectConstants(t, map[string]uint64{
		"LISP_ABI_VERSION": abi.Version, "LISP_LOCATORS_MAX": lisp.MaxLocators, "LISP_BUCKETS": forward.BucketCount,
		"LISP_BUCKET_NONE": forward.NoBucket, "LISP_NO_LOCATOR_SET": uint64(abi.NoLocatorSet),
	})
	for action, want := range map[abi.Action]lisp.Action{
		abi.ActionNativelyForward: lisp.ActionNativelyForward,
		abi.ActionSendMapRequest:  lisp.ActionSendMapRequest,
		abi.ActionDrop:            lisp.ActionDrop,
	} {
		if uint8(action) != uint8(want) {
			t.Errorf("action %d is not %v", action, want)
		}
	}
}
