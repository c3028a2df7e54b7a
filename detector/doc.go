// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package detector tells memory that leaks from memory that is merely used.
//
// A Domain takes Frames of one memory, in the order of time, and answers each
// with a Judgement: for the memory as a whole, for every process in it, for
// groups of processes and for what no process accounts for. It knows no GPU,
// driver or metric, imports only the standard library, starts no goroutine and
// reads no clock: the same frames give the same judgements, at any speed.
//
// The method, with its sources and its limits, is in README.md beside this file.
package detector
