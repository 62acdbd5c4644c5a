// SPDX-License-Identifier: Apache-2.0

package daemon

// A data plane in another process that was away is told everything again. The reports of usage find what it holds
// beyond that.

import (
	"context"
	"errors"
	"fmt"

	"loci/dataplane"
)

// tellAgain brings everything to a data plane that was away. After an error it is to be
// called again.
func (d *daemon) tellAgain() error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	p := d.plan.Load()
	if err := errors.Join(d.plane.Apply(dataplane.SetSettings{Settings: p.Settings})...); err != nil {
		return fmt.Errorf("settings of the data plane: %w", err)
	}
	d.worker.Forget()
	d.forgetDatabase(*p)
	_ = d.loop.QueueTables(context.Background()) // the daemon stops otherwise
	return nil
}
