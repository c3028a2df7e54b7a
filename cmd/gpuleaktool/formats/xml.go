// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	// maxDepth bounds how deep elements are nested.
	maxDepth = 32
	// maxText bounds the text of an element that is of use, in bytes.
	maxText = 4 << 10
)

// xmlLog reads the documents that nvidia-smi -q -x writes, one after another as with -l. It keeps
// no more than one document.
type xmlLog struct {
	*log
	documents documents
	path      []string
	text      strings.Builder
	t         time.Duration
	dated     bool
	driver    string
	attached  int       // how many GPUs there are, by the document; it may be asked of some of them
	told      []xmlTold // of the document
	whole     bool      // one was read as a whole
	gpu       *xmlGPU
	lives     map[string]*lives
	decoder   *xml.Decoder
}

// xmlGPU is the GPU that is being read.
type xmlGPU struct {
	info      gpu.Info
	line      int
	memory    gpu.Memory
	mig       gpu.Opt[bool]
	instances []gpu.Instance
	processes []gpu.Process
	known     bool // the processes are told
	// What is being read.
	instance       gpu.Opt[uint32]
	instanceMemory gpu.Memory
	pid            gpu.Opt[uint32]
	kind, name     string
	used           gpu.Opt[uint64]
}

// readXML reads a log of XML documents.
func readXML(l *log) error {
	x := &xmlLog{log: l, lives: map[string]*lives{}, documents: documents{in: bufio.NewReaderSize(l.text, decoderBuffer)}}
	for {
		if err := x.document(); err != nil || !x.documents.next() {
			return err
		}
	}
}

// document reads one document.
func (x *xmlLog) document() error {
	bound := NewGuard(&x.documents)
	x.decoder, x.path, x.told = xml.NewDecoder(bound), nil, nil
	for {
		bound.Reset()
		token, err := x.decoder.Token()
		switch {
		case errors.Is(err, io.EOF) && len(x.path) == 0:
			return nil
		case err != nil && isCut(err):
			x.leaveOut(leftCut, x.line(), "the document ends before it is whole")
			return x.tellCut()
		case isSyntax(err) && x.begun && x.documents.skip():
			x.leaveOut(leftWrong, x.line(), fmt.Sprintf("%v: the rest of the document is of no use", err))
			return x.tellCut()
		case err != nil && !isSyntax(err):
			return x.errorf("%w", err)
		case err != nil:
			return x.errorf("%w: take the part out that is no XML of nvidia-smi -q -x", err)
		}
		if err := x.ctx.Err(); err != nil {
			return err
		}
		if err := x.token(token); err != nil {
			return err
		}
	}
}

// documents reads one document after another of a text, each up to the declaration with which the next one begins: nvidia-smi
// may have been killed inside the one before.
type documents struct {
	in     *bufio.Reader
	ready  []byte // what was read and not yet given out
	after  []byte // the begin of the next document
	begun  bool   // something of the document was read
	inside bool   // its root element was
	lines  int    // that were given out
	base   int    // of these, those before the document
	err    error
}

// Read implements io.Reader. Its error is io.EOF at the end of the document.
func (d *documents) Read(b []byte) (int, error) {
	if len(d.ready) == 0 {
		if d.after != nil {
			return 0, io.EOF
		}
		if d.err != nil {
			return 0, d.err
		}
		d.read()
	}
	n := copy(b, d.ready)
	d.lines += bytes.Count(d.ready[:n], []byte("\n"))
	d.ready = d.ready[n:]
	return n, nil
}

// read makes the next line ready, or as much of it as fits.
func (d *documents) read() {
	line, err := d.in.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		d.err = err
	}
	at := bytes.Index(line, []byte("<?xml"))
	if at < 0 && d.inside { // the declaration may be missing
		at = bytes.Index(line, []byte("<nvidia_smi_log>"))
	}
	if at >= 0 && (d.begun || len(bytes.TrimSpace(line[:at])) > 0) {
		d.ready, d.after = line[:at], bytes.Clone(line[at:])
		return
	}
	d.ready = line
	d.begun = d.begun || len(bytes.TrimSpace(line)) > 0
	d.inside = d.inside || bytes.Contains(line, []byte("<nvidia_smi_log>"))
}

