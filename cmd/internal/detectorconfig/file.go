// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detectorconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// maxRules is how many rules a file may have: every new process asks all.
	maxRules = 1000
	// maxSelectors is how many a rule may have.
	maxSelectors = 100
	// maxErrors is how many errors of a file are told.
	maxErrors = 100
	// maxText is how long an error may be.
	maxText = 600
)

// Options say what the rules of a file are held against.
type Options struct {
	// Base are the settings of the flags, which hold where no rule says otherwise.
	Base detector.Config
	// MinWindow is the shortest window that holds enough samples; 0 if that is not
	// known.
	MinWindow time.Duration
	// Places are more labels that tell where in a fleet a GPU is.
	Places []string
}

// SamplesPerWindow is how many samples a window must hold at least: fewer make no slope.
const SamplesPerWindow = 10

// Load reads the file of that name. The error has a line, FILE:LINE: text, for all that is wrong in it.
func Load(path string, o Options) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text, o)
}

// Parse reads the text of a file; name is what errors call it.
func Parse(name string, text []byte, o Options) (*Config, error) {
	p := &parser{file: name, options: o, config: New(o.Base)}
	p.document(text)
	if len(p.errors) > 0 {
		return nil, errors.Join(p.errors...)
	}
	return p.config, nil
}

// parser turns a file into a Config.
type parser struct {
	file    string
	options Options
	config  *Config
	errors  []error
}

func (p *parser) fail(line int, format string, args ...any) {
	if len(p.errors) < maxErrors {
		p.errors = append(p.errors, fmt.Errorf("%s:%d: %s", p.file, line, cli.Printable(fmt.Sprintf(format, args...), maxText)))
	}
}

// document reads the one document of the file.
func (p *parser) document(text []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	err := decoder.Decode(&doc)
	if err == nil && len(doc.Content) == 1 {
		p.top(doc.Content[0])
		err = decoder.Decode(&more)
		if err == nil {
			p.fail(more.Line, "there is a second document: a file has one")
		}
	} else if err == nil || errors.Is(err, io.EOF) {
		p.fail(1, "is empty: for a file without rules write groups: []")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		line, what := yamlError(err)
		p.fail(max(line, brokenLine(text)), "is no YAML: %s", what)
	}
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// yamlError returns the line and the text of an error of the YAML library.
func yamlError(err error) (line int, text string) {
	text, line = strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	return line, strings.Join(strings.Fields(text), " ")
}

// brokenLine returns the line with which a text ceases to be YAML: the library names the line
// where the block around it begins, which may be the first one of the file. Within brackets
// or quotes over several lines it may be any of those.
func brokenLine(text []byte) int {
	lines := bytes.SplitAfter(text, []byte("\n"))
	ends, end := make([]int, len(lines)), 0
	for i, l := range lines {
		end += len(l)
		ends[i] = end
	}
	return 1 + sort.Search(len(ends)-1, func(i int) bool {
		var n yaml.Node
		return yaml.Unmarshal(text[:ends[i]], &n) != nil
	})
}

// field is what a key of a mapping says.
type field struct {
	key  string
	line int
	node *yaml.Node
}

// fields returns what the keys of a mapping say; what is not one of the known
// keys, or is there twice, is an error.
func (p *parser) fields(n *yaml.Node, what string, known []string) (list []field) {
	if n.Kind != yaml.MappingNode {
		p.fail(n.Line, "%s must be a mapping with %s", what, strings.Join(known, ", "))
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		switch {
		case !slices.Contains(known, key.Value):
			p.fail(key.Line, "unknown key %q: %s can have %s", key.Value, what, strings.Join(known, ", "))
		case slices.ContainsFunc(list, func(f field) bool { return f.key == key.Value }):
			p.fail(key.Line, "%s is given twice", key.Value)
		default:
			list = append(list, field{key.Value, key.Line, value})
		}
	}
	return list
}

// items returns the entries of a list.
func (p *parser) items(f field) (list []*yaml.Node) {
	if f.node.Kind != yaml.SequenceNode {
		p.fail(f.line, "%s must be a list", f.key)
		return nil
	}
	for _, n := range f.node.Content {
		list = append(list, resolve(n))
	}
	return list
}

// text returns a value that is neither a mapping nor a list, nor nothing at all.
func (p *parser) text(line int, key string, n *yaml.Node) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		p.fail(line, "%s has no value, or one that is not a plain text or number", key)
		return "", false
	}
	return n.Value, true
}

// resolve follows an alias to its anchor.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
