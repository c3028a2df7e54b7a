// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// testPage writes a page as probe/README.md lays it out.
func testPage(sequence, start uint64, records ...Record) []byte {
	le := binary.LittleEndian
	b := make([]byte, 4096)
	copy(b, "GPULEAK\x00")
	le.PutUint16(b[8:], 1)
	le.PutUint16(b[10:], 192)
	le.PutUint64(b[16:], sequence)
	le.PutUint64(b[24:], start)
	le.PutUint32(b[32:], uint32(len(records)))
	for i, r := range records {
		if i == 16 {
			break
		}
		d, a := b[64+192*i:], r.Allocator
		copy(d, r.UUID)
		copy(d[48:], a.Framework)
		copy(d[64:], a.Version)
		copy(d[96:], a.Backend)
		valid := uint32(0)
		for bit, n := range []gpu.Opt[uint64]{a.Allocated, a.Reserved, a.Active, a.InactiveSplit, a.Retries, a.OOMs, a.Limit} {
			if n.OK {
				valid |= 1 << bit
			}
			le.PutUint64(d[136+8*bit:], n.V)
		}
		le.PutUint32(d[128:], valid)
	}
	return sum(b)
}

// refusing adds the last refusal to a page.
func refusing(b []byte, refusal string) []byte {
	copy(b[3136:4032], refusal)
	return sum(b)
}

func sum(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:4032]))
	return b
}

func torch(uuid string, allocated, reserved uint64) Record {
	return Record{UUID: uuid, Allocator: gpu.Allocator{Framework: "torch", Version: "2.9.0+cu130", Backend: "native", Allocated: gpu.Some(allocated), Reserved: gpu.Some(reserved)}}
}

func TestParsePage(t *testing.T) {
	full := Record{UUID: "0b2f", Allocator: gpu.Allocator{
		Framework: "torch", Version: "2.9.0", Backend: "cudaMallocAsync", Allocated: gpu.Some(uint64(1)), Reserved: gpu.Some(uint64(9)),
		Active: gpu.Some(uint64(3)), InactiveSplit: gpu.Some(uint64(4)), Retries: gpu.Some(uint64(50)), OOMs: gpu.Some(uint64(60)), Limit: gpu.Some(uint64(70)),
	}}
	prefixed, hostile := full, full
	prefixed.UUID = "MIG-0B2F"
	hostile.Allocator.Framework = "a\"b\n\xffc"
	cleaned := full
	cleaned.Allocator.Framework = "a_b__c"
	for name, c := range map[string]struct{ in, want Record }{
		"all that there is":      {full, full},
		"some of it":             {torch("", 0, 5), torch("", 0, 5)},
		"a UUID with its prefix": {prefixed, full},
		"what is no name":        {hostile, cleaned},
	} {
		got, err := parsePage(testPage(7, 8, c.in)[:written])
		if want := (page{sequence: 7, start: 8, records: []Record{c.want}}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
}

func TestParsePageRefuses(t *testing.T) {
	change := func(at int, to byte) []byte {
		b := testPage(7, 8, torch("a", 1, 2))
		b[at] = to
		return sum(b)
	}
	torn := testPage(7, 8, torch("a", 1, 2))
	torn[64+136]++
	for name, c := range map[string]struct {
		page []byte
		want string
	}{
		"nothing":                      {nil, "no page"},
		"a short file":                 {testPage(1, 1)[:written-1], "no page"},
		"another file":                 {change(0, 'X'), "no page"},
		"a later layout":               {change(8, 2), "version 2"},
		"records of another size":      {change(10, 8), "records of 8 bytes"},
		"too many records":             {testPage(1, 1, make([]Record, 17)...), "17 records"},
		"a record without a framework": {change(64+48, 0), "no framework"},
		"more than is reserved":        {testPage(1, 1, torch("a", 3, 2)), "3 bytes of 2"},
		"half of another writing":      {torn, errTorn.Error()},
		"a refusal that is cut":        {refusing(testPage(1, 1), `{"time":1,`), "its refusal"},
	} {
		if _, err := parsePage(c.page[:min(len(c.page), written)]); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := parsePage(torn[:written]); !errors.Is(err, errTorn) {
		t.Errorf("a torn page: %v", err)
	}
}

// FuzzParsePage has any process write any page: whatever is taken holds together.
func FuzzParsePage(f *testing.F) {
	f.Add(testPage(1, 2, torch("GPU-a", 1, 2), torch("", 5, 5))[:written])
	f.Add(testPage(1, 2)[:written])
	f.Add(refusing(testPage(1, 2), `{"time":1790000000,"uuid":"GPU-0B","asked":5,"lines":[{"line":"a.py:1 f","bytes":3},{}]}`)[:written])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == written {
			b = sum(append([]byte(nil), b...))
		}
		p, err := parsePage(b)
		if err != nil {
			return
		}
		if len(p.records) > maxRecords {
			t.Fatalf("%d records", len(p.records))
		}
		if r := p.refusal; r != nil && (len(r.Lines) > maxSites || len(r.UUID) > 48*3 || strings.ContainsAny(fmt.Sprint(r.UUID, r.Lines), "\n\x00")) {
			t.Fatalf("refusal %+v", r)
		}
		for _, r := range p.records {
			a := r.Allocator
			if a.Framework == "" || len(a.Framework)+len(a.Version)+len(a.Backend)+len(r.UUID) > 128 || strings.ContainsAny(a.Framework+a.Version+a.Backend, "\"\n\x00") {
				t.Fatalf("names %+v", r)
			}
			if a.Reserved.OK && a.Allocated.OK && a.Allocated.V > a.Reserved.V {
				t.Fatalf("%+v", a)
			}
		}
	})
}
