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

// Nobody runs that many jobs on a GPU; the bounds are for files that went wrong.
const (
	maxJobFiles    = 1024
	maxJobFileSize = 64 << 10
	maxJobsPerGPU  = 64
)

// Jobs holds the jobs that run on GPUs by the names of the mapping files, which are
// the indices of the GPUs: "0", or "2.1" for GPU instance 1 of GPU 2. A GPU without
// jobs has none under its name, one of which nothing is known has no name.
//
// The files are those of dcgm-exporter's --hpc-job-mapping-dir: the prolog of Slurm
// or of another batch system writes them, the epilog empties or removes them.
type Jobs map[string]JobFile

// JobFile is one mapping file.
type JobFile struct {
	IDs []string
	// Written is when it was written last, by the clock of its file system.
	Written time.Time
}

// writtenSlack is by how much a process may seem to be older than the file of its
// job: clocks tick, and file systems round.
const writtenSlack = 2 * time.Second

// jobFile is the name of a mapping file. The name must be the one that Of looks for,
// so there are no zeros in front.
var jobFile = regexp.MustCompile(`^(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2}))?$`)

// Of returns the job of a process that started at that time on the GPU of that
// index, or on its GPU instance, which is "" for the whole GPU. It is "" unless
// there is exactly one: of several it is not known whose a process is. A process
// that is older than the file is not the job's, for the prolog writes it before the
// job starts: it has outlived the job before, or belongs to none.
//
// The file of a GPU holds for its instances, too, but not for those that have one of
// their own, be it empty.
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

// readJobs reads the mapping files of a directory. Files of other names, what is no
// regular file and what vanishes meanwhile are left out.
//
// With an error of single files it returns the jobs, too, because those of the other
// GPUs are known none the less. A file that could not be read has no jobs in them,
// lest those of the GPU be taken for its instance's.
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
			// To open a device may do something to it, so its kind is asked before.
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

// errNotRegular says that a name has come to stand for something else.
var errNotRegular = errors.New("not a regular file")

// readJobFile returns the content of a regular file, and when it was written. It follows no link, and waits
// for nobody to write to a FIFO, whatever the name stands for by now.
func readJobFile(path string) (content []byte, written time.Time, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	// The first is what opening a link says, the second a socket or a missing device.
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

// parseJobs parses a mapping file: jobs separated by white space, one or more a
// line. It returns each once, in order. Of a file beyond the bound the last job may
// be cut short and is left out.
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
