// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Bounds for files that went wrong: nobody runs that many jobs on a GPU.
const (
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
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the job mapping files: %w (is --collector.workload.job-mapping-dir the directory that the batch system writes to?)", err)
	}
	jobs := Jobs{}
	var errs []error
	for _, e := range entries {
		if !e.Type().IsRegular() || !jobFile.MatchString(e.Name()) {
			continue
		}
		file, err := readJobFile(e, filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read a job mapping file: %w", err))
		}
		jobs[e.Name()] = file
	}
	return jobs, errors.Join(errs...)
}

func readJobFile(e fs.DirEntry, path string) (JobFile, error) {
	info, err := e.Info()
	if err != nil {
		return JobFile{}, err
	}
	if info.Size() > maxJobFileSize {
		return JobFile{}, fmt.Errorf("%s has %d bytes", path, info.Size())
	}
	b, err := os.ReadFile(path)
	return JobFile{parseJobs(b), info.ModTime()}, err
}

// parseJobs parses a mapping file: jobs separated by white space. It returns each once, in order.
func parseJobs(b []byte) []string {
	var jobs []string
	for word := range strings.FieldsSeq(string(b)) {
		if job := label(word, maxLabel); job != "" && !slices.Contains(jobs, job) && len(jobs) < maxJobsPerGPU {
			jobs = append(jobs, job)
		}
	}
	return jobs
}
