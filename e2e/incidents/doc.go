// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package incidents plays what befalls a node with GPUs, and counts and times what its on-call is told.
//
// All parts are the real ones: the exporter's sampler, detector and collector; Prometheus's storage, rules and notifier, with
// the shipped rules; Alertmanager's API, dispatcher, inhibitor and webhook, with the example's configuration. They run in a
// bubble of testing/synctest, whose clock goes on when all of them wait: hours take seconds, and two runs tell the same.
//
// Three parts are the test's own. GPUs are a script. A scrape takes what the exporter's registry gathers, every 15 s, and
// stores it as Prometheus would, with the markers of series that are gone. And connections are pipes in memory.
package incidents
