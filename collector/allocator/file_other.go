// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package allocator

import (
	"errors"
	"os"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// errLinux keeps New from making a Reader, so that the rest is never called.
var errLinux = errors.New("processes can be read on Linux alone")

func memoryFiles() (uint64, error) { return 0, errLinux }

func (*Reader) find(gpu.ProcessID) (*os.File, page, error) { return nil, page{}, errLinux }

func ask(*os.File, uint32, time.Duration) error { return errLinux }

func withdraw(*os.File, uint32) error { return errLinux }

func (*Reader) findAnswer(gpu.ProcessID) (answer, error) { return answer{}, errLinux }

func (*Reader) read(*os.File) (page, error) { return page{}, errLinux }

func (*Reader) unchanged(*os.File, uint64) bool { return false }
