// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostfs reads the host's processes from procfs, and its GPUs from sysfs.
//
// It touches none of the files that a process has open, which it sees as the links of /proc/PID/fd. A process chooses its
// files: one may be on a file system that never answers, and a reader would block there, whatever signal comes. So this
// package reads the text of a link, and the kernel's own knowledge of the file, on which the process has no influence.
package hostfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// batch is how many names are read at once: a server may have a million files open.
const batch = 1024

// List calls use for the first files that a process has open, at most so many, until use returns an error. List then
// returns it, unless it is fs.SkipAll. dir is the fd directory of the process, link the path of a link and target its text.
// The budget counts the links. The right to list links is not the right to read them: root without CAP_SYS_PTRACE has only
// the first.
func List(dir string, most int, budget *Budget, use func(link, target string) error) error {
	budget.spend(1) // for the directory
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(batch)
		budget.spend(len(names))
		for _, name := range names[:min(len(names), most)] {
			link := dir + "/" + name
			target, err := os.Readlink(link)
			if err == nil {
				err = use(link, target)
			}
			switch {
			case errors.Is(err, fs.SkipAll):
				return nil
			case err != nil && !errors.Is(err, fs.ErrNotExist): // or else it was closed meanwhile
				return err
			}
		}
		if most -= len(names); most <= 0 || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

const (
	// PerSecond is for the budget of one reader. A link takes 2 to 15 µs, the more the larger the directory is: at most a
	// thirtieth of a core. 64 programs of 400 open files each, looked at every 15 seconds, take nearly as many.
	PerSecond = 2_000
	// kept is how many seconds of unused budget are kept, so that the first look at all processes of a host takes one call
	// or two.
	kept = 30
)

// Budget bounds the links that are read in a second, over all processes: any user can open many files in many processes.
// One goroutine owns it. A look at a process is never cut: what it spends too much is taken from the time after it.
type Budget struct {
	perSecond, left float64
	at              time.Time
}

// NewBudget returns a full budget. PerSecond is for readers of a host.
func NewBudget(perSecond float64) *Budget {
	return &Budget{perSecond: perSecond, left: perSecond * kept}
}

// Refill adds what the time since the last call is worth.
func (b *Budget) Refill(now time.Time) {
	if !b.at.IsZero() {
		b.left = min(b.left+now.Sub(b.at).Seconds()*b.perSecond, b.perSecond*kept)
	}
	b.at = now
}

// Spent reports whether nothing is left.
func (b *Budget) Spent() bool { return b.left <= 0 }

func (b *Budget) spend(links int) { b.left -= float64(links) }
