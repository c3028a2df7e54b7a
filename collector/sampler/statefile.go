// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/savefile"
)

// stateFile is the kind of file that holds the detector's memory. 16 GPUs with 256 processes each can take 44 MB.
var stateFile = savefile.Kind{Name: "state", Version: 1, Most: 64 << 20}

// secretSize is the length of the secret of a node, in bytes.
const secretSize = 32

// histories is what a state file holds: the detector's memory of all GPUs.
type histories struct {
	// BootID is the kernel's. After a reboot GPUs are empty, and pids with their start ticks may come again: histories of
	// another boot are of no use.
	BootID string `json:"boot_id"`
	// Saved is when the file was written.
	Saved time.Time `json:"saved"`
	// Secret is the key of the hashes that name programs. It is random, and the node's own. It survives a reboot, too.
	Secret []byte `json:"secret,omitempty"`
	// Heights are what programs gave back. They survive a reboot, too.
	Heights []byte          `json:"heights,omitempty"`
	Devices []deviceHistory `json:"devices"`
}

// deviceHistory is the detector's memory of one GPU and its instances.
type deviceHistory struct {
	UUID string `json:"uuid"`
	// Saved is when the history was made. It may be older than the file: an exporter that has no newer one writes it again.
	Saved     time.Time        `json:"saved"`
	Memories  []memoryHistory  `json:"memories"`
	Processes []processHistory `json:"processes,omitempty"`
}

// memoryHistory is that of one memory.
type memoryHistory struct {
	MemoryState
	Domain  []byte         `json:"domain"`
	Finding finding.Memory `json:"finding,omitzero"`
}

// processHistory is the name of a process. If it has ended and its memory stays, nobody else knows its labels. If it lives, the
// rules for its series need its labels before the first sample. The command is not kept, which may hold secrets, nor what it runs.
type processHistory struct {
	PID      uint32          `json:"pid"`
	Start    uint64          `json:"start"`
	Instance gpu.Opt[uint32] `json:"gpu_instance,omitzero"`
	gpu.Owner
	Busy time.Duration `json:"busy,omitempty"` // when it last computed, on the source's clock, ns
}

// write replaces the file by one that holds h. If the exporter is killed meanwhile, the old file or the new one is there.
func (h *histories) write(path string) error {
	body, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	return stateFile.Write(path, body)
}

