// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fakenvml

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Write puts the node's script at path, whole at once, so that a library that reads it takes effect with its next call.
func (n *Node) Write(path string) error {
	text, err := n.script()
	if err != nil {
		return err
	}
	temp := path + ".new"
	if err := os.WriteFile(temp, text, 0o644); err != nil {
		return fmt.Errorf("write script: %w", err)
	}
	// The kernel's stamps are coarse and inodes come back: a stamp of our own makes each script another file.
	now := time.Now()
	if err := os.Chtimes(temp, now, now); err != nil {
		return fmt.Errorf("write script: %w", err)
	}
	return os.Rename(temp, path)
}

// script renders the node in the format that c/script.c describes.
func (n *Node) script() ([]byte, error) {
	if len(n.GPUs) > MaxGPUs {
		return nil, fmt.Errorf("script: %d GPUs are more than %d", len(n.GPUs), MaxGPUs)
	}
	w := &scriptWriter{}
	w.line("fakenvml", 1)
	w.line("driver", n.Driver)
	w.line("cuda", n.CUDA)
	w.line("epoch", fmt.Sprintf("%d.%09d", n.Epoch.Unix(), n.Epoch.Nanosecond()))
	if n.EnumerateAtInit {
		w.line("enumerate", "init")
	}
	for _, f := range n.Faults {
		w.line(f)
	}
	for i := range n.GPUs {
		for _, call := range n.GPUs[i].Unsupported {
			w.line(Fail(call, NotSupported).On(n.GPUs[i].UUID))
		}
	}
	for i := range n.GPUs {
		w.gpu(&n.GPUs[i])
	}
	return w.Bytes(), w.err
}

type scriptWriter struct {
	bytes.Buffer
	err error
}

