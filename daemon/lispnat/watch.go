// SPDX-License-Identifier: Apache-2.0

//go:build !nolispnat

package lispnat

// The kernel's news of changed rules. What has changed is looked up afterwards: news that are lost cost a look.

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/internal/wakeup"
)

// watchRetry is how long to wait when the kernel reports nothing.
const watchRetry = 500 * time.Millisecond

// watch wakes a goroutine for each change of the host's rules, until the context ends.
func watch(ctx context.Context, changed wakeup.Signal, log *slog.Logger) {
	for {
		err := listen(ctx, changed)
		if ctx.Err() != nil {
			return
		}
		log.Warn("the kernel does not report changed rules: looking again", "error", err)
		changed.Set()
		select {
		case <-time.After(watchRetry):
		case <-ctx.Done():
			return
		}
	}
}

func listen(ctx context.Context, changed wakeup.Signal) error {
	socket, err := nl.Subscribe(unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, socket.Close)
	defer func() {
		if stop() {
			socket.Close()
		}
	}()
	changed.Set()
	for {
		_, _, err := socket.Receive()
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil && !errors.Is(err, unix.ENOBUFS):
			return err
		default:
			changed.Set()
		}
	}
}
