// SPDX-License-Identifier: Apache-2.0

package daemon

// A data plane in another process that was away is told everything again. What it has beyond that, the reports of usage
// bring to light. The Node's tables are gone through a page a turn; what changes meanwhile follows by itself.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loci/dataplane"
)

// tellAgain brings everything to a data plane that was away. After an error it is to be
// called again.
func (d *daemon) tellAgain() error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	p := d.plan.Load()
	if err := errors.Join(d.plane.Apply(dataplane.SetSettings{Settings: p.settings})...); err != nil {
		return fmt.Errorf("settings of the data plane: %w", err)
	}
	d.forgetDatabase(*p)
	for t := (&telling{}); !t.locators; {
		if _, err := ask(context.Background(), d.loop, func(time.Time) struct{} { d.loop.queuePage(t); return struct{}{} }); err != nil {
			break // the daemon stops
		}
	}
	return nil
}