// next goes on to the next document. It returns false if there is none.
func (d *documents) next() bool {
	if d.after == nil {
		return false
	}
	d.ready, d.after, d.begun, d.base = d.after, nil, true, d.lines
	d.inside = bytes.Contains(d.ready, []byte("<nvidia_smi_log>"))
	return true
}

// skip passes over the rest of the document. It returns false if that cannot be read.
func (d *documents) skip() bool {
	_, err := io.Copy(io.Discard, struct{ io.Reader }{d})
	return err == nil
}

func isSyntax(err error) bool {
	_, ok := errors.AsType[*xml.SyntaxError](err)
	return ok
}

// isCut reports whether an error is that of a document that has no end.
func isCut(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	wrong, ok := errors.AsType[*xml.SyntaxError](err)
	return ok && wrong.Msg == "unexpected EOF"
}

func (x *xmlLog) line() int {
	line, _ := x.decoder.InputPos()
	return x.documents.base + line
}

func (x *xmlLog) errorf(form string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", x.name, x.line(), fmt.Errorf(form, args...))
}

// token takes a part of a document.
func (x *xmlLog) token(token xml.Token) error {
	switch part := token.(type) {
	case xml.StartElement:
		if len(x.path) >= maxDepth {
			return x.errorf("elements are nested more than %d deep", maxDepth)
		}
		x.path = append(x.path, part.Name.Local)
		x.text.Reset()
		return x.begin(part)
	case xml.CharData:
		if x.text.Len()+len(part) <= maxText {
			x.text.Write(part)
		}
	case xml.EndElement:
		err := x.end(strings.TrimSpace(x.text.String()))
		x.text.Reset()
		if err != nil {
			return x.errorf("%s: %w", strings.Join(x.path, "/"), err)
		}
		x.path = x.path[:len(x.path)-1]
	}
	return nil
}

// begin takes the begin of an element.
func (x *xmlLog) begin(part xml.StartElement) error {
	switch strings.Join(x.path, "/") {
	case "nvidia_smi_log":
		x.dated, x.attached, x.told, x.driver = false, -1, nil, ""
	case "nvidia_smi_log/gpu":
		if !x.dated {
			return x.errorf("no timestamp before the first GPU: record with nvidia-smi -q -x -l 1")
		}
		x.gpu = &xmlGPU{info: gpu.Info{Index: -1, UUID: gpu.Unnamed, DriverVersion: x.driver}, line: x.line()}
		for _, a := range part.Attr {
			if a.Name.Local == "id" && a.Value != "" {
				x.gpu.info.PCIBusID, x.gpu.info.UUID = a.Value, "pci-"+a.Value
			}
		}
	case "nvidia_smi_log/gpu/processes":
		x.gpu.known = true
	case "nvidia_smi_log/gpu/processes/process_info":
		g := x.gpu
		g.instance, g.pid, g.kind, g.name, g.used = gpu.Opt[uint32]{}, gpu.Opt[uint32]{}, "", "", gpu.Opt[uint64]{}
	case "nvidia_smi_log/gpu/mig_devices/mig_device":
		x.gpu.instance, x.gpu.instanceMemory = gpu.Opt[uint32]{}, gpu.Memory{}
	}
	return nil
}

