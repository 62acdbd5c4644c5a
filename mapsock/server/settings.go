// SPDX-License-Identifier: Apache-2.0

package server

// Settings that a client sends in several messages, until they are whole.

import (
	"fmt"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/mapsock"
)

// maxParts bounds the messages that settings may come in before the last, 1 MiB.
const maxParts = 16

// settingsParts are the parts of settings that a client has sent so far.
type settingsParts struct {
	whole  mapsock.Message
	count  int
	failed error // why they cannot be applied any more
}

// add keeps a part that is not the last. It is refused with those that follow.
func (s *settingsParts) add(part *mapsock.Message) error {
	if s.failed == nil && s.count == maxParts {
		s.failed = mapsock.Refusef(unix.ENOBUFS, "settings in more than %d parts", maxParts)
	}
	if s.failed == nil {
		s.failed = s.whole.Join(part)
	}
	if s.count++; s.failed != nil {
		s.whole = mapsock.Message{} // it is of no more use
	}
	return s.failed
}

// complete gives the settings with their last part, and is empty then.
func (s *settingsParts) complete(last *mapsock.Message) (dataplane.Settings, error) {
	whole, failed := s.whole, s.failed
	*s = settingsParts{}
	if failed != nil {
		return dataplane.Settings{}, fmt.Errorf("an earlier part of these settings: %w", failed)
	}
	if err := whole.Join(last); err != nil {
		return dataplane.Settings{}, err
	}
	if !whole.Has(mapsock.AttributeMissPolicy) || !whole.Has(mapsock.AttributeWaitBounds) {
		return dataplane.Settings{}, mapsock.Refusef(unix.EINVAL, "settings are set as a whole: miss policy and wait bounds are missing")
	}
	return whole.Settings(), nil
}
