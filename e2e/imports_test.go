// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

const module = "github.com/gpuleak/gpu_leak_exporter"

// mayImport is who may import what besides the standard library. A name that
// starts with a slash is a package of this repository and stands for itself
// alone; another is a module. It says what the lists of depguard in
// .golangci.yml say, and is checked on what the compiler sees.
var mayImport = map[string][]string{
	"/detector":                  {"/detector/internal/**", "/detector/lives"},
	"/detector/internal/ablate":  {},
	"/detector/internal/process": {"/detector/internal/series", "/detector/internal/stat"},
	"/detector/internal/series":  {"/detector/internal/ablate", "/detector/internal/stat"},
	"/detector/internal/stat":    {},
	"/detector/internal/state":   {},
	"/detector/lives":            {"/detector/internal/process", "/detector/internal/series", "/detector/internal/stat"},
	"/collector/gpu":             {"/detector", "/detector/lives"},
	"/collector/gpu/nvml":        {"/collector/gpu", "/collector/hostfs", "github.com/NVIDIA/go-nvml", "github.com/prometheus/procfs"},
	"/collector/hostfs":          {"golang.org/x/sys"},
	"/collector/workload":        {"/collector/gpu", "/collector/hostfs", "/detector/lives", "github.com/prometheus/procfs", "k8s.io/cri-api", "k8s.io/kubelet", "google.golang.org/grpc"},
	"/collector/allocator":       {"/collector/gpu", "/collector/hostfs", "golang.org/x/sys"},
	"/collector/savefile":        {"github.com/google/renameio/v2"},
	"/collector": {
		"/collector/allocator", "/collector/gpu", "/collector/hostfs", "/collector/savefile", "/collector/workload", "/detector", "/detector/lives",
		"github.com/prometheus/client_golang", "github.com/prometheus/client_model", "github.com/go-kit/log",
		"github.com/prometheus/common/expfmt", "github.com/prometheus/common/model",
	},
	// The driver and the owners too: the tool records what the exporter samples.
	"/cmd/internal": {
		"/cmd/internal/**", "/detector", "/detector/lives", "/collector/allocator", "/collector/gpu", "/collector/gpu/nvml", "/collector/savefile", "/collector/workload",
		"github.com/prometheus/alertmanager/pkg/labels", "github.com/prometheus/client_golang/api", "github.com/prometheus/client_golang/prometheus",
		"github.com/go-kit/log", "github.com/prometheus/common", "go.yaml.in/yaml",
	},
	// What the exporter and the tool say of a state.
	"/cmd/internal/verdicts":           {},
	"/cmd/internal/verdicts/fromstate": {"/cmd/internal/humanize", "/cmd/internal/verdicts", "/detector", "/collector", "/collector/gpu"},
	"/cmd/gpuleaktool/watch":           {"/cmd/internal/humanize", "/cmd/internal/verdicts", "/cmd/internal/withheld", "/cmd/internal/wording", "/detector"},
	"/cmd/gpuleaktool": {
		"/cmd/internal/**", "/cmd/gpuleaktool/**", "/detector", "/detector/lives", "/collector", "/collector/allocator", "/collector/gpu", "github.com/alecthomas/kingpin",
		"github.com/prometheus/client_golang/api", "github.com/prometheus/client_model", "github.com/prometheus/common", "github.com/prometheus/procfs", "go.yaml.in/yaml",
		"golang.org/x/term", "golang.org/x/text/encoding/unicode", "golang.org/x/text/transform",
	},
	"/cmd/gpu_leak_exporter": {
		"/cmd/internal/**", "/cmd/gpu_leak_exporter/**", "/detector", "/detector/lives", "/collector", "/collector/**", "github.com/NVIDIA/go-nvml",
		"github.com/KimMachineGun/automemlimit/memlimit", "github.com/alecthomas/kingpin", "github.com/go-kit/log", "github.com/prometheus/client_golang",
		"github.com/prometheus/client_model", "github.com/prometheus/common", "github.com/prometheus/exporter-toolkit",
		"github.com/prometheus/procfs", "github.com/tjhop/slog-gokit", "golang.org/x/sys", "go.yaml.in/yaml",
	},
	// A page knows no flag and no limit, and what bounds clients knows nothing of what they ask for.
	"/cmd/gpu_leak_exporter/internal/pages": {
		"/cmd/internal/**", "/detector", "/collector", "/collector/allocator", "/collector/gpu", "github.com/prometheus/common/version",
	},
	"/cmd/gpu_leak_exporter/internal/limits": {
		"github.com/prometheus/client_golang", "github.com/prometheus/common/expfmt", "golang.org/x/sync/singleflight", "golang.org/x/sys",
	},
}

