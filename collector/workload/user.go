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
	// maxPasswd bounds the file of users, which is a few kilobytes long where the
	// users of a site come from a directory.
	maxPasswd = 4 << 20
	// recheck is how often it is looked at for changes, when asked for a user.
	recheck = time.Minute
)

// users are the names of users. Its methods may be called from any goroutine. They
// read one ordinary file and do not ask the system's name services, which may
// block for as long as a network does, and take cgo.
type users struct {
	files []string // the first that can be read counts

	mu      sync.Mutex
	checked time.Time
	stamp   fileStamp
	names   map[uint32]string
}

// fileStamp tells a file that has changed.
type fileStamp struct {
	path     string
	modified time.Time
	size     int64
}

// passwdFiles returns where the users' names may be found.
func passwdFiles(procfs string) []string {
	files := []string{filepath.Join(procfs, "1/root/etc/passwd")}
	if !inContainer(procfs) {
		files = append(files, "/etc/passwd")
	}
	return files
}

// inContainer reports whether the exporter runs in a container, so that its own
// files are not those of the host. Then its control group says so; or, in a
// namespace of control groups of its own, that of the host's first process lies
// outside.
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

// refresh reads the file anew if it has changed. Names that cannot be read any
// more are kept.
func (u *users) refresh() {
	for _, path := range u.files {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		stamp := fileStamp{path, info.ModTime(), info.Size()}
		if stamp == u.stamp {
			return
		}
		b, err := io.ReadAll(io.LimitReader(f, maxPasswd))
		if err != nil {
			continue
		}
		u.stamp, u.names = stamp, parsePasswd(string(b))
		return
	}
}

// parsePasswd parses passwd(5). The first entry of a number counts, as it does in
// getpwuid(3). Lines that are not whole are left out: the file may have been cut.
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
