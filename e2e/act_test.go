// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// actToken is what Alertmanager shows to the runner.
const actToken = "0123456789abcdef0123"

// act is a real Alertmanager with the routes of examples/act, and a real webhook with its hooks and scripts. The programs that act are
// fakes, which write down what they are asked.
type act struct {
	dir, address string
	settings     []string
	runner       *harness.Process
	alertmanager *harness.Process
}

// fake stands for each program that acts: it writes down its arguments and input, and prints the file in answers with its name, or with that of its
// first argument, too. It fails if there is a file "fails" of that name.
const fake = `#!/bin/bash
name=${0##*/} dir=${0%/*/*}
echo "$name $*" >> "$dir/calls"
[[ "$*" != *--filename=- ]] || cat >> "$dir/input"
case $name in
sudo) while [[ $1 == -* ]]; do shift; done; exec "$@" ;;
sleep) rm -f "$dir"/answers/*.until-sleep ;;
esac
for file in "$dir/answers/$name" "$dir/answers/$name-$1" "$dir/answers/$name.until-sleep"; do [[ ! -e $file ]] || cat "$file"; done
for file in "$dir/fails/$name" "$dir/fails/$name-$1"; do [[ ! -e $file ]] || { echo refused >&2; exit 1; }; done
`

// startAct runs both, with these settings of the runner, and these answers of the fakes. With partitions the node is one of Slurm.
func startAct(t *testing.T, settings []string, answers map[string]string) *act {
	t.Helper()
	a := &act{dir: t.TempDir(), address: harness.FreeAddress(t), settings: settings}
	for _, name := range []string{"kubectl", "scontrol", "scancel", "squeue", "sinfo", "systemctl", "sudo", "ps", "sleep"} {
		harness.WriteFile(t, filepath.Join(a.dir, "bin", name), fake)
		harness.Must(t, os.Chmod(filepath.Join(a.dir, "bin", name), 0o755))
	}
	for name, text := range answers {
		harness.WriteFile(t, filepath.Join(a.dir, name), text)
	}
	harness.WriteFile(t, filepath.Join(a.dir, "calls"), "")
	harness.Must(t, os.MkdirAll(filepath.Join(a.dir, "state"), 0o755))
	scripts := filepath.Join(harness.Root(), "examples/act")
	hooks := harness.Replace(t, harness.ReadExample(t, "act/hooks.yaml"), "/usr/local/lib/gpu-leak-act", scripts, 3)
	harness.WriteFile(t, filepath.Join(a.dir, "hooks.yaml"), hooks)
	a.start(t)
	a.alertmanager = harness.StartAlertmanager(t, a.config(t, slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, "PARTITIONS=") })))
	return a
}

// start starts the runner, or starts it again.
func (a *act) start(t *testing.T) {
	t.Helper()
	if a.runner != nil {
		a.runner.Stop(t)
	}
	webhook, err := exec.LookPath("webhook")
	if err != nil {
		t.Fatalf("%v: run make e2e-packages", err)
	}
	_, port, _ := strings.Cut(a.address, ":")
	cmd := exec.Command(webhook, "-hooks="+filepath.Join(a.dir, "hooks.yaml"), "-template", "-verbose", "-http-methods=POST", "-ip=127.0.0.1", "-port="+port)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(a.dir, "bin")+":"+os.Getenv("PATH"), "STATE_DIRECTORY="+filepath.Join(a.dir, "state"), "ACT_TOKEN="+actToken)
	cmd.Env = append(cmd.Env, a.settings...)
	a.runner = harness.Start(t, "webhook", cmd)
	harness.Eventually(t, patience, func() error {
		_, err := harness.Get("http://" + a.address)
		return err
	})
}

