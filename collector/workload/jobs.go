// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Bounds for files that went wrong: nobody runs that many jobs on a GPU.
const (
	maxJobFiles    = 1024
	maxJobFileSize = 64 << 10
	maxJobsPerGPU  = 64
)

// Jobs holds the jobs on GPUs by the names of the mapping files, which are the indices of the GPUs: "0", or "2.1" for GPU
// instance 1 of GPU 2. A GPU without jobs has an empty file, an unknown GPU has none.
//
// The files are those of dcgm-exporter's --hpc-job-mapping-dir: the prolog of Slurm or of another batch system writes them,
// the epilog empties or removes them.
type Jobs map[string]JobFile

// JobFile is one mapping file.
type JobFile struct {
	IDs []string
	// Written is its last change, by the clock of its file system.
	Written time.Time
}

// writtenSlack is how much older than its job's file a process may seem: clocks tick, and file systems round.
const writtenSlack = 2 * time.Second

// jobFile is the name of a mapping file, without leading zeros, as Of looks for it.
var jobFile = regexp.MustCompile(`^(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2}))?$`)

// Of returns the job of a process that started at that time on the GPU of that index, or on its GPU instance, which is ""
// for the whole GPU. It is "" unless there is exactly one job: of several, any could own the process. A process that is
// older than the file does not belong to the job, because the prolog writes the file before the job starts.
//
// The file of a GPU also counts for its instances, except for those with their own file, even an empty one.
func (j Jobs) Of(index, instance string, started time.Time) string {
	file := j[index]
	if own, ok := j[index+"."+instance]; ok && instance != "" {
		file = own
	}
	if len(file.IDs) != 1 || started.Add(writtenSlack).Before(file.Written) {
		return ""
	}
	return file.IDs[0]
}

// readJobs reads the mapping files of a directory. It leaves out other names, files that are not regular, and files that
// vanish meanwhile.
//
// With an error of single files it also returns the jobs, because those of the other GPUs are known. An unreadable file
// counts as empty, so that the jobs of the GPU are not taken for its instance's.
func readJobs(dir string) (Jobs, error) {
	names, err := jobFiles(dir)
	if err != nil {
		return nil, fmt.Errorf("list the job mapping files: %w (is --collector.workload.job-mapping-dir the directory that the batch system writes to?)", err)
	}
	jobs := Jobs{}
	var errs []error
	for _, name := range names {
		b, written, err := readJobFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular):
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("read a job mapping file: %w", err))
		}
		jobs[name] = JobFile{parseJobs(b), written}
	}
	return jobs, errors.Join(errs...)
}

// jobFiles returns the names of the mapping files in a directory, in order.
func jobFiles(dir string) ([]string, error) {
	// Without O_DIRECTORY it would wait for a writer if dir were a FIFO.
	d, err := os.OpenFile(dir, os.O_RDONLY|openDirectory, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var names []string
	for len(names) < maxJobFiles {
		entries, err := d.ReadDir(256)
		for _, e := range entries {
			// Opening a device may have an effect, so its kind is checked first.
			if e.Type().IsRegular() && jobFile.MatchString(e.Name()) {
				names = append(names, e.Name())
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxJobFiles)], nil
}

var errNotRegular = errors.New("not a regular file")

// readJobFile returns the content of a regular file, and when it was written. The name may be something else by now: it
// follows no link and does not wait at a FIFO.
func readJobFile(path string) (content []byte, written time.Time, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	// The first is the error for a link, the second for a socket or a missing device.
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) {
		return nil, written, errNotRegular
	}
	if err != nil {
		return nil, written, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, written, err
	}
	if !info.Mode().IsRegular() {
		return nil, written, errNotRegular
	}
	content, err = io.ReadAll(io.LimitReader(f, maxJobFileSize+1))
	if err != nil {
		return nil, written, err // half a file may end in half a job
	}
	return content, info.ModTime(), nil
}

// parseJobs parses a mapping file: jobs separated by white space. It returns each once, in order. Of a file beyond the bound
// it leaves out the last job, which may be cut.
func parseJobs(b []byte) []string {
	if len(b) > maxJobFileSize {
		b = b[:max(0, bytes.LastIndexAny(b[:maxJobFileSize+1], " \t\r\n"))]
	}
	var jobs []string
	for word := range strings.FieldsSeq(string(b)) {
		job := label(word, maxLabel)
		if job == "" || slices.Contains(jobs, job) {
			continue
		}
		if len(jobs) == maxJobsPerGPU {
			break
		}
		jobs = append(jobs, job)
	}
	return jobs
}
