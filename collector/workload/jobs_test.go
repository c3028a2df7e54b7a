// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// jobDir returns a directory of mapping files.
func jobDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	return dir
}

// ids are Jobs without the times.
type ids map[string][]string

func idsOf(jobs Jobs) ids {
	all := ids{}
	for name, file := range jobs {
		all[name] = file.IDs
	}
	return all
}

// now is after every file was written.
var now = time.Now().Add(time.Hour)

func TestReadJobs(t *testing.T) {
	dir := jobDir(t, map[string]string{
		"0": "4711\n", "1": "", "2": "17 18\n\n\t19\r\n17\n", "2.1": "23_4", "999": "1", "7.13": "a.b/c[1-3]",
		"00": "x", "01": "x", "1000": "x", "-1": "x", "+1": "x", " 1": "x", "1 ": "x", "1.": "x", ".1": "x", "1.2.3": "x", "1.01": "x",
		"0x1": "x", "gpu0": "x", "0.tmp": "x", ".0.swp": "x", "0~": "x", "٣": "x", "1\n": "x",
	})
	got, err := readJobs(dir)
	want := ids{"0": {"4711"}, "1": nil, "2": {"17", "18", "19"}, "2.1": {"23_4"}, "999": {"1"}, "7.13": {"a.b/c[1-3]"}}
	if err != nil || !reflect.DeepEqual(idsOf(got), want) {
		t.Errorf("%v, %v, want %q", got, err, want)
	}
}

// What is no regular file is left out, and a file that cannot be read costs its own jobs.
func TestReadJobsOfOtherFiles(t *testing.T) {
	dir := jobDir(t, map[string]string{"0": "1", "7": strings.Repeat("1234567 ", maxJobFileSize/8+1), "7.1": "8"})
	must(t, errors.Join(
		os.Symlink("0", filepath.Join(dir, "1")), os.Mkdir(filepath.Join(dir, "2"), 0o755), syscall.Mkfifo(filepath.Join(dir, "3"), 0o644),
	))
	got, err := readJobs(dir)
	if want := (ids{"0": {"1"}, "7": nil, "7.1": {"8"}}); err == nil || !reflect.DeepEqual(idsOf(got), want) {
		t.Errorf("%v, %v, want %q", got, err, want)
	}
	for path, want := range map[string]error{"missing": fs.ErrNotExist, "0": syscall.ENOTDIR, "3": syscall.ENOTDIR} {
		jobs, err := readJobs(filepath.Join(dir, path))
		if jobs != nil || !errors.Is(err, want) || !strings.Contains(err.Error(), "--collector.workload.job-mapping-dir") {
			t.Errorf("%s: %v, %v", path, jobs, err)
		}
	}
}

func TestJobsOf(t *testing.T) {
	all := ids{"0": {"10"}, "1": {"11", "12"}, "2": {"13"}, "2.1": {"14"}, "2.2": nil, "3": nil, "3.1": {"15"}, "5.": {"x"}}
	jobs := Jobs{}
	for name, jobIDs := range all {
		jobs[name] = JobFile{IDs: jobIDs, Written: now.Add(-time.Minute)}
	}
	for _, c := range []struct{ index, instance, want string }{
		{"0", "", "10"},
		{"0", "1", "10"},
		{"1", "", ""},
		{"1", "1", ""},
		{"2", "", "13"},
		{"2", "1", "14"},
		{"2", "2", ""},
		{"2", "3", "13"},
		{"3", "", ""},
		{"3", "1", "15"},
		{"3", "2", ""},
		{"4", "", ""},
		{"5", "", ""},
		{"", "", ""},
	} {
		equal(t, jobs.Of(c.index, c.instance, now), c.want, "GPU %q, instance %q", c.index, c.instance)
	}
	// The prolog writes the file, and then the job starts.
	for started, want := range map[time.Duration]string{-time.Hour: "", -63 * time.Second: "", -61 * time.Second: "10", 0: "10"} {
		equal(t, jobs.Of("0", "", now.Add(started)), want, "started %s after now", started)
	}
	equal(t, Jobs(nil).Of("0", "", now), "", "none")
}

func TestParseJobs(t *testing.T) {
	many := make([]string, 2*maxJobsPerGPU)
	for i := range many {
		many[i] = fmt.Sprint("job", i)
	}
	for _, c := range []struct {
		name, file string
		want       []string
	}{
		{name: "white space", file: " \n\t\r\n"},
		{name: "many", file: strings.Join(many, "\n"), want: many[:maxJobsPerGPU]},
		{name: "long", file: strings.Repeat("j", 500), want: []string{strings.Repeat("j", maxLabel)}},
		{name: "does not print", file: "1\x00\xff\u202e", want: []string{"1\ufffd\ufffd\ufffd"}},
	} {
		equal(t, parseJobs([]byte(c.file)), c.want, "%s", c.name)
	}
}

func FuzzParseJobs(f *testing.F) {
	for _, file := range []string{"", "1", "17 18\n\n\t19\r\n17\n", "1\x00\xff\u2028\u202e2", "123_[1-4%2]\n"} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		jobs := parseJobs(file)
		if len(jobs) > maxJobsPerGPU {
			t.Errorf("%d jobs", len(jobs))
		}
		for i, job := range jobs {
			checkLabel(t, job, maxLabel)
			if job == "" || slices.Contains(jobs[:i], job) {
				t.Errorf("%q in %q", job, jobs)
			}
		}
		// Jobs that follow change nothing before them.
		if again := parseJobs(append(bytes.Clone(file), "\n1\n"...)); len(file) < 1024 && !slices.Equal(again[:min(len(again), len(jobs))], jobs) {
			t.Errorf("%q, and %q with one more", jobs, again)
		}
	})
}