// config is examples/alertmanager.yml with the routes and receivers of examples/act where its first lines say, and with shorter waits.
func (a *act) config(t *testing.T, slurm bool) string {
	t.Helper()
	text := harness.Replace(t, harness.ReadExample(t, "act/alertmanager.yml"), ": 5m", ": 1s", 2)
	text = harness.Replace(t, text, "localhost:9845", a.address, 2)
	if slurm { // as the comment there says
		text = harness.Replace(t, text, "receiver: act-kubernetes\n    # Yours", "receiver: act-slurm\n    # Yours", 1)
	}
	_, port, _ := strings.Cut(a.address, ":")
	for name, content := range map[string]string{
		"gpu-leak-act.token": actToken + "\n", "gpu-leak-act.url": harness.Replace(t, harness.ReadExample(t, "act/systemd.url"), "9845", port, 1),
	} {
		harness.WriteFile(t, filepath.Join(a.dir, name), content)
	}
	text = strings.ReplaceAll(text, "/etc/alertmanager", a.dir)
	type config struct {
		Route     map[string]any
		Receivers []any
		Rest      map[string]any `yaml:",inline"`
	}
	ours, users := documents[config](t, text)[0], documents[config](t, harness.ReadExample(t, "alertmanager.yml"))[0]
	routes := ours.Route["routes"].([]any)
	users.Route["routes"] = slices.Concat(routes[:1], users.Route["routes"].([]any), routes[1:])
	users.Receivers = append(users.Receivers, ours.Receivers[1:]...)
	merged, err := yaml.Marshal(users)
	harness.Must(t, err)
	return string(merged)
}

// post gives Alertmanager an alert as Prometheus does.
func (a *act) post(t *testing.T, labels string) {
	t.Helper()
	all := map[string]string{"severity": "critical", "job": "gpu_leak_exporter", "instance": "127.0.0.1:9844", "uuid": "GPU-a", "gpu": "0"}
	for pair := range strings.SplitSeq(labels, ", ") {
		name, value, _ := strings.Cut(pair, "=")
		all[name] = value
	}
	body, err := json.Marshal([]any{map[string]any{
		"labels": all, "annotations": map[string]string{"summary": "GPU 0 runs out of memory in 55m.", "description": "train.py \"grows\".\nSave a checkpoint."},
		"startsAt": time.Now().UTC(), "endsAt": time.Now().Add(time.Hour).UTC(),
	}})
	harness.Must(t, err)
	resp, err := http.Post(a.alertmanager.URL+"/api/v2/alerts", "application/json", bytes.NewReader(body)) //nolint:noctx // The test ends it.
	harness.Must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("Alertmanager takes no alert: %s", resp.Status)
	}
}

// says waits until the runner has written that a script has ended and printed this, so often.
func (a *act) says(t *testing.T, n int, text string) {
	t.Helper()
	harness.Eventually(t, patience, func() error {
		ended := strings.LastIndex(a.runner.Output(), "finished handling")
		if got := strings.Count(a.runner.Output()[:max(0, ended)], text); got < n {
			return fmt.Errorf("the runner says %d times, want %d: %s\n%s", got, n, text, a.runner.Output())
		}
		return nil
	})
}

// calls are what the fakes were asked to change, in order.
func (a *act) calls(t *testing.T) (list []string) {
	t.Helper()
	for line := range strings.Lines(harness.ReadFile(t, filepath.Join(a.dir, "calls"))) {
		if !regexp.MustCompile(`^(kubectl get|squeue|sinfo|ps|sudo) `).MatchString(line) {
			list = append(list, strings.TrimSuffix(line, "\n"))
		}
	}
	return list
}

// isAsked holds what the fakes were asked to change to what is wanted.
func (a *act) isAsked(t *testing.T, want ...string) {
	t.Helper()
	equal(t, a.calls(t), want, "what it did\n%s", a.runner.Output())
}

