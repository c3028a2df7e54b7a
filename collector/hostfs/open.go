// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostfs reads what the kernel tells of the host's processes in procfs, and of its GPUs in sysfs.
//
// It touches none of the files that a process has open, which it sees through the links of /proc/PID/fd. A process
// chooses its files: one may be on a file system that never answers, and whoever asks that file system waits until it
// does, whatever signal comes. So this package reads the text of a link, and what the kernel itself knows of the file.
// Of that the owner of the process has no say.
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

// List calls use for each file that a process has open, until use returns an error; that is then List's, unless it is
// fs.SkipAll. dir is the fd directory of the process. link is the path of the link; its text, which the process chose, is
// use's to read. The links are counted in the budget.
func List(dir string, budget *Budget, use func(link string) error) error {
	budget.spend(1) // for the directory
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(batch)
		budget.spend(len(names))
		for _, name := range names {
			switch err := use(dir + "/" + name); {
			case errors.Is(err, fs.SkipAll):
				return nil
			case err != nil:
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

const (
	// PerSecond is for the budget of one reader. A link takes 2 to 15 µs, the more the larger the directory is: that is
	// a thirtieth of a core at most. 64 programs of 400 open files each, looked at every 15 seconds, take nearly as many.
	PerSecond = 2_000
	// Save is how much of it is saved up, so that the first look at all processes of a host takes one call or two.
	Save = 30 * time.Second
)

// Budget bounds how many links are read in a second, over all processes: any user can open files, as many as they
// like, in as many processes as they like. One goroutine owns it. A process is looked at whole: what is spent too much
// is taken from the time after it.
type Budget struct {
	perSecond, most float64
	left            float64
	at              time.Time
}

// NewBudget returns a budget for so many links in a second. What is not used is saved up, but no more than a time of save
// is worth. It begins with that much. PerSecond and Save are for readers of a host.
func NewBudget(perSecond int, save time.Duration) *Budget {
	most := float64(perSecond) * save.Seconds()
	return &Budget{perSecond: float64(perSecond), most: most, left: most}
}

// Refill adds what the time since the last call is worth.
func (b *Budget) Refill(now time.Time) {
	if !b.at.IsZero() {
		b.left = min(b.left+now.Sub(b.at).Seconds()*b.perSecond, b.most)
	}
	b.at = now
}

// Spent reports whether nothing is left for now.
func (b *Budget) Spent() bool { return b.left <= 0 }

func (b *Budget) spend(links int) { b.left -= float64(links) }
