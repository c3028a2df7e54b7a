// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// stateFormat begins the first line of a state file, which ends with the
// checksum of what follows it.
const stateFormat = "gpu_leak_exporter state v1 crc32c="

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// histories is what a state file holds: the detector's memory of all GPUs.
type histories struct {
	// BootID is the kernel's. Pids and their start ticks repeat after a reboot,
	// and GPUs are empty then: another boot's histories are nobody's.
	BootID string `json:"boot_id"`
	// Saved is when the file was written.
	Saved   time.Time       `json:"saved"`
	Devices []deviceHistory `json:"devices"`
}

// deviceHistory is the detector's memory of one GPU and its instances.
type deviceHistory struct {
	UUID      string            `json:"uuid"`
	Domain    []byte            `json:"domain"`
	Instances []instanceHistory `json:"instances,omitempty"`
}

type instanceHistory struct {
	ID      uint32 `json:"gpu_instance"`
	Profile string `json:"profile"`
	Domain  []byte `json:"domain"`
}

// write replaces the file by one that holds h: whoever is killed meanwhile leaves
// the old one or the new.
func (h *histories) write(path string) error {
	body, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	head := fmt.Sprintf("%s%08x\n", stateFormat, crc32.Checksum(body, castagnoli))
	if err := renameio.WriteFile(path, append([]byte(head), body...), 0o600); err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	return nil
}

// readHistories reads a state file. One that does not exist is empty. The error
// says what to do about a file that is none of ours.
func readHistories(path string) (*histories, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &histories{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state file: %w", err)
	}
	return parseHistories(path, b)
}

func parseHistories(path string, b []byte) (*histories, error) {
	head, body, _ := bytes.Cut(b, []byte("\n"))
	if !strings.HasPrefix(string(head), stateFormat) {
		return nil, fmt.Errorf("%s is not a state file of this version: remove it or name another one", path)
	}
	if want := fmt.Sprintf("%s%08x", stateFormat, crc32.Checksum(body, castagnoli)); string(head) != want {
		return nil, fmt.Errorf("%s is damaged (its checksum does not match): remove it", path)
	}
	var h histories
	if err := json.Unmarshal(body, &h); err != nil {
		return nil, fmt.Errorf("%s is damaged: remove it: %w", path, err)
	}
	return &h, nil
}

// bootID returns the kernel's identifier of this boot; "" where it is not known.
func bootID(procfs string) string {
	b, err := os.ReadFile(filepath.Join(procfs, "sys/kernel/random/boot_id"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// appendProcessID and readProcessID code the name of a detector's member.
func appendProcessID(b []byte, id gpu.ProcessID) []byte {
	b = binary.BigEndian.AppendUint32(b, id.PID)
	return binary.BigEndian.AppendUint64(b, id.Start)
}

func readProcessID(b []byte) (gpu.ProcessID, bool) {
	if len(b) != 12 {
		return gpu.ProcessID{}, false
	}
	id := gpu.ProcessID{PID: binary.BigEndian.Uint32(b), Start: binary.BigEndian.Uint64(b[4:])}
	// Without a start it may be another process of that number by now.
	return id, id.Start != 0
}

// history returns the detector's memory of the loop's GPU.
func (l *loop) history() *deviceHistory {
	h := &deviceHistory{UUID: l.info.UUID, Domain: l.domain.Save(nil, appendProcessID)}
	for key, d := range l.instances {
		h.Instances = append(h.Instances, instanceHistory{ID: key.id, Profile: key.profile, Domain: d.Save(nil, appendProcessID)})
	}
	return h
}

// restore gives the loop the memory that an earlier exporter had of its GPU.
func (l *loop) restore(h *deviceHistory) error {
	if err := l.domain.Restore(h.Domain, readProcessID); err != nil {
		return fmt.Errorf("GPU %s: %w", h.UUID, err)
	}
	for _, in := range h.Instances {
		d := l.sampler.newDomain()
		if err := d.Restore(in.Domain, readProcessID); err != nil {
			return fmt.Errorf("GPU %s, instance %d: %w", h.UUID, in.ID, err)
		}
		l.instances[instanceKey{in.ID, in.Profile}] = d
	}
	return nil
}