// sudo holds what was run by sudo to the example's sudoers, which has to allow it.
func (a *act) sudo(t *testing.T) {
	t.Helper()
	rule := regexp.MustCompile(`(?m)^gpu-leak-act ALL=\((\w+)\) NOPASSWD: /usr/bin/(\w+) (.*)$`)
	var allowed []string
	for _, m := range rule.FindAllStringSubmatch(harness.ReadExample(t, "act/sudoers"), -1) {
		as, args := "--user="+m[1]+" ", strings.Trim(m[3], "^$")
		if m[1] == "root" {
			as = ""
		}
		if m[3] == args {
			args = regexp.QuoteMeta(args)
		}
		allowed = append(allowed, "sudo --non-interactive "+as+m[2]+" "+args)
	}
	pattern := regexp.MustCompile("^(" + strings.Join(allowed, "|") + ")$")
	for line := range strings.Lines(harness.ReadFile(t, filepath.Join(a.dir, "calls"))) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "sudo ") && !pattern.MatchString(line) {
			t.Errorf("sudoers does not allow %q: %s", line, pattern)
		}
	}
}

const (
	acts        = "DRY_RUN=0"
	podPages    = "alertname=GPUOutOfMemoryPredicted, evidence=leak, namespace=ml, pod=train-0, process=train.py"
	jobPages    = "alertname=GPUOutOfMemoryPredicted, evidence=leak, slurm_job=4711, process=train.py"
	rowsLost    = "alertname=GPURowRemapFailed, instance=node7.example.org:9844"
	told        = "kubectl create --raw=/api/v1/namespaces/ml/events --filename=-"
	evicted     = "kubectl create --raw=/api/v1/namespaces/ml/pods/train-0/eviction --filename=-"
	runs        = "4711 4711 2020-01-01T00:00:00 gpu\n"
	restartable = "u1|2020-01-01T00:00:00Z|StatefulSet|restart"
)

