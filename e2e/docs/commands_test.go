// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
)

// A proof says why a command in the documentation can be trusted.
type proof struct {
	test   string // the test that runs it, or what it does; it must exist
	reason string // why none can
}

// proofs are the commands that users are told to run, on the pages that they read first.
var proofs = map[string]proof{
	"make demo":          {test: "TestDemo"},
	"make demo-stack":    {test: "TestDemoStack"},
	"make build":         {reason: ".ci/run runs it"},
	"make test":          {reason: "it runs this"},
	"make lint":          {reason: ".ci/run runs it"},
	"make e2e":           {reason: ".ci/run runs it"},
	"make size":          {reason: ".ci/run runs it"},
	"make ci-nightly":    {reason: "it runs the tests that take long"},
	"make check-cluster": {test: "TestCluster"},
	"make format":        {reason: "make lint says where it would change something"},

	"apt install ./gpu-leak-exporter_0.1.0-1_amd64.deb":             {test: "TestReleaseDeb"},
	"dnf install ./gpu-leak-exporter-0.1.0-1.x86_64.rpm":            {reason: "needs Fedora; rpm has installed it once, by hand"},
	"tar xf gpu_leak_exporter-0.1.0.linux-amd64.tar.gz":             {test: "TestReleaseUnpacked"},
	"cd gpu_leak_exporter-0.1.0.linux-amd64":                        {test: "TestReleaseUnpacked"},
	"tar xf gpuleaktool-0.1.0.darwin-arm64.tar.gz":                  {test: "TestReleaseUnpacked"},
	"./gpuleaktool-0.1.0.darwin-arm64/gpuleaktool backtest gpu.csv": {reason: "needs macOS; TestToolWithoutC runs the same code"},

	"helm install gpu-leak-exporter gpu-leak-exporter-0.1.0.tgz --namespace=gpu-leak-exporter --create-namespace --set=image.repository=REGISTRY/gpu-leak-exporter": {test: "TestReleaseChart"},
	`helm install gpu-leak-exporter gpu-leak-exporter-0.1.0.tgz --namespace=gpu-leak-exporter \`:                                                                    {test: "TestReleaseChart"},
	"--set=image.repository=REGISTRY/gpu-leak-exporter --values=gpu-leak-exporter/values/gke.yaml":                                                                  {test: "TestReleaseChart"},
	"tar xf gpu-leak-exporter-0.1.0.tgz": {test: "TestReleaseChart"},
	"ls gpu-leak-exporter/values":        {test: "TestReleaseChart"},
	`helm install gpu-leak-exporter ./gpu-leak-exporter --namespace=gpu-leak-exporter --values=gpu-leak-exporter/values/gke.yaml \`: {test: "TestReleaseChart"},
	"--values=gpu-leak-exporter/values/kube-prometheus-stack.yaml --set=image.repository=REGISTRY/gpu-leak-exporter":                {test: "TestReleaseChart"},

	"kubectl create namespace gpu-leak-exporter":                                                                                     {test: "TestCluster"},
	"kubectl label namespace gpu-leak-exporter pod-security.kubernetes.io/enforce=privileged":                                        {test: "TestCluster"},
	"skopeo copy --all oci-archive:.tarballs/image.tar docker://REGISTRY/gpu-leak-exporter:0.1.0":                                    {reason: "needs a registry"},
	"install gpu_leak_exporter gpuleaktool /usr/local/bin/":                                                                          {test: "TestReleaseUnpacked"},
	"install -m 644 examples/gpu_leak_exporter.service /etc/systemd/system/":                                                         {test: "TestReleaseUnpacked"},
	"systemctl status gpu_leak_exporter":                                                                                             {reason: "needs a machine whose first process is systemd"},
	`eval "$(gpu_leak_exporter --completion-script-bash)"`:                                                                           {test: "TestCompletion"},
	`eval "$(gpuleaktool --completion-script-bash)"`:                                                                                 {test: "TestCompletion"},
	"systemctl enable --now gpu_leak_exporter":                                                                                       {reason: "needs a machine whose first process is systemd"},
	"./gpuleaktool backtest cmd/gpuleaktool/testdata/leak.csv":                                                                       {test: "TestReadmeShowsTheTable"},
	"./gpuleaktool watch http://localhost:9844":                                                                                      {test: "TestWatch"},
	"gpuleaktool record --duration=8h --output=night.rec.gz":                                                                         {test: "TestRecord"},
	"gpu_leak_exporter --source=replay:night.rec.gz --source.speed=60":                                                               {test: "TestReplayIsDeterministic"},
	"gpuleaktool backtest --prometheus.url=http://localhost:9090 --query=DCGM_FI_DEV_FB_USED --start=-7d":                            {test: "TestBacktestPrometheus"},
	`gpuleaktool backtest --prometheus.url=http://localhost:9090 --query='gpu_memory_used_bytes{instance="node7:9844"}' --start=-2d`: {test: "TestBacktestPrometheus"},
	"gpu_leak_exporter --source=prometheus:http://localhost:9090":                                                                    {test: "TestFleet"},
	"why=$(gpuleaktool watch --once --fail-on=page --top=0 http://localhost:9844) ||":                                                {test: "TestSlurmHealth"},
	`scontrol update nodename="$(hostname -s)" state=drain reason="${why%%$'\n'*}"`:                                                  {test: "TestSlurmHealth"},
	"gpuleaktool watch --once --fail-on=page http://localhost:9844":                                                                  {test: "TestWatchOnce"},

	"gpu_leak_exporter --collector.workload.job-mapping-dir=/run/gpu-jobs": {test: "TestReadJobs"},
	"mkdir -p /run/gpu-jobs":                        {test: "TestSlurmScripts"},
	"for gpu in ${SLURM_JOB_GPUS//,/ }; do":         {test: "TestSlurmScripts"},
	`echo "$SLURM_JOB_ID" > "/run/gpu-jobs/$gpu"`:   {test: "TestSlurmScripts"},
	`rm -f "/run/gpu-jobs/$gpu"`:                    {test: "TestSlurmScripts"},
	"done":                                          {test: "TestSlurmScripts"},
	"curl -s http://localhost:9844/api/v1/verdicts": {test: "TestVerdicts"},
	`cp gpu_leak_probe.py gpu_leak_probe.pth "$(python3 -c 'import site; print(site.getsitepackages()[0])')"`:                   {test: "TestProbe"},
	"BPFTRACE_MAP_KEYS_MAX=100000 BPFTRACE_MAX_MAP_KEYS=100000 bpftrace -p PID held.bt /proc/PID/root/PATH cudaMalloc cudaFree": {reason: "needs root and bpftrace; 0.17 has run it once, by hand"},
}

