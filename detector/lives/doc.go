// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package lives remembers what programs held in their earlier lives: a pod after each deploy, a job
// each night, a server after each restart. What a healthy program held before is no leak when it
// holds that again, and what grows above that need not be given time.
//
// # Which lives teach
//
// A life teaches what a healthy one holds if it did not leak, if the memory was not full in its end,
// and if its growth had ended by itself: it completed, as the exit code of its container tells, or it
// had settled. A life has settled that was not growing to a new height when it ended, and had not
// risen by more than 3 % in the last fifth of it. So a leaky server that is deployed anew each night
// teaches nothing, as long as its growth is seen. Processes that start within five minutes of each
// other, the ranks of a job, are one life. A life counts for 30 days.
//
// # What they say
//
// The ceiling is 3 % above the most that a life which teaches held at any time, spikes of more than 10 %
// left out. The last lives do not count where three in a row or more each held more than the one before:
// that is a leak which is ended each time before it is seen. Below the ceiling growth is not called a leak
// (below_prior_lives), for six times as long as any of the lives rose, and three hours; and a memory that fills up is no page if all that grows is below its ceiling and fits
// into the memory together. Above the ceiling of three lives or more, growth waits for nothing but --detector.min-span.
// What came below that counts as load, however it came.
//
// A program is known by its image, its arguments and the model of its GPU, too. If that has taught
// nothing yet, what has lived last of another image of the repository, with other arguments or on
// another GPU takes its place: so the leak that a deploy brings is held against the version before it.
//
// # Lives that end in a full memory
//
// A Loop is the chain of the last lives of a pod, a job or a program that grew until the memory was full.
// Three in a row, or two that grew at like rates, are a crash loop: a leak that no life shows by itself.
// It needs no name of the program, and no book: with both it is followed over pods, too, where each life has
// another one. Its lives go into the book as lives that leaked.
//
// # What that costs
//
// A leak that retains less than 3 % of the height in a life is not told. A program that always grows
// until it is ended, and never shows a height, stays as it was. What all this is worth on simulated
// chains of lives is in detector/LIVES.md.
package lives