// TestAct has alerts of each kind lead to what examples/act does, or say why it does nothing.
func TestAct(t *testing.T) {
	for name, c := range map[string]struct {
		settings []string
		answers  map[string]string
		alert    string
		says     string
		asked    []string
	}{
		"a pod":                        {[]string{acts}, map[string]string{"answers/kubectl-get": restartable}, podPages, "runs: " + evicted, []string{told, evicted}},
		"a dry run is default":         {nil, map[string]string{"answers/kubectl-get": restartable}, podPages, "dry run, would run: " + evicted, nil},
		"DRY_RUN is anything":          {[]string{"DRY_RUN=no"}, map[string]string{"answers/kubectl-get": restartable}, podPages, "dry run, would run: " + evicted, nil},
		"not on the list":              {[]string{acts}, map[string]string{"answers/kubectl-get": "u1|2020-01-01T00:00:00Z|StatefulSet|"}, podPages, "nothing done: pod ml/train-0 has no annotation", nil},
		"only told":                    {[]string{acts}, map[string]string{"answers/kubectl-get": "u1|2020-01-01T00:00:00Z|StatefulSet|event"}, podPages, "runs: " + told, []string{told}},
		"a ticket":                     {[]string{acts}, map[string]string{"answers/kubectl-get": restartable}, strings.Replace(podPages, "evidence", "severity=warning, evidence", 1), "runs: " + told, []string{told}},
		"nothing starts it":            {[]string{acts}, map[string]string{"answers/kubectl-get": "u1|2020-01-01T00:00:00Z||restart"}, podPages, "nothing done: nothing would start pod ml/train-0", nil},
		"another pod by now":           {[]string{acts}, map[string]string{"answers/kubectl-get": "u1|2099-01-01T00:00:00Z|StatefulSet|restart"}, podPages, "nothing done: pod ml/train-0 is younger", nil},
		"a name that is a path":        {[]string{acts}, map[string]string{"answers/kubectl-get": restartable}, strings.Replace(podPages, "train-0", "train/../../nodes", 1), "nothing done: the alert names no culprit", nil},
		"a name that is an flag":       {[]string{acts}, map[string]string{"answers/kubectl-get": restartable}, strings.Replace(podPages, "train-0", "--all", 1), "nothing done: the alert names no culprit", nil},
		"a name that is a shell":       {[]string{acts}, map[string]string{"answers/kubectl-get": restartable}, strings.Replace(podPages, "train-0", "$(reboot);x", 1), "nothing done: the alert names no culprit", nil},
		"a budget refuses":             {[]string{acts}, map[string]string{"answers/kubectl-get": restartable, "fails/kubectl-create": ""}, podPages, "FAILED: " + evicted, []string{told, evicted}},
		"enough for an hour":           {[]string{acts, "MAX_AN_HOUR=1"}, map[string]string{"answers/kubectl-get": restartable, "state/evict-a": ""}, podPages, "nothing done: 1 acts within the hour are enough", nil},
		"a node":                       {[]string{acts}, map[string]string{"answers/kubectl-get": "cordon"}, rowsLost, "runs: kubectl cordon", []string{"kubectl cordon node7.example.org"}},
		"a node not on the list":       {[]string{acts}, map[string]string{"answers/kubectl-get": ""}, rowsLost, "nothing done: node node7.example.org has no annotation", nil},
		"a node of Slurm":              {[]string{acts, "PARTITIONS=gpu all"}, map[string]string{"answers/sinfo---all": "node7 gpu\nnode7 all\n"}, rowsLost, "runs: sudo", []string{"scontrol update nodename=node7 state=drain reason=gpu_leak_exporter:GPURowRemapFailed"}},
		"a node of other partitions":   {[]string{acts, "PARTITIONS=gpu"}, map[string]string{"answers/sinfo": "node7 gpu\n", "answers/sinfo---all": "node7 all\n"}, rowsLost, "nothing done: partition all of node node7 is not listed", nil},
		"all nodes of Slurm":           {[]string{acts, "PARTITIONS=gpu"}, map[string]string{"answers/sinfo": "node7 gpu\n"}, strings.Replace(rowsLost, "node7.example.org", "ALL", 1), "nothing done: Slurm knows no node ALL", nil},
		"no folder for the stamps":     {[]string{acts, "STATE_DIRECTORY=/nowhere"}, map[string]string{"answers/kubectl-get": restartable}, podPages, "/nowhere/lock: No such file", nil},
		"another cluster":              {[]string{acts, "CLUSTER=a"}, map[string]string{"answers/kubectl-get": restartable}, podPages + ", cluster=b", "nothing done: the alert is of cluster 'b', and CLUSTER is 'a'", nil},
		"a cluster and no CLUSTER":     {[]string{acts}, map[string]string{"answers/kubectl-get": restartable}, podPages + ", cluster=b", "nothing done: the alert is of cluster 'b', and CLUSTER is ''", nil},
		"its own cluster":              {[]string{acts, "CLUSTER=b"}, map[string]string{"answers/kubectl-get": restartable}, podPages + ", cluster=b", "runs: " + evicted, []string{told, evicted}},
		"a job":                        {[]string{acts, "PARTITIONS=batch gpu"}, map[string]string{"answers/squeue---all": runs}, jobPages, "runs: sudo --non-interactive --user=slurm scontrol", []string{"scontrol requeue 4711"}},
		"a job in a dry run":           {[]string{"PARTITIONS=gpu"}, map[string]string{"answers/squeue---all": runs}, jobPages, "dry run, would run: sudo", nil},
		"another run of the job":       {[]string{acts, "PARTITIONS=gpu"}, map[string]string{"answers/squeue---all": "4711 4711 2099-01-01T00:00:00 gpu\n"}, jobPages, "nothing done: this run of job 4711 is younger", nil},
		"a run of no known time":       {[]string{acts, "PARTITIONS=gpu"}, map[string]string{"answers/squeue---all": "4711 4711 N/A gpu\n"}, jobPages, "nothing done: this run of job 4711 is younger", nil},
		"a job that saves for minutes": {[]string{acts, "PARTITIONS=gpu", "CHECKPOINT_SECONDS=2m"}, map[string]string{"answers/squeue---all": runs}, jobPages, "scontrol requeue", []string{"scancel --signal=USR1 4711", "sleep 2m", "scontrol requeue 4711"}},
		"a job of another partition":   {[]string{acts, "PARTITIONS=gpu2"}, map[string]string{"answers/squeue---all": runs}, jobPages, "nothing done: partition gpu of job 4711 is not listed", nil},
		"a job that has ended":         {[]string{acts, "PARTITIONS=gpu"}, nil, jobPages, "nothing done: Slurm knows no job 4711 that runs", nil},
		"the last task of an array":    {[]string{acts, "PARTITIONS=gpu"}, map[string]string{"answers/squeue---all": "4709 4711_1 2020-01-01T00:00:00 gpu\n4711 4711_3 2020-01-01T00:00:00 gpu\n"}, jobPages, "runs: sudo", []string{"scontrol requeue 4711_3"}},
		"a job that saves and ends":    {[]string{acts, "PARTITIONS=gpu", "CHECKPOINT_SECONDS=120"}, map[string]string{"answers/squeue.until-sleep": runs}, jobPages, "nothing done: job 4711 has ended by itself", []string{"scancel --signal=USR1 4711", "sleep 120"}},
		"a process that names its job": {[]string{acts, "PARTITIONS=gpu"}, map[string]string{"answers/squeue---all": runs}, strings.Replace(jobPages, "4711", "4711,4712", 1), "nothing done: the alert names no job", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startAct(t, c.settings, c.answers)
			a.post(t, c.alert)
			a.says(t, 1, c.says)
			a.isAsked(t, c.asked...)
			a.sudo(t)
			wants := strings.Contains(c.says, "FAILED") || strings.Contains(c.says, "No such file")
			failed := strings.Contains(a.runner.Output(), "error occurred") || strings.Contains(a.runner.Output(), "the owner is not told")
			equal(t, failed, wants, "whether it fails\n%s", a.runner.Output())
		})
	}
}