// readHistories reads a state file. It returns empty histories if there is none.
func readHistories(path string) (*histories, error) {
	body, err := stateFile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &histories{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parseHistories(body)
}

func parseHistories(body []byte) (*histories, error) {
	var h histories
	if err := json.Unmarshal(body, &h); err != nil {
		return nil, fmt.Errorf("state %w: %w", savefile.ErrUnusable, err)
	}
	return &h, nil
}

// bootID returns the kernel's identifier of this boot.
func bootID(procfs string) (string, error) {
	b, err := os.ReadFile(filepath.Join(procfs, "sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// load reads the state file, if one is configured, and returns the histories that go on. It sets aside a file that cannot be
// used, which must not keep an exporter from starting.
func (s *Sampler) load() []deviceHistory {
	if s.cfg.StateFile == "" {
		return nil
	}
	logger := log.With(s.cfg.Logger, "file", s.cfg.StateFile)
	boot, bootErr := bootID(s.cfg.ProcFS)
	s.boot = boot
	h, err := readHistories(s.cfg.StateFile)
	if err == nil && len(h.Secret) == secretSize {
		s.secret = h.Secret
	}
	if err == nil && len(h.Heights) > 0 {
		// The time on the source's clock is not known yet.
		if failed := s.heights.Restore(h.Heights, math.MaxInt64); failed != nil {
			level.Error(logger).Log("msg", "what programs gave back is forgotten", "err", failed)
		}
	}
	switch {
	case savefile.Unreadable(err):
		s.cfg.StateFile = "" // it is not written over
		s.saved.Store(&FileState{})
		level.Error(logger).Log("msg", "judging starts anew, and nothing is saved: the state file may be good", "err", err)
	case err != nil:
		kept, failed := savefile.SetAside(s.cfg.StateFile)
		level.Error(logger).Log("msg", "judging starts anew", "kept_as", kept, "err", errors.Join(err, failed))
	case len(h.Devices) == 0:
	case bootErr != nil || h.BootID != boot:
		level.Info(logger).Log("msg", "judging starts anew: the state file is of another boot", "boot", cmp.Or(boot, fmt.Sprint(bootErr)))
	default:
		level.Info(logger).Log("msg", "going on from the state file", "saved", h.Saved.UTC().Format(time.RFC3339), "gpus", len(h.Devices))
		return h.Devices
	}
	return nil
}

// write writes what the loops have prepared to the state file.
func (s *Sampler) write() {
	if s.cfg.StateFile == "" {
		return
	}
	h := s.histories()
	if len(h.Devices) == 0 {
		return // the driver has not answered yet: keep what an earlier exporter left
	}
	before, now := s.saved.Load(), FileState{Time: h.Saved, Success: true}
	if err := h.write(s.cfg.StateFile); err != nil {
		now = FileState{}
		if before != nil {
			now.Time = before.Time
		}
		if before == nil || before.Success {
			level.Error(s.cfg.Logger).Log("msg", "a restart would lose the histories, will try again", "err", err)
		}
	}
	s.saved.Store(&now)
}

// histories returns what the loops have prepared. If there is any, it adds for a day what an earlier exporter left of GPUs that
// have not shown up yet.
func (s *Sampler) histories() *histories {
	h := &histories{BootID: s.boot, Saved: time.Now(), Secret: s.secret}
	shown := map[string]bool{}
	for _, l := range s.shared.Load().loops {
		shown[l.info.UUID] = true
		if d := l.prepared.Load(); d != nil {
			h.Devices = append(h.Devices, *d)
		}
	}
	if len(h.Devices) == 0 {
		return h
	}
	h.Heights = s.heights.Save()
	for _, d := range s.past {
		if !shown[d.UUID] && time.Since(d.Saved) < rememberDevice {
			h.Devices = append(h.Devices, d)
		}
	}
	return h
}

// revive gives a new loop, which has not been started, the history that an earlier exporter left of its GPU.
func (s *Sampler) revive(l *loop) {
	i := slices.IndexFunc(s.past, func(d deviceHistory) bool { return d.UUID == l.info.UUID && time.Since(d.Saved) < rememberDevice })
	if i < 0 {
		return
	}
	h := &s.past[i]
	if err := l.restore(h); err != nil {
		level.Error(s.cfg.Logger).Log("msg", "judging starts anew", "file", s.cfg.StateFile, "err", err)
		return
	}
	l.prepared.Store(h)
}

// outlives reports whether a process has the same name after a restart. Without a start, another process may have its number.
func outlives(id gpu.ProcessID) bool { return id.Start != 0 }

// history returns the detector's memory of the loop's GPU.
func (l *loop) history() *deviceHistory {
	h := &deviceHistory{UUID: l.info.UUID, Saved: time.Now()}
	for _, m := range l.memories {
		h.Memories = append(h.Memories, memoryHistory{MemoryState: m.MemoryState, Domain: m.domain.Save(nil), Finding: m.finding})
	}
	for key, e := range l.processes.entries {
		p := processHistory{PID: key.id.PID, Start: key.id.Start, Instance: key.instance, Owner: *e.owner, Busy: e.busy}
		p.Command, p.Runs = "", 0
		h.Processes = append(h.Processes, p)
	}
	return h
}

// restore gives the loop the histories that an earlier exporter had of its GPU. On an error it gives none.
func (l *loop) restore(h *deviceHistory) error {
	for _, p := range h.Processes {
		key := processKey{gpu.ProcessID{PID: p.PID, Start: p.Start}, p.Instance}
		l.processes.entries[key] = &processEntry{owner: &p.Owner, busy: p.Busy}
	}
	memories, instances := map[MemoryKey]*memory{}, 0
	for _, in := range h.Memories {
		m := l.newMemory(in.MemoryState)
		memories[in.MemoryKey], m.finding = m, in.Finding
		if in.Instance.OK && !in.IsLimit() {
			instances++
		}
		if err := m.domain.Restore(in.Domain, outlives); err != nil {
			return fmt.Errorf("GPU %s, instance %q: %w", h.UUID, InstanceID(in.Instance), err)
		}
	}
	if memories[wholeGPU] == nil {
		return fmt.Errorf("GPU %s: nothing of its own memory", h.UUID)
	}
	l.memories, l.whole, l.instances = memories, memories[wholeGPU], gpu.Some(instances)
	return nil
}
