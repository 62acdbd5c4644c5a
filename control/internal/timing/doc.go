// SPDX-License-Identifier: Apache-2.0

// Package timing has what depends on time and reads no clock: instants, deadlines by row, and token
// buckets. The caller passes the time.
package timing