// TestActOnceAnHour has a second message about the same pod come to nothing within the hour, also by a runner that was started again, and
// act after it.
func TestActOnceAnHour(t *testing.T) {
	t.Parallel()
	a := startAct(t, []string{acts}, map[string]string{"answers/kubectl-get": restartable, "state/evict-old": ""})
	const again = "nothing done: evict-GPUOutOfMemoryPredicted-critical-ml.train-0 was done within the hour"
	a.post(t, podPages)
	a.says(t, 1, "runs: "+evicted)
	a.post(t, podPages+", uuid=GPU-b")
	a.says(t, 1, again)
	a.start(t)
	a.post(t, podPages+", uuid=GPU-c")
	a.says(t, 1, again)
	a.isAsked(t, told, evicted)
	stamp, old := filepath.Join(a.dir, "state/evict-GPUOutOfMemoryPredicted-critical-ml.train-0"), filepath.Join(a.dir, "state/evict-old")
	for _, name := range []string{stamp, old} {
		harness.Must(t, os.Chtimes(name, time.Time{}, time.Now().Add(-61*time.Minute)))
	}
	a.post(t, podPages+", uuid=GPU-d")
	a.says(t, 1, "runs: "+evicted)
	a.isAsked(t, told, evicted, told, evicted)
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("an old stamp stays: %v", err)
	}
}

// TestActOnlyOnPage has the scripts end nothing for a ticket, nor for growth that is no leak yet, though a route sends them.
func TestActOnlyOnPage(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"slurm.sh warning leak", "slurm.sh critical filling", "systemd.sh warning leak", "systemd.sh critical filling"} {
		args := strings.Fields(c)
		cmd := exec.Command(filepath.Join(harness.Root(), "examples/act", args[0]))
		cmd.Env = append(os.Environ(), acts, "STATE_DIRECTORY="+t.TempDir(), "LABEL_ALERTNAME=GPUOutOfMemoryPredicted", "LABEL_SEVERITY="+args[1], "LABEL_EVIDENCE="+args[2])
		if got := harness.Run(t, cmd); !strings.Contains(got, "nothing done: this is no page about a leak") {
			t.Errorf("%s: it says %s", c, got)
		}
	}
}

