// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package detector finds memory that leaks.
//
// A Domain takes Frames of one memory, in the order of time, and answers each
// with a Judgement: on the memory as a whole, on every process in it, on
// groups of processes, and on the residual, which belongs to no process. It knows no GPU,
// driver or metric, imports only the standard library, starts no goroutine and
// reads no clock: the same frames give the same judgements, at any speed.
//
// README.md explains the method and its limits.
package detector