// end takes the end of an element, and the text in it.
func (x *xmlLog) end(text string) (err error) {
	path := strings.Join(x.path, "/")
	switch path {
	case "nvidia_smi_log/timestamp":
		x.t, err = x.clock.moment(text)
		x.dated = err == nil
		return err
	case "nvidia_smi_log/driver_version":
		x.driver = text
		return nil
	case "nvidia_smi_log/attached_gpus":
		if n, err := parseIndex(text); err == nil {
			x.attached = n
		}
		return nil
	case "nvidia_smi_log/gpu":
		return x.keep()
	case "nvidia_smi_log":
		x.whole = true
		if x.attached == len(x.told) { // in the order of their indices
			for i := range x.told {
				x.told[i].info.Index = i
			}
		}
		return x.tell()
	}
	rest, ok := strings.CutPrefix(path, "nvidia_smi_log/gpu/")
	if !ok {
		return nil
	}
	g := x.gpu
	if at, ok := map[string]*string{"product_name": &g.info.Name, "serial": &g.info.Serial, "vbios_version": &g.info.VBIOSVersion}[rest]; ok {
		if !isAbsent(text) {
			*at = text
		}
		return nil
	}
	switch rest {
	case "uuid":
		if !isAbsent(text) {
			g.info.UUID = text
		}
	case "mig_mode/current_mig":
		if text == "Enabled" || text == "Disabled" {
			g.mig = gpu.Some(text == "Enabled")
		}
	case "processes":
		if isAbsent(text) && len(g.processes) == 0 && text != "" {
			g.known = false
		}
	default:
		return g.part(rest, text)
	}
	return nil
}

// part takes an element of a GPU's memory, MIG devices or processes.
func (g *xmlGPU) part(path, text string) error {
	if name, ok := strings.CutPrefix(path, "fb_memory_usage/"); ok {
		return memoryPart(&g.memory, name, text)
	}
	if name, ok := strings.CutPrefix(path, "mig_devices/mig_device/fb_memory_usage/"); ok {
		return memoryPart(&g.instanceMemory, name, text)
	}
	switch path {
	case "mig_devices/mig_device/gpu_instance_id", "processes/process_info/gpu_instance_id":
		if isAbsent(text) {
			return nil
		}
		id, err := parsePID(text)
		g.instance = gpu.Some(id)
		return err
	case "mig_devices/mig_device":
		if g.instance.OK {
			g.instances = addInstance(g.instances, g.instance.V, usedOf(g.instanceMemory))
		}
	case "processes/process_info/pid":
		id, err := parsePID(text)
		g.pid = gpu.Some(id)
		return err
	case "processes/process_info/type":
		g.kind = text
	case "processes/process_info/process_name":
		g.name = text
	case "processes/process_info/used_memory":
		var err error
		g.used, err = amount(text, 0)
		return err
	case "processes/process_info":
		if !g.pid.OK || len(g.processes) >= maxProcesses {
			return fmt.Errorf("a process without a pid, or more than %d processes", maxProcesses)
		}
		p := newProcess(g.pid.V, g.kind, g.name, g.used)
		p.Instance = g.instance
		g.processes = append(g.processes, p)
	}
	return nil
}

// memoryPart takes an element of a memory.
func memoryPart(m *gpu.Memory, name, text string) error {
	at := map[string]*gpu.Opt[uint64]{"total": &m.Total, "used": &m.Used, "free": &m.Free, "reserved": &m.Reserved}[name]
	if at == nil {
		return nil
	}
	v, err := amount(text, 0)
	*at = v
	return err
}

// xmlTold is what a document tells of a GPU.
type xmlTold struct {
	info   gpu.Info
	sample gpu.Sample
	line   int
}

// keep keeps the GPU that was read until the document ends.
func (x *xmlLog) keep() error {
	g := x.gpu
	if len(x.told) >= maxGPUs {
		return fmt.Errorf("a document of more than %d GPUs", maxGPUs)
	}
	s := gpu.Sample{T: x.t, Memory: usedOf(g.memory), MIGEnabled: g.mig, Instances: g.instances}
	if g.known {
		v := x.lives[g.info.UUID]
		if v == nil {
			v = &lives{}
			x.lives[g.info.UUID] = v
		}
		s.ProcessesKnown, s.Processes = true, v.settle(g.processes)
	}
	x.told = append(x.told, xmlTold{g.info, s, g.line})
	return nil
}

// tellCut hands over what a document tells that is not whole. Before one that is, the indices are not known.
func (x *xmlLog) tellCut() error {
	if !x.whole {
		x.told = nil
	}
	return x.tell()
}

// tell hands over what a document tells.
func (x *xmlLog) tell() error {
	told := x.told
	x.told = nil
	for _, t := range told {
		if err := x.emit(t.info, t.sample, t.line); err != nil {
			return err
		}
	}
	return nil
}