// TestActAtOnce has many runs at the same moment act once, though each takes its time to look for the stamp.
func TestActAtOnce(t *testing.T) {
	t.Parallel()
	a := startAct(t, []string{acts}, map[string]string{"answers/kubectl-get": restartable})
	harness.WriteFile(t, filepath.Join(a.dir, "bin/find"), "#!/bin/sh\n/bin/sleep 0.1\nexec /usr/bin/find \"$@\"\n")
	harness.Must(t, os.Chmod(filepath.Join(a.dir, "bin/find"), 0o755))
	const many = 8
	for range many {
		if status := a.hook(t, "Bearer "+actToken, "firing"); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	harness.Eventually(t, patience, func() error {
		if n := strings.Count(a.runner.Output(), "finished handling"); n < many {
			return fmt.Errorf("%d have ended", n)
		}
		return nil
	})
	a.isAsked(t, told, evicted)
}

// hook asks the runner as Alertmanager does, about the pod, and returns the status.
func (a *act) hook(t *testing.T, authorization, status string) int {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"status": status, "alerts": []any{map[string]any{"startsAt": "2026-03-01T03:00:00.5+01:00"}},
		"commonLabels": map[string]string{"alertname": "GPUOutOfMemoryPredicted", "severity": "critical", "evidence": "leak", "namespace": "ml", "pod": "train-0"},
	})
	harness.Must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.address+"/hooks/kubernetes", bytes.NewReader(body))
	harness.Must(t, err)
	req.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	harness.Must(t, err)
	resp.Body.Close()
	return resp.StatusCode
}

// TestActToken has nobody in without the token, and nobody at all where none is set. What is over makes nothing run.
func TestActToken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		token, authorization, status string
		want                         bool
	}{
		{actToken, "Bearer " + actToken, "firing", true},
		{actToken, "Bearer " + actToken, "resolved", false},
		{actToken, "Bearer " + actToken + "4", "firing", false},
		{actToken, "", "firing", false},
		{"", "Bearer ", "firing", false},
		{"", "", "firing", false},
	} {
		a := startAct(t, []string{"ACT_TOKEN=" + c.token}, map[string]string{"answers/kubectl-get": restartable})
		equal(t, a.hook(t, c.authorization, c.status) == http.StatusOK, c.want, "%+v: let in", c)
		if got := strings.Contains(a.runner.Output(), "executing"); got && !c.want {
			t.Errorf("%+v: a script runs", c)
		}
	}
}

// TestActRoutes has amtool say who is told of an alert: those who were told before, and a runner only of what it is for.
func TestActRoutes(t *testing.T) {
	t.Parallel()
	a := &act{dir: t.TempDir(), address: "localhost:9845"}
	file := filepath.Join(a.dir, "alertmanager.yml")
	harness.WriteFile(t, file, a.config(t, false))
	for labels, want := range map[string]string{
		"alertname=GPUOutOfMemoryPredicted severity=critical evidence=leak namespace=ml pod=train-0":    "act-kubernetes,pager",
		"alertname=GPUOutOfMemoryPredicted severity=critical evidence=filling namespace=ml pod=train-0": "nobody,pager",
		"alertname=GPUOutOfMemoryPredicted severity=critical evidence=leak slurm_job=4711":              "act-slurm,pager",
		"alertname=GPUOutOfMemoryPredicted severity=critical evidence=filling slurm_job=4711":           "nobody,pager",
		"alertname=GPUOutOfMemoryPredicted severity=critical evidence=leak process=vllm":                "act-systemd,pager",
		"alertname=GPUOutOfMemoryPredicted severity=critical evidence=leak":                             "nobody,pager",
		"alertname=GPUOutOfMemoryPredicted severity=warning evidence=leak process=vllm":                 "nobody,tickets",
		"alertname=GPUMemoryLeakDetected severity=warning namespace=ml pod=train-0":                     "act-kubernetes,tickets",
		"alertname=GPUMemoryNearlyFull severity=warning namespace=ml pod=train-0":                       "nobody,tickets",
		"alertname=GPURowRemapFailed severity=critical instance=node7":                                  "act-kubernetes,pager",
		"alertname=GPUDriverDown severity=critical instance=node7":                                      "nobody,pager",
		"alertname=Watchdog severity=critical":                                                          "pager",
	} {
		args := append([]string{"config", "routes", "test", "--config.file=" + file}, strings.Fields(labels)...)
		equal(t, strings.TrimSpace(harness.Run(t, exec.Command(harness.ExternalTool(t, "amtool"), args...))), want, "who is told of %s", labels)
	}
}

