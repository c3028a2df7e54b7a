// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

const (
	// maxPasswd bounds the file of users. It has a few kilobytes where a site keeps its users in a directory.
	maxPasswd = 4 << 20
	// recheck is how often the file is read again, when a user is asked for.
	recheck = time.Minute
)

// users are the names of users. They come from one ordinary file, not from the system's name services: those may block for
// as long as a network does, and need cgo. Its methods may be called from any goroutine.
type users struct {
	files []string // the first readable one counts

	mu      sync.Mutex
	checked time.Time
	names   map[uint32]string
}

func passwdFiles(procfs string) []string {
	files := []string{filepath.Join(procfs, "1/root/etc/passwd")}
	if !inContainer(procfs) {
		files = append(files, "/etc/passwd")
	}
	return files
}

// inContainer reports whether the exporter runs in a container, so that its own files are not the host's. Its control group
// shows it. In a namespace of control groups, the group of the host's first process lies outside.
func inContainer(procfs string) bool {
	own, err := os.ReadFile(filepath.Join(procfs, "self/cgroup"))
	if err != nil {
		return true // another mount than that of this pid namespace
	}
	first, err := os.ReadFile(filepath.Join(procfs, "1/cgroup"))
	return hostfs.ParseCgroup(string(own)).Container != "" || (err == nil && strings.Contains(string(first), ":/.."))
}

// name returns the name of a user, or the number if it has none.
func (u *users) name(uid uint32) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := time.Now(); u.checked.IsZero() || now.Sub(u.checked) >= recheck {
		u.checked = now
		u.refresh()
	}
	return cmp.Or(u.names[uid], strconv.FormatUint(uint64(uid), 10))
}

// refresh reads the file again. The old names stay if it cannot be read any more.
func (u *users) refresh() {
	for _, path := range u.files {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		defer f.Close()
		if b, err := io.ReadAll(io.LimitReader(f, maxPasswd)); err == nil {
			u.names = parsePasswd(string(b))
			return
		}
	}
}

// parsePasswd parses passwd(5). The first entry of a number counts, as in getpwuid(3). Incomplete lines are left out: the
// file may be cut at maxPasswd.
func parsePasswd(file string) map[uint32]string {
	names := map[uint32]string{}
	for line := range strings.Lines(file) {
		fields := strings.Split(line, ":")
		if len(fields) != 7 || fields[0] == "" {
			continue
		}
		uid, err := strconv.ParseUint(fields[2], 10, 32)
		if err != nil {
			continue
		}
		if _, ok := names[uint32(uid)]; !ok {
			names[uint32(uid)] = fields[0]
		}
	}
	return names
}