// e2eMayImport is which packages of the exporter a package of the end-to-end
// tests may import. The others know the binaries and the files, not the code.
var e2eMayImport = map[string][]string{
	"/e2e/oracle": {"/detector"},
	// What the exporter exports, in simulated time.
	"/e2e/incidents": {"/collector", "/collector/gpu", "/detector", "/detector/lives"},
	// What is measured, and what it is fed by.
	"/e2e/bench":           {"/detector", "/detector/lives", "/collector/gpu"},
	"/e2e/bench/fleet":     {"/collector/gpu", "/detector/lives"},
	"/e2e/bench/incidents": {"/collector/gpu"},
}

// testsMayImport is what the tests of any package may import as well.
var testsMayImport = []string{"go.uber.org/goleak", "github.com/prometheus/common/expfmt"}

// moreForTests is what the tests of some packages may import besides: the schedules of faults have the driver's source
// and what samples it live through them together.
var moreForTests = map[string][]string{
	"/collector/gpu/nvml": {"/collector", "/detector", "github.com/prometheus/client_golang"},
}

// rule returns the package of mayImport whose rule holds for a package: itself,
// or for what lies below cmd the closest one above it.
func rule(pkg string) (string, bool) {
	for p := pkg; strings.HasPrefix(p, "/"); p = p[:strings.LastIndex(p, "/")] {
		if _, ok := mayImport[p]; ok && (p == pkg || strings.HasPrefix(p, "/cmd/")) {
			return p, true
		}
	}
	return "", false
}

// allowed reports whether list lets a package import path.
func allowed(pkg, path string, list []string) bool {
	first, _, _ := strings.Cut(path, "/")
	if !strings.Contains(first, ".") {
		return path != "os/exec" // the standard library; no other program is started
	}
	own, isOwn := strings.CutPrefix(path, module)
	if own == pkg {
		return true // a test of the package from outside
	}
	return slices.ContainsFunc(list, func(entry string) bool {
		if isOwn {
			below, ok := strings.CutSuffix(entry, "/**")
			return own == entry || (ok && (own == below || strings.HasPrefix(own, below+"/")))
		}
		return path == entry || strings.HasPrefix(path, entry+"/")
	})
}

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// goList lists the packages of the module in dir.
func goList(t *testing.T, dir string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-tags=e2e", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func TestImports(t *testing.T) {
	for _, p := range goList(t, harness.Root()) {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		r, ok := rule(pkg)
		if !ok {
			t.Errorf("package %s has no rule: say here and in .golangci.yml what it may import", pkg)
			continue
		}
		for _, path := range p.Imports {
			if !allowed(pkg, path, mayImport[r]) {
				t.Errorf("%s imports %s", pkg, path)
			}
		}
		for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
			if path != "os/exec" && !allowed(pkg, path, slices.Concat(mayImport[r], testsMayImport, moreForTests[pkg])) {
				t.Errorf("a test of %s imports %s", pkg, path)
			}
		}
	}
	for _, p := range slices.Concat(goList(t, filepath.Join(harness.Root(), "e2e")), goList(t, filepath.Join(harness.Root(), "e2e", "bench"))) {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			own, isOwn := strings.CutPrefix(path, module)
			if isOwn && own != "/e2e" && !strings.HasPrefix(own, "/e2e/") && !slices.Contains(e2eMayImport[pkg], own) {
				t.Errorf("%s imports %s: it is not in e2eMayImport", pkg, path)
			}
		}
	}
}