// TestCommandsAreProven finds a command that nobody tries, and a proof of one that is not there any more.
func TestCommandsAreProven(t *testing.T) {
	t.Parallel()
	tests := testNames(t)
	seen := map[string]bool{}
	for _, p := range pages(t) {
		if !isFront(p.path) {
			continue
		}
		for _, c := range p.commands() {
			seen[c] = true
			switch proof, ok := proofs[c]; {
			case !ok:
				t.Errorf("%s: nothing shows that this works: %s", p.path, c)
			case proof.test != "" && !slices.Contains(tests, proof.test):
				t.Errorf("%s: no test %s shows that this works: %s", p.path, proof.test, c)
			}
		}
	}
	for c := range proofs {
		if !seen[c] {
			t.Errorf("no page has the command %s", c)
		}
	}
}

// testNames returns the names of all tests of the repository.
func testNames(t *testing.T) []string {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	var names []string
	for _, dir := range []string{"cmd", "collector", "detector", "e2e"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range function.FindAllStringSubmatch(string(text), -1) {
				names = append(names, m[1])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// TestCodeHasALanguage finds code that no other test would look at.
func TestCodeHasALanguage(t *testing.T) {
	t.Parallel()
	for _, p := range pages(t) {
		if !isFront(p.path) {
			continue
		}
		p.walk(func(n ast.Node) {
			switch n := n.(type) {
			case *ast.CodeBlock:
				t.Errorf("%s: code by indent alone: %.60q", p.path, n.Lines().Value(p.source))
			case *ast.FencedCodeBlock:
				if len(n.Language(p.source)) == 0 {
					t.Errorf("%s: code without a language: %.60q", p.path, n.Lines().Value(p.source))
				}
			}
		})
	}
}
