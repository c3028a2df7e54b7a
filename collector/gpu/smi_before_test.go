// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestSameByTheRowBefore reads logs by the row before and without it: both are the same, errors and all.
func TestSameByTheRowBefore(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	headers := []string{
		"timestamp, index, uuid, memory.used [MiB], memory.total [MiB]",
		"timestamp, uuid, gpu_uuid, memory.used, memory.free",
		"timestamp, index, memory.used [MiB], memory.used [MiB], mig.mode.current, utilization.gpu [%]",
	}
	values := map[string][]string{
		"index": {"0", "1", "x", "N/A"}, "uuid": {"GPU-a", "GPU-b", "[N/A]", ""}, "mig.mode.current": {"Enabled", "Disabled", "?"},
		"memory": {"100 MiB", "200 MiB", "7", "[N/A]", "1 GiB", "-1 MiB", "99999999 MiB", "123456789 MiB", "1.5 MiB", " MiB"}, "utilization.gpu": {"5 %", "7"},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 2000 {
		header := headers[round%len(headers)]
		// The hour that comes twice in Berlin, and the end of a year.
		at := []time.Time{time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC), time.Date(2026, 12, 31, 23, 58, 0, 0, time.UTC)}[round%2]
		var lines []string
		for range 60 {
			at = at.Add(time.Duration(r.IntN(90_000)) * time.Millisecond)
			form := "2006/01/02 15:04:05.000"
			if r.IntN(20) == 0 {
				form = []string{"2006-01-02 15:04:05.000", time.RFC3339, "2006/01/02 15:04:61.000"}[r.IntN(3)]
			}
			fields := []string{at.In(berlin).Format(form)}
			for name := range strings.SplitSeq(header, ", ") {
				name, _, _ = strings.Cut(name, " ")
				key := strings.TrimPrefix(name, "gpu_")
				if strings.HasPrefix(key, "memory.") {
					key = "memory"
				}
				if of := values[key]; of != nil {
					// Most are as in the row before.
					fields = append(fields, of[min(r.IntN(len(of)), r.IntN(len(of)), r.IntN(len(of)), r.IntN(len(of)))])
				}
			}
			lines = append(lines, strings.Join(fields, ", "))
		}
		if got, want := readings(t, header, lines, berlin, true), readings(t, header, lines, berlin, false); !reflect.DeepEqual(got, want) {
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s\n%s\nby the row before: %s\nwithout:           %s", header, lines[i], got[i], want[i])
				}
			}
		}
	}
}

// readings returns what each line says, or what is wrong with it.
func readings(t *testing.T, header string, lines []string, loc *time.Location, reuse bool) (said []string) {
	t.Helper()
	f, err := newSMIFormat(header, loc)
	if err != nil {
		t.Fatal(err)
	}
	f.(*smiGPUs).reuse = reuse
	for _, line := range lines {
		r, whole, err := f.line(line)
		r.status = nil // the reader of recordings does not return it
		said = append(said, fmt.Sprintf("%+v %t %v", r, whole, err))
	}
	return said
}