// The detector and its tests start no goroutine and share nothing with one: `make test`
// runs them without the race detector.
func TestDetectorStartsNoGoroutine(t *testing.T) {
	var files []string
	for _, dir := range []string{"detector", "detector/internal/series"} {
		found, err := filepath.Glob(filepath.Join(harness.Root(), dir, "*.go"))
		if err != nil || len(found) == 0 {
			t.Fatal(dir, found, err)
		}
		files = append(files, found...)
	}
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := concurrent(t, filepath.Base(path), src); len(found) > 0 {
			t.Errorf("run %s with -race in the Makefile, or do without: %s", filepath.Dir(path), found)
		}
	}
	const all = "package p\nimport \"sync\"\nfunc f(t *testing.T) { go f(t); t.Parallel() }"
	if found := concurrent(t, "all", []byte(all)); len(found) != 3 {
		t.Errorf("found only %s", found)
	}
}

// concurrent lists where a file has a go statement, a test beside others or what
// goroutines need.
func concurrent(t *testing.T, name string, src []byte) (found []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		is := false
		switch n := n.(type) {
		case *ast.GoStmt:
			is = true
		case *ast.ImportSpec:
			is = strings.HasPrefix(n.Path.Value, `"sync`)
		case *ast.SelectorExpr:
			is = n.Sel.Name == "Parallel"
		}
		if is {
			found = append(found, files.Position(n.Pos()).String())
		}
		return true
	})
	return found
}

// The check has to refuse what it is for.
func TestImportsRefuse(t *testing.T) {
	for pkg, paths := range map[string][]string{
		"/detector":              {"github.com/go-kit/log", module + "/collector/gpu", "os/exec"},
		"/collector/gpu":         {module + "/collector/gpu/nvml", module + "/collector", "github.com/NVIDIA/go-nvml/pkg/nvml"},
		"/collector/gpu/nvml":    {module + "/collector", module + "/detector", "github.com/alecthomas/kingpin/v2"},
		"/collector/workload":    {module + "/collector", "github.com/alecthomas/kingpin/v2"},
		"/collector":             {module + "/collector/gpu/nvml", "github.com/alecthomas/kingpin/v2", "github.com/prometheus/exporter-toolkit/web"},
		"/cmd/internal/plot":     {module + "/collector", "github.com/alecthomas/kingpin/v2", "github.com/prometheus/alertmanager/config"},
		"/cmd/gpuleaktool":       {module + "/collector/workload", module + "/cmd/gpu_leak_exporter/page", "github.com/NVIDIA/go-nvml/pkg/nvml"},
		"/cmd/gpu_leak_exporter": {module + "/cmd/gpuleaktool/x", "github.com/prometheus/prometheus/promql", "os/exec"},

		"/cmd/gpu_leak_exporter/internal/pages":  {module + "/cmd/gpu_leak_exporter/internal/limits", "github.com/prometheus/client_golang/prometheus"},
		"/cmd/gpu_leak_exporter/internal/limits": {module + "/cmd/gpu_leak_exporter/internal/pages", module + "/collector"},
	} {
		r, ok := rule(pkg)
		if !ok {
			t.Errorf("package %s has no rule", pkg)
		}
		for _, path := range paths {
			if allowed(pkg, path, mayImport[r]) {
				t.Errorf("%s may import %s", pkg, path)
			}
		}
	}
	if _, ok := rule("/collector/gpu/other"); ok {
		t.Error("a new package below collector got the rule of another")
	}
}
