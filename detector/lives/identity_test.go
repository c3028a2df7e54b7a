// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import "testing"

func TestID(t *testing.T) {
	n := NewNamer([]byte("secret"))
	base := Identity{Program: "train.py", Image: "registry/llm@sha256:1", Arguments: []string{"--batch-size", "32"}}
	for _, c := range []struct {
		name       string
		change     func(i *Identity)
		exact, kin bool // the same as that of base
	}{
		{"the same", func(*Identity) {}, true, true},
		{"another batch size", func(i *Identity) { i.Arguments = []string{"--batch-size", "64"} }, false, true},
		{"arguments that are cut elsewhere", func(i *Identity) { i.Arguments = []string{"--batch-size3", "2"} }, false, true},
		{"another version", func(i *Identity) { i.Image = "registry/llm@sha256:2" }, false, true},
		{"another image", func(i *Identity) { i.Image = "registry/other@sha256:1" }, false, false},
		{"another program", func(i *Identity) { i.Program = "serve.py" }, false, false},
		{"a job", func(i *Identity) { i.Job = "nightly" }, false, false},
	} {
		i := base
		c.change(&i)
		a, b := n.ID(base), n.ID(i)
		if (a.Exact == b.Exact) != c.exact || (a.Kin == b.Kin) != c.kin {
			t.Errorf("%s: %+v and %+v", c.name, a, b)
		}
		if b.Exact == b.Kin {
			t.Errorf("%s: the two keys are the same", c.name)
		}
	}
	if id := n.ID(Identity{Image: "registry/llm@sha256:1"}); id != (ID{}) {
		t.Errorf("of no program: %+v", id)
	}
}

func TestSecret(t *testing.T) {
	a, b := NewNamer([]byte("a")), NewNamer([]byte("b"))
	i := Identity{Program: "train.py"}
	if a.ID(i) == b.ID(i) {
		t.Error("another secret, the same key")
	}
	if a.ID(i) != NewNamer([]byte("a")).ID(i) {
		t.Error("the same secret, another key")
	}
}

func TestOnAGPU(t *testing.T) {
	id := NewNamer(nil).ID(Identity{Program: "train.py"})
	a, b := id.On("NVIDIA A100"), id.On("NVIDIA H200")
	if a.Exact == b.Exact || a.Kin != b.Kin || a.Exact == id.Exact || a.Basis.String() != "program, gpu" {
		t.Errorf("%+v, %+v, %+v: %s", id, a, b, a.Basis)
	}
	if id.On("") != id || (ID{}).On("NVIDIA A100") != (ID{}) {
		t.Error("what is not known changes the name")
	}
}
