// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParsePasswd(t *testing.T) {
	names := parsePasswd(`root:x:0:0:root:/root:/bin/bash
toor:x:0:0:the second of that number:/root:/bin/sh
# comment
alice:x:1000:1000:Alice,,,:/home/alice:/bin/bash
+:::::: 
+@group::::::
negative:x:-2:0::/:
huge:x:4294967296:0::/:
nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin
cut:x:100`)
	want := map[uint32]string{0: "root", 1000: "alice", 65534: "nobody"}
	equal(t, names, want, "users")
}

func TestUsersAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	write := func(path, name string, modified time.Time) {
		t.Helper()
		must(t, os.WriteFile(path, []byte(name+":x:7:7::/:/bin/sh\n"), 0o644))
		must(t, os.Chtimes(path, modified, modified))
	}
	synctest.Test(t, func(*testing.T) {
		u := &users{files: []string{first, dir, second}}
		equal(t, u.name(7), "7", "user 7")
		write(second, "bob", time.Unix(1, 0))
		equal(t, u.name(7), "7", "user 7") // it was looked at a moment ago
		time.Sleep(recheck)
		equal(t, u.name(7), "bob", "user 7")
		write(first, "eve", time.Unix(1, 0)) // of the same length and time, but another file
		time.Sleep(recheck)
		equal(t, u.name(7), "eve", "user 7")
		write(first, "ann", time.Unix(2, 0))
		time.Sleep(recheck)
		equal(t, u.name(7), "ann", "user 7")
		for _, path := range []string{first, second} {
			must(t, os.Remove(path))
		}
		time.Sleep(recheck)
		equal(t, u.name(7), "ann", "user 7")
	})
}

// The users in an image are not those of the host.
func TestPasswdFiles(t *testing.T) {
	for _, c := range []struct {
		name, self, first string
		own               bool
	}{
		{"on the host", "0::/system.slice/gpu_leak_exporter.service\n", "0::/init.scope\n", true},
		{"on the host, unknown first", "0::/system.slice/gpu_leak_exporter.service\n", "", true},
		{"in a container", "0::/system.slice/docker-" + idA + ".scope\n", "0::/init.scope\n", false},
		{"in a container with a namespace of groups", "0::/\n", "0::/../../init.scope\n", false},
		{"no number in that procfs", "", "0::/init.scope\n", false},
	} {
		tr := tree{t, t.TempDir()}
		if c.self != "" {
			tr.write("self/cgroup", c.self)
		}
		if c.first != "" {
			tr.write("1/cgroup", c.first)
		}
		got := strings.Join(passwdFiles(tr.root), " ")
		want := tr.root + "/1/root/etc/passwd"
		if c.own {
			want += " /etc/passwd"
		}
		equal(t, got, want, "%s", c.name)
	}
}

func FuzzParsePasswd(f *testing.F) {
	f.Add("alice:x:1000:1000::/home/alice:/bin/bash\n+::::::\n")
	f.Fuzz(func(t *testing.T, file string) {
		for uid, name := range parsePasswd(file) {
			if name == "" || !strings.Contains(file, name+":") {
				t.Errorf("user %d is %q", uid, name)
			}
		}
	})
}