// TestActSystemd has the exporter name the process, and its unit started again if it is on the list.
func TestActSystemd(t *testing.T) {
	t.Parallel()
	exporter := harness.StartExporter(t, harness.Options{Args: []string{"--source=sim:node", "--source.speed=60"}})
	var uuid, pid string
	harness.Eventually(t, patience, func() error {
		found, err := exporter.TryScrape()
		found = found.All("gpu_process_leak_detected", map[string]string{"process": "serve.py"})
		if err == nil && (len(found) != 1 || found[0].Value != 1) {
			err = fmt.Errorf("serve.py does not leak yet: %v", found)
		} else if err == nil {
			pid, uuid = found[0].Labels["pid"], found[0].Labels["uuid"]
		}
		return err
	})
	const alert = "alertname=GPUOutOfMemoryPredicted, evidence=leak, process=serve.py, uuid="
	const restarted, signalled = "systemctl restart vllm.service", "systemctl kill --kill-who=main --signal=SIGUSR1 vllm.service"
	for name, c := range map[string]struct {
		settings []string
		unit     string // of the process
		alert    string
		says     string
		asked    []string
	}{
		"listed":          {[]string{acts}, "vllm.service\n", alert + uuid, "runs: sudo --non-interactive " + restarted, []string{restarted}},
		"a dry run":       {nil, "vllm.service\n", alert + uuid, "dry run, would run: sudo --non-interactive " + restarted, nil},
		"not listed":      {[]string{acts}, "other.service\n", alert + uuid, "nothing done: unit 'other.service' of process " + pid, nil},
		"part of a name":  {[]string{acts}, "llm.service\n", alert + uuid, "nothing done: unit", nil},
		"two units":       {[]string{acts}, "a.scope\nvllm.service\n", alert + uuid, "nothing done: unit", nil},
		"no unit":         {[]string{acts}, "", alert + uuid, "nothing done: unit ''", nil},
		"leaks no more":   {[]string{acts}, "vllm.service\n", alert + "GPU-other", "nothing done: no process 'serve.py' leaks", nil},
		"another process": {[]string{acts}, "vllm.service\n", strings.Replace(alert, "serve.py", "tritonserver", 1) + uuid, "nothing done: no process 'tritonserver' leaks", nil},
		"no exporter":     {[]string{acts, "EXPORTER=http://127.0.0.1:1"}, "vllm.service\n", alert + uuid, "FAILED: the exporter does not answer", nil},
		"it saves":        {[]string{acts, "CHECKPOINT_SECONDS=60"}, "vllm.service\n", alert + uuid, "runs: sudo --non-interactive " + restarted, []string{signalled, "sleep 60", restarted}},
	} {
		t.Run(name, func(t *testing.T) { // one after the other, at once: serve.py dies in the end, and has another pid
			units := filepath.Join(t.TempDir(), "units")
			harness.WriteFile(t, units, "tgi.service\nvllm.service\n")
			a := startAct(t, append([]string{"EXPORTER=" + exporter.URL, "UNITS=" + units}, c.settings...), map[string]string{"answers/ps": c.unit})
			a.post(t, c.alert)
			a.says(t, 1, c.says)
			a.isAsked(t, c.asked...)
			a.sudo(t)
		})
	}
}

