// SPDX-License-Identifier: Apache-2.0

package dataplane

// What engines that carry out one operation at a time have in common.

// ApplyEach carries out operations in order, and returns what Plane.Apply does: nil where none failed, else an error or nil for each.
func ApplyEach(operations []Operation, apply func(Operation) error) (failed []error) {
	for i, operation := range operations {
		if err := apply(operation); err != nil {
			if failed == nil {
				failed = make([]error, len(operations))
			}
			failed[i] = err
		}
	}
	return failed
}
