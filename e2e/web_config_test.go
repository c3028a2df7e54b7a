// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// authority signs certificates.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir(), pool: x509.NewCertPool()}
	a.sign(t, "ca")
	a.pool.AddCert(a.cert)
	return a
}

// sign writes NAME.crt and NAME.key, a certificate for that name and 127.0.0.1; the first one is the
// authority's own.
func (a *authority) sign(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	harness.Must(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        a.cert == nil, BasicConstraintsValid: true,
	}
	if a.cert == nil {
		a.cert, a.key = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	harness.Must(t, err)
	if c.IsCA {
		a.cert, err = x509.ParseCertificate(der)
		harness.Must(t, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	harness.Must(t, err)
	crt := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	harness.WriteFile(t, filepath.Join(a.dir, name+".crt"), string(crt))
	harness.WriteFile(t, filepath.Join(a.dir, name+".key"), string(keyPEM))
	pair, err := tls.X509KeyPair(crt, keyPEM)
	harness.Must(t, err)
	return pair
}

// TestExamplesWeb starts the exporter with each of the examples for --web.config.file.
func TestExamplesWeb(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.sign(t, "server")
	prometheus, stranger := a.sign(t, "prometheus"), a.sign(t, "stranger")
	other := newAuthority(t).sign(t, "prometheus")
	password := func(p string) func(*http.Request) { return func(r *http.Request) { r.SetBasicAuth("prometheus", p) } }
	for name, clients := range map[string][]struct {
		cert   *tls.Certificate
		change func(*http.Request)
		status int // 0: no connection
	}{
		"tls.yml": {{nil, nil, 200}},
		"basic-auth.yml": {
			{nil, nil, 401}, {nil, password("change me"), 200}, {nil, password("wrong"), 401}, {nil, password(strings.Repeat("x", 100)), 401},
		},
		"client-certificates.yml": {{nil, nil, 0}, {&prometheus, nil, 200}, {&stranger, nil, 0}, {&other, nil, 0}},
	} {
		file := filepath.Join(a.dir, name)
		harness.WriteFile(t, file, harness.ReadExample(t, "web/"+name))
		p := harness.LaunchExporter(t, harness.Options{Args: []string{"--source=sim:crashloop", "--web.config.file=" + file}})
		address := p.Listening(t)
		if m, err := p.TryScrape(); err == nil {
			t.Errorf("%s: it answers %d samples without TLS", name, len(m))
		}
		for i, c := range clients {
			config := &tls.Config{RootCAs: a.pool, MinVersion: tls.VersionTLS12}
			if c.cert != nil {
				config.Certificates = []tls.Certificate{*c.cert}
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", http.NoBody)
			harness.Must(t, err)
			if c.change != nil {
				c.change(r)
			}
			resp, err := client.Do(r)
			status := 0
			if err == nil {
				status = resp.StatusCode
				_ = resp.Body.Close()
			}
			equal(t, status, c.status, "%s, client %d: status, %v", name, i, err)
			client.CloseIdleConnections()
		}
		if err := p.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		equal(t, p.Wait(t, patience), 0, "%s: exit code", name)
	}
}
