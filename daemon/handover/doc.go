// SPDX-License-Identifier: Apache-2.0

// Package handover sends packets that the data plane hands to the control plane (itr.hand-over).
package handover