// line writes words; a text that would be more than one line is an error.
func (w *scriptWriter) line(words ...any) {
	for i, word := range words {
		if i > 0 {
			w.WriteByte(' ')
		}
		if yes, is := word.(bool); is {
			word = bit(yes)
		}
		text := fmt.Sprint(word)
		if strings.ContainsAny(text, "\n\x00") {
			w.err = fmt.Errorf("script: %q does not fit on a line", text)
		}
		w.WriteString(text)
	}
	w.WriteByte('\n')
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// String is the ramp in the script: base, rate per second.
func (r Ramp) String() string {
	return strconv.FormatUint(r.Base, 10) + " " + strconv.FormatFloat(r.Rate, 'g', -1, 64)
}

func (w *scriptWriter) gpu(g *GPU) {
	if strings.ContainsAny(g.UUID, " ") || g.UUID == "" {
		w.err = fmt.Errorf("script: %q is no UUID", g.UUID)
	}
	w.line("gpu", g.UUID)
	w.identity(g)
	w.line("memory", g.Memory.Total, g.Memory.Reserved, g.Memory.AddProcesses, g.Memory.Used)
	w.line("bar1", g.BAR1Total, g.BAR1Used)
	u := g.Utilization
	w.line("utilization", u.SM, u.Memory, u.Encoder, u.Decoder, u.JPEG, u.OFA)
	w.thermal(g)
	w.power(g)
	w.ecc(g)
	w.links(g)
	w.fields(g)
	w.processes(g)
	for _, folder := range sortedKeys(g.Limits) {
		w.line("limit", g.Limits[folder], folder)
	}
	for _, e := range g.Events {
		w.line("event", e.Seq, e.Type, e.Data)
	}
	w.mig(&g.MIG)
}

func (w *scriptWriter) identity(g *GPU) {
	w.line("name", g.Name)
	w.line("serial", g.Serial)
	w.line("vbios", g.VBIOS)
	w.line("bus_id", g.BusID)
	w.line("minor", g.Minor)
	w.line("architecture", g.Architecture)
	w.line("lost", g.Lost)
	w.line("hidden", g.Hidden)
	w.line("addressing", g.Addressing)
}

func (w *scriptWriter) thermal(g *GPU) {
	w.line("temperature", g.Temperature)
	if g.Margin != nil {
		w.line("margin", *g.Margin)
	}
	for _, kind := range sortedKeys(g.Thresholds) {
		w.line("threshold", uint32(kind), g.Thresholds[kind])
	}
	for _, percent := range g.Fans {
		w.line("fan", percent)
	}
	w.line("reasons", g.ClockReasons, g.SupportedReasons)
}

func (w *scriptWriter) power(g *GPU) {
	w.line("power", g.Power)
	w.line("energy", g.Energy)
	l := g.PowerLimits
	w.line("power_limits", l.Limit, l.Default, l.Enforced, l.Min, l.Max)
	w.line("pstate", g.PState)
	w.line("clocks", g.Clocks.Graphics, g.Clocks.SM, g.Clocks.Memory, g.Clocks.Video)
	w.line("max_clocks", g.MaxClocks.Graphics, g.MaxClocks.SM, g.MaxClocks.Memory, g.MaxClocks.Video)
}

func (w *scriptWriter) ecc(g *GPU) {
	w.line("ecc_mode", g.ECC.Enabled, g.ECC.Pending)
	keys := slices.SortedFunc(maps.Keys(g.ECC.Errors), func(a, b ECCKey) int {
		return cmp.Or(bit(a.Uncorrected)-bit(b.Uncorrected), bit(a.Aggregate)-bit(b.Aggregate), int(a.Location)-int(b.Location))
	})
	for _, k := range keys {
		w.line("ecc", k.Uncorrected, k.Aggregate, k.Location, g.ECC.Errors[k])
	}
	r := g.RemappedRows
	w.line("remapped", r.Corrected, r.Uncorrected, r.Pending, r.Failed)
	for _, p := range g.RetiredPages {
		w.line("retired", p.Cause, p.Address)
	}
	w.line("retired_pending", g.RetiredPending)
	w.line("recovery", g.RecoveryAction)
}

func (w *scriptWriter) links(g *GPU) {
	p := g.PCIe
	w.line("pcie", p.Generation, p.MaxGeneration, p.Width, p.MaxWidth, p.Replays)
	for _, i := range sortedKeys(g.NVLinks) {
		l := g.NVLinks[i]
		w.line("link", i, l.Active, l.Replay, l.Recovery, l.CRCFlit, l.CRCData, l.ECCData)
	}
}

func (w *scriptWriter) fields(g *GPU) {
	keys := slices.SortedFunc(maps.Keys(g.Fields), func(a, b FieldKey) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Scope, b.Scope))
	})
	for _, k := range keys {
		w.line("field", k.ID, k.Scope, g.Fields[k].Type, g.Fields[k].Value)
	}
}

func (w *scriptWriter) processes(g *GPU) {
	for i := range g.Processes {
		p := &g.Processes[i]
		gpuInstance, computeInstance := p.Instance, 0
		if p.Instance == 0 {
			gpuInstance, computeInstance = math.MaxUint32, math.MaxUint32
		}
		w.line("process", p.list(), p.PID, gpuInstance, computeInstance, p.Memory)
		if u := p.Utilization; u != nil {
			w.line("sample", p.PID, u.SM, u.Memory, u.Encoder, u.Decoder, u.JPEG, u.OFA)
		}
	}
}

func (w *scriptWriter) mig(m *MIG) {
	w.line("mig", m.Enabled, m.Pending, m.MaxDevices)
	for _, p := range m.Profiles {
		w.line("profile", p.Number, p.Slices, p.MemoryMB, p.Name)
	}
	for _, i := range m.Instances {
		if i.ID == math.MaxUint32 {
			w.err = fmt.Errorf("script: GPU instance %d: all ones is no instance", i.ID)
		}
		w.line("instance", i.ID, i.Profile, i.Memory.Total, i.Memory.Reserved, i.Memory.AddProcesses, i.Memory.Used)
		for _, d := range i.Devices {
			w.line("device", d.Index, i.ID, d.ComputeInstance, d.Slices, d.Multiprocessors, d.UUID)
		}
	}
}