// TestActLeak has simulated nodes under the real rules: of the pods that leak the one that is on the list is evicted once, though it is
// paged again; its node's healthy neighbour is left alone.
func TestActLeak(t *testing.T) {
	t.Parallel()
	a := startAct(t, []string{acts}, nil)
	// Only the agent is on the list.
	get := `case "$*" in "get pod agent-5c9f7d6b8-m4tqz "*) echo "u1|2020-01-01T00:00:00Z|ReplicaSet|restart" ;; "get pod "*) echo "u2|2020-01-01T00:00:00Z|ReplicaSet|" ;; esac`
	harness.WriteFile(t, filepath.Join(a.dir, "bin/kubectl"), fake+get+"\n")
	var exporters []*harness.Process
	for _, source := range []string{"sim:healthy", "sim:node"} {
		exporters = append(exporters, harness.StartExporter(t, harness.Options{Args: []string{"--source=" + source, "--source.speed=240"}}))
	}
	config := harness.ExampleConfig(t, harness.FastRules(t), exporters...)
	prometheus := harness.StartPrometheus(t, harness.Replace(t, config, "localhost:9093", a.alertmanager.Address(), 1))
	a.settings = append(a.settings, "PROMETHEUS="+prometheus.URL)
	a.start(t)

	const leaky = "shared/pods/agent-5c9f7d6b8-m4tqz/eviction"
	a.says(t, 1, leaky)
	a.says(t, 1, "nothing done: evict-GPUOutOfMemoryPredicted-critical-shared.agent-5c9f7d6b8-m4tqz was done within the hour")
	a.says(t, 1, "nothing done: pod vision/detector-7f6c5d4b8-zk9ws has no annotation")
	evictions := 0
	for _, call := range a.calls(t) {
		if strings.Contains(call, "/eviction") {
			evictions++
		}
		if !strings.Contains(call, leaky) && call != "kubectl create --raw=/api/v1/namespaces/shared/events --filename=-" {
			t.Errorf("it did %s", call)
		}
	}
	equal(t, evictions, 1, "evictions")
	input := harness.ReadFile(t, filepath.Join(a.dir, "input"))
	if !regexp.MustCompile(`"message": "leaks (79|80|81) MiB/min; GPU 7 of 127\.0\.0\.1:\d+, within .* runs out of memory in \d+m \d+s\. agent\.py \(pod shared/agent-5c9f7d6b8-m4tqz\) `).MatchString(input) {
		t.Errorf("the owner is told %s", input)
	}
	for healthy := range strings.SplitSeq("mixtral-0 llama-8b-0 qwen-0", " ") {
		if strings.Contains(a.runner.Output(), healthy) {
			t.Errorf("a script ran for %s", healthy)
		}
	}
}

// TestActShellcheck has shellcheck judge the scripts.
func TestActShellcheck(t *testing.T) {
	t.Parallel()
	scripts, _ := filepath.Glob(filepath.Join(harness.Root(), "examples/act/*.sh")) // fails only if the pattern is wrong
	harness.Run(t, exec.Command("shellcheck", append([]string{"--external-sources", "--source-path=SCRIPTDIR", "--"}, scripts...)...))
}

// TestActCheckpoint runs the handler of docs/act.md: it saves after either signal, goes on after SIGUSR1, and ends after SIGTERM.
func TestActCheckpoint(t *testing.T) {
	t.Parallel()
	page := harness.ReadFile(t, filepath.Join(harness.Root(), "docs/act.md"))
	_, handler, _ := strings.Cut(page, "```python\n")
	handler, _, _ = strings.Cut(handler, "```")
	before, after, found := strings.Cut(handler, "# after each step\n")
	if !found {
		t.Fatalf("the handler has no step: %s", handler)
	}
	program := `import os, signal, sys, types
torch = types.SimpleNamespace(save=lambda what, path: print("saved", what["step"], path))
model = optimizer = types.SimpleNamespace(state_dict=dict)
step = 1
` + before + after + "os.kill(os.getpid(), signal.SIGUSR1)\n" + after + "step = 2\n" + after + "os.kill(os.getpid(), signal.SIGTERM)\n" + after + "print('never')\n"
	equal(t, harness.Run(t, exec.Command("python3", "-c", program)), "saved 1 checkpoint.pt\nsaved 2 checkpoint.pt\n", "it says")
}
