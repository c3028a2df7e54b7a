// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"
)

// clusterDeadline is for what takes seconds: past it something hangs.
const clusterDeadline = 10 * time.Minute

// Kubernetes is a cluster without kubelet and scheduler: its pods are made, admitted and deleted, and never run.
// Its methods are for one goroutine.
type Kubernetes struct {
	// Kubeconfig is the path of a file for kubectl and helm, with all rights.
	Kubeconfig string

	url  string
	http *http.Client
}

const adminToken = "admin"

// StartKubernetes runs the real etcd, kube-apiserver and kube-controller-manager until the end of the test. Only the API
// server listens, on 127.0.0.1.
func StartKubernetes(t testing.TB) *Kubernetes {
	t.Helper()
	dir := t.TempDir()
	address := FreeAddress(t)
	k := &Kubernetes{
		Kubeconfig: filepath.Join(dir, "kubeconfig"),
		url:        "https://" + address,
		http:       &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}, //nolint:gosec // It made its certificate itself.
	}
	t.Cleanup(k.http.CloseIdleConnections)
	for name, text := range map[string]string{
		"kubeconfig": fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "it", "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
			"clusters": [{"name": "it", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}], "users": [{"name": "it", "user": {"token": %q}}]}`, k.url, adminToken),
		"tokens.csv": adminToken + `,admin,1,"system:masters"`,
	} {
		Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	serve(t, dir, "etcd", "--data-dir=data", "--listen-client-urls=unix://etcd:1", "--advertise-client-urls=unix://etcd:1",
		"--listen-peer-urls=unix://etcd:2", "--initial-advertise-peer-urls=unix://etcd:2", "--initial-cluster=default=unix://etcd:2")
	// kube-apiserver gives up after 20 seconds without it.
	Eventually(t, clusterDeadline, func() error { _, err := os.Stat(filepath.Join(dir, "etcd:1")); return err })
	_, port, _ := net.SplitHostPort(address)
	api := serve(t, dir, "kube-apiserver", "--etcd-servers=unix://"+dir+"/etcd:1", "--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir=certificates",
		"--token-auth-file=tokens.csv", "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=certificates/apiserver.key", "--service-account-signing-key-file=certificates/apiserver.key",
		// There is no kubelet that could say that it is well.
		"--disable-admission-plugins=TaintNodesByCondition", "--allow-privileged")
	Must(t, poll(clusterDeadline, api.done, func() error { _, err := k.call(http.MethodGet, "/readyz", ""); return err }))
	serve(t, dir, "kube-controller-manager", "--kubeconfig=kubeconfig", "--leader-elect=false", "--secure-port=0",
		"--controllers=daemonset-controller,deployment-controller,replicaset-controller,serviceaccount-controller,namespace-controller,"+
			"garbage-collector-controller,resourcequota-controller,clusterrole-aggregation-controller")
	return k
}

// serve runs a part of Kubernetes in dir until the end of the test. What etcd ends with after SIGTERM is that signal.
func serve(t testing.TB, dir, name string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(ExternalTool(t, name), args...)
	cmd.Dir = dir
	p := Start(t, name, cmd)
	t.Cleanup(func() {
		_ = p.Signal(syscall.SIGTERM) // fails only if it has ended, which Wait knows, too
		p.Wait(t, clusterDeadline)
	})
	return p
}

// FreeAddress returns one of 127.0.0.1 on which nobody listens now, for programs that take no port 0.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// Run runs kubectl or helm on the cluster, which has to succeed, and returns what it prints.
func (k *Kubernetes) Run(t testing.TB, program, stdin string, args ...string) string {
	t.Helper()
	home := t.TempDir()
	cmd := exec.Command(ExternalTool(t, program), args...)
	cmd.Dir = Root()
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.Kubeconfig, "HOME="+home)
	return Run(t, cmd)
}

// Kubectl runs kubectl, which has to succeed.
func (k *Kubernetes) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return k.Run(t, "kubectl", "", args...)
}

// Apply has the API server apply each document of a manifest: first it tries all, then it keeps them. Namespaces are kept at once,
// because others need them. The server gets the text as it is and refuses what it does not know and what is there twice;
// kubectl would not see the second. It returns how many objects there are.
func (k *Kubernetes) Apply(manifest string) (int, error) {
	n := 0
	for _, try := range []bool{true, false} {
		n = 0
		for doc := range strings.SplitSeq(manifest, "\n---\n") {
			var o struct {
				APIVersion string `yaml:"apiVersion"`
				Kind       string
				Metadata   struct{ Name, Namespace string }
			}
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				return n, err
			}
			if o.Kind == "" { // only comments
				continue
			}
			n++
			query := "?fieldManager=test&fieldValidation=Strict"
			if try && o.Kind != "Namespace" {
				query += "&dryRun=All"
			}
			if _, err := k.call(http.MethodPatch, path(o.APIVersion, o.Kind, o.Metadata.Namespace)+"/"+o.Metadata.Name+query, doc); err != nil {
				return n, fmt.Errorf("%s %s: %w", o.Kind, o.Metadata.Name, err)
			}
		}
	}
	return n, nil
}

// path returns where the objects of a kind are, in a namespace or without one.
func path(apiVersion, kind, namespace string) string {
	group := "/apis/"
	if !strings.Contains(apiVersion, "/") {
		group = "/api/"
	}
	if namespace != "" {
		namespace = "namespaces/" + namespace + "/"
	}
	plural := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(plural, "s"):
		plural += "es"
	case strings.HasSuffix(plural, "y"):
		plural = strings.TrimSuffix(plural, "y") + "ies"
	default:
		plural += "s"
	}
	return group + apiVersion + "/" + namespace + plural
}

// call asks the API server, and returns an error unless it says that all is well.
func (k *Kubernetes) call(method, path, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, k.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	if body != "" {
		req.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	resp, err := k.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(answer))
	}
	return answer, nil
}
