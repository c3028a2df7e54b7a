// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// makeRelease makes a release of the working tree from a copy of it, in a new folder with that name, which it returns.
func makeRelease(name string) (string, error) {
	tree := filepath.Join(harness.Dir(), name)
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", `
		mkdir -p "$1"
		git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --no-dereference --target-directory="$1"
		touch "$1"/{docs/of-the-builder.md,dashboards/of-the-builder.json,probe/of-the-builder.py}
		export GIT_DIR=$(git rev-parse --absolute-git-dir)
		"$1/deploy/release.sh" "$2" "$1/.tarballs"`, "bash", tree, os.Getenv("E2E_BIN"))
	cmd.Dir = harness.Root()
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -buildvcs=false", "CGO_CFLAGS=-O2 -g -Wno-deprecated-declarations")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return tree, err
}

var firstRelease = sync.OnceValues(func() (string, error) { return makeRelease("first") })

func release(t *testing.T) string {
	t.Helper()
	tree, err := firstRelease()
	harness.Must(t, err)
	return tree
}

// twice has TestRelease make a second one, which takes minutes: before a release, not for each change.
var twice = flag.Bool("release.twice", false, "make the release in a second folder, too, and compare the bytes")

// TestRelease makes a release: what is promised is there, and in another folder it has the same bytes.
func TestRelease(t *testing.T) {
	t.Parallel()
	const sums = ".tarballs/sha256sums.txt"
	first := harness.ReadFile(t, filepath.Join(release(t), sums))
	if *twice {
		again, err := makeRelease("again/in/another/folder")
		harness.Must(t, err)
		equal(t, harness.ReadFile(t, filepath.Join(again, sums)), first, "the sums of the second time")
	}
	version := strings.TrimSpace(harness.ReadFile(t, filepath.Join(harness.Root(), "VERSION")))
	var got []string
	for line := range strings.Lines(first) {
		got = append(got, strings.ReplaceAll(strings.Fields(line)[1], version, "V"))
	}
	want := []string{
		"gpu-leak-exporter-V-1.aarch64.rpm", "gpu-leak-exporter-V-1.x86_64.rpm", "gpu-leak-exporter-V.tgz",
		"gpu-leak-exporter_V-1_amd64.deb", "gpu-leak-exporter_V-1_arm64.deb",
		"gpu_leak_exporter-V.cdx.json", "gpu_leak_exporter-V.linux-amd64.tar.gz", "gpu_leak_exporter-V.linux-arm64.tar.gz",
		"gpuleaktool-V.cdx.json", "gpuleaktool-V.darwin-amd64.tar.gz", "gpuleaktool-V.darwin-arm64.tar.gz", "gpuleaktool-V.windows-amd64.zip",
	}
	equal(t, got, want, "what is made")
}

// TestReleaseBinaries holds them to the oldest glibc that is promised, and to no path of where they were built.
func TestReleaseBinaries(t *testing.T) {
	t.Parallel()
	tree := release(t)
	for _, name := range []string{"linux-amd64/gpu_leak_exporter", "linux-amd64/gpuleaktool", "linux-arm64/gpu_leak_exporter", "linux-arm64/gpuleaktool"} {
		path := filepath.Join(tree, ".build", name)
		f, err := elf.Open(path)
		harness.Must(t, err)
		defer f.Close()
		libraries, err := f.ImportedLibraries()
		if err != nil || f.Type != elf.ET_DYN { // at an address of the system's choice
			t.Fatalf("%s: %v, %v", name, f.Type, err)
		}
		// With an old glibc the names of its parts are wanted, with 2.34 it is one.
		for _, l := range libraries {
			if l != "libc.so.6" && !strings.HasPrefix(l, "ld-linux") {
				t.Errorf("%s needs %s", name, l)
			}
		}
		symbols, err := f.DynamicSymbols()
		harness.Must(t, err)
		for _, s := range symbols {
			if v, is := strings.CutPrefix(s.Version, "GLIBC_2."); is && len(v) == 2 && v > "34" {
				t.Errorf("%s: %s is of %s", name, s.Name, s.Version)
			}
		}
		if strings.Contains(harness.ReadFile(t, path), tree) {
			t.Errorf("%s has the path of where it was built", name)
		}
	}
}

// TestReleaseUnpacked unpacks the tarballs: what the documents tell to install is there, and can be read by all.
func TestReleaseUnpacked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	archives, _ := filepath.Glob(filepath.Join(release(t), ".tarballs/*.tar.gz")) // fails only if the pattern is wrong
	for _, a := range archives {
		harness.Run(t, exec.Command("tar", "xf", a, "-C", dir))
	}
	harness.Run(t, exec.Command("bash", "-euc", `python3 -m zipfile -e "$1"/*.zip "$2"; [[ -z $(find "$2" -name "of-the-builder*") ]]`, "bash", filepath.Dir(archives[0]), dir))
	version := strings.TrimSpace(harness.ReadFile(t, filepath.Join(harness.Root(), "VERSION")))
	linux := filepath.Join(dir, "gpu_leak_exporter-"+version+".linux-"+runtime.GOARCH)
	for _, program := range []string{"gpu_leak_exporter", "gpuleaktool"} {
		if out := harness.Run(t, exec.Command(filepath.Join(linux, program), "--version")); !strings.Contains(out, "version "+version+" ") {
			t.Errorf("%s is %s", program, out)
		}
	}
	for _, name := range []string{
		"LICENSE", "examples/gpu_leak_exporter.service", "dashboards/alerts.yaml", "probe/gpu_leak_probe.py",
		"man/gpu_leak_exporter.1.gz", "completion/gpuleaktool.bash", "../gpuleaktool-" + version + ".darwin-arm64/gpuleaktool",
		"../gpuleaktool-" + version + ".windows-amd64/gpuleaktool.exe", "../gpuleaktool-" + version + ".darwin-amd64/LICENSE",
	} {
		if is, err := os.Stat(filepath.Join(linux, name)); err != nil || is.Mode().Perm()&0o444 != 0o444 {
			t.Errorf("%s: %v %v", name, err, is)
		}
	}
}

// pageLink is one of Markdown to a place that is no heading of the same page.
var pageLink = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)

// TestReleasePages follows the links of the pages in the tarball and in the deb: who reads them has no repository.
func TestReleasePages(t *testing.T) {
	t.Parallel()
	tarballs := filepath.Join(release(t), ".tarballs")
	dir := t.TempDir()
	harness.Run(t, exec.Command("bash", "-euc", `tar xf "$1"/gpu_leak_exporter-*.linux-amd64.tar.gz -C "$2"; dpkg-deb --extract "$1"/*_amd64.deb "$2"`, "bash", tarballs, dir))
	unpacked, _ := filepath.Glob(filepath.Join(dir, "gpu_leak_exporter-*")) // fails only if the pattern is wrong
	for _, root := range append(unpacked, filepath.Join(dir, "usr/share/doc/gpu-leak-exporter")) {
		for _, page := range []string{"README.md", "docs/install.md", "mixin/runbook.md", "collector/README.md"} {
			if _, err := os.Stat(filepath.Join(root, page)); err != nil {
				t.Error(err)
			}
		}
		links, away := 0, 0
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".md") {
				return err
			}
			for _, m := range pageLink.FindAllStringSubmatch(harness.ReadFile(t, path), -1) {
				links++
				if strings.Contains(m[1], "://") {
					if strings.HasPrefix(m[1], "https://github.com/gpuleak/") {
						away++
					}
					continue
				}
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
					t.Errorf("%s leads nowhere: %v", strings.TrimPrefix(path, dir), err)
				}
			}
			return nil
		})
		if err != nil || links < 100 || away > 20 {
			t.Errorf("%s: %d links, %d of them to the repository, %v", root, links, away, err)
		}
	}
}

// TestReleaseChart renders the chart of the release, as it is installed, with dashboards in it, and with a file of values from it.
func TestReleaseChart(t *testing.T) {
	t.Parallel()
	charts, _ := filepath.Glob(filepath.Join(release(t), ".tarballs/gpu-leak-exporter-*.tgz")) // fails only if the pattern is wrong
	if len(charts) != 1 {
		t.Fatalf("charts %q", charts)
	}
	dir := t.TempDir()
	harness.Run(t, exec.Command("tar", "xf", charts[0], "-C", dir))
	got, err := helm(t, "template", "gpu-leak-exporter", charts[0], "--namespace=gpu-leak-exporter", "--set=image.repository=registry.example/gpu-leak-exporter",
		"--set=dashboards.enabled=true", "--values="+filepath.Join(dir, "gpu-leak-exporter/values/gke.yaml"))
	harness.Must(t, err)
	for _, want := range []string{"image: registry.example/gpu-leak-exporter:", "name: gpu-leak-exporter-dashboard-fleet"} {
		if !strings.Contains(got, want) {
			t.Errorf("the chart has no %q", want)
		}
	}
}

// packageLife installs, upgrades, removes, installs, removes and purges the package with dpkg, on a copy of this system
// that nobody else sees and that goes with it.
const packageLife = `
d=$1
mount -t tmpfs none "$d"
mkdir "$d/upper" "$d/work" "$d/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$d/upper,workdir=$d/work" "$d/root"
mount -t proc proc "$d/root/proc"
mount --rbind /dev "$d/root/dev"
mount -t tmpfs none "$d/root/run"
cp "$2" "$d/root/package.deb"
cat > "$d/root/life.sh" <<'END'
has() { [ -e "$1" ] || { echo "after $2: $1 is missing"; exit 1; }; }
gone() { [ ! -e "$1" ] && [ ! -L "$1" ] || { echo "after $2: $1 is still there"; exit 1; }; }
state=/var/lib/gpu_leak_exporter/state
link=/etc/systemd/system/multi-user.target.wants/gpu_leak_exporter.service

dpkg --install package.deb
id gpu_leak_exporter
gpu_leak_exporter --version
systemd-analyze verify --man=no gpu_leak_exporter.service
grep -q '^User=gpu_leak_exporter$' /lib/systemd/system/gpu_leak_exporter.service
# Others than root can read all of it.
setpriv --reuid=gpu_leak_exporter --clear-groups find /usr/share/gpu_leak_exporter /usr/share/doc/gpu-leak-exporter -type f -exec cat {} + > /dev/null
[ -L $link ] || { echo 'it is not enabled'; exit 1; }
has /usr/share/gpu_leak_exporter/probe/gpu_leak_probe.py installation
has /usr/share/gpu_leak_exporter/dashboards/alerts.yaml installation
has /usr/share/man/man1/gpuleaktool.1.gz installation
has /usr/share/bash-completion/completions/gpu_leak_exporter installation
has /usr/share/doc/gpu-leak-exporter/copyright installation
install -d -o gpu_leak_exporter /var/lib/gpu_leak_exporter
echo history > $state
echo 'OPTIONS="--web.listen-address=:9999"' > /etc/default/gpu_leak_exporter

dpkg --install package.deb
grep -q 9999 /etc/default/gpu_leak_exporter
has $state 'an upgrade'

dpkg --remove gpu-leak-exporter
gone /usr/bin/gpu_leak_exporter removal
has $state removal
grep -q 9999 /etc/default/gpu_leak_exporter

dpkg --install package.deb
has $state 'a second installation'
has $link 'a second installation'

dpkg --purge gpu-leak-exporter
gone $state purge
gone /var/lib/gpu_leak_exporter purge
gone /etc/default/gpu_leak_exporter purge
gone $link purge
END
PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$d/root" sh -eu /life.sh
`

// TestReleaseDeb has dpkg install, upgrade, remove and purge the package.
func TestReleaseDeb(t *testing.T) {
	t.Parallel()
	packages, _ := filepath.Glob(filepath.Join(release(t), ".tarballs/*_"+runtime.GOARCH+".deb")) // fails only if the pattern is wrong
	if len(packages) != 1 {
		t.Fatalf("packages %q", packages)
	}
	harness.Run(t, exec.Command("unshare", "--mount", "--propagation", "private", "bash", "-euo", "pipefail", "-c", packageLife, "bash", t.TempDir(), packages[0]))
}
