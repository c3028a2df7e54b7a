#!/usr/bin/env bash
# Makes what a release has: tarballs, deb, rpm, the tool for laptops, the chart, the list of parts and the checksums.
# One revision gives the same bytes: nothing holds a path, a user or a time but that of the commit.
#
#   deploy/release.sh BIN OUT    programs that it needs; where it writes
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 out=$2
build=.build share=.build/share
# What git tracks: whatever else lies in the folders is of who makes the release.
tree=.build/tree
version=$(<VERSION)
revision=$(git rev-parse HEAD) branch=$(git rev-parse --abbrev-ref HEAD)
programs=(gpu_leak_exporter gpuleaktool)
host=$(go env GOARCH)

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
umask 022
# promu takes the name of the project from where it was cloned from.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/gpuleak/gpu_leak_exporter
# promu calls tar.
export TAR_OPTIONS="--sort=name --mtime=@$SOURCE_DATE_EPOCH --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w --format=gnu"
declare -A compiler=([amd64]=x86_64-linux-gnu-gcc [arm64]=aarch64-linux-gnu-gcc)

# man pages, completion and the unit for packages, which are the same for both architectures.
shared() {
	mkdir -p "$share/man" "$share/completion"
	for p in "${programs[@]}"; do
		"$build/linux-$host/$p" --help-man | gzip -9n > "$share/man/$p.1.gz"
		"$build/linux-$host/$p" --completion-script-bash > "$share/completion/$p.bash"
		"$build/linux-$host/$p" --completion-script-zsh > "$share/completion/_$p"
	done
	sed -e 's,^# /etc/systemd/system/,# /usr/lib/systemd/system/,' -e 's,/usr/local/bin/,/usr/bin/,' \
		-e 's,DynamicUser=yes,User=gpu_leak_exporter,' -e 's,^Documentation=,&man:gpu_leak_exporter(1) ,' \
		"$tree/examples/gpu_leak_exporter.service" > "$share/gpu_leak_exporter.service"
	printf 'gpu-leak-exporter (%s-1) unstable; urgency=medium\n\n  * CHANGELOG.md in this folder says what is new.\n\n -- %s  %s\n' "$version" \
		"$(sed -n 's/^maintainer: //p' deploy/packages/nfpm.yaml)" "$(date -R -u -d "@$SOURCE_DATE_EPOCH")" | gzip -9n > "$share/changelog.Debian.gz"
}

# The pages, for who has no repository, in the folders that their links name. What a link names that is not packed is at its place in the repository.
pages() {
	local dir
	dir=$(realpath -m "$share/pages")
	mkdir -p "$dir"
	(cd "$tree" && find . \( -name '*.md' -o -path './docs/*.png' \) -not -path './.*' -not -path './probe/*' -print0 | xargs -0 cp --parents --target-directory="$dir")
	ln -s ../../tree/{dashboards,examples,probe} "$dir" # only to look them up
	(cd "$dir" && find . -name '*.md' -print0 | xargs -0 env VERSION="$version" perl -pi -e '
		BEGIN { use File::Basename; }
		s{\]\(([^)#\s:]+)((?:#[^)\s]*)?)\)}{
			my ($path, $at) = (dirname($ARGV) . "/$1", $2);
			my @up; for (split m,/,, $path) { $_ eq ".." ? pop @up : ($_ ne "." && push @up, $_) }
			-e $path ? "]($1$at)" : "](https://github.com/gpuleak/gpu_leak_exporter/blob/v$ENV{VERSION}/" . join("/", @up) . "$at)"
		}ge')
	rm "$dir"/{dashboards,examples,probe}
	find "$dir" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

packages() { # ARCH
	ln -sfn "linux-$1" $build/package
	for kind in deb rpm; do
		ARCH=$1 VERSION=$version "$bin/nfpm" package --config deploy/packages/nfpm.yaml --packager $kind --target "$out/"
	done
}

laptop() { # SYSTEM ARCH
	local dir=$build/gpuleaktool-$version.$1-$2 ext=
	[[ $1 != windows ]] || ext=.exe
	mkdir -p "$dir"
	CGO_ENABLED=0 GOOS=$1 GOARCH=$2 go build -trimpath -ldflags "-s -w \
		-X github.com/prometheus/common/version.Version=$version \
		-X github.com/prometheus/common/version.Revision=$revision \
		-X github.com/prometheus/common/version.Branch=$branch" -o "$dir/gpuleaktool$ext" ./cmd/gpuleaktool
	cp LICENSE "$dir"
	if [[ $1 = windows ]]; then
		find "$dir" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
		(cd "$build" && find "${dir##*/}" | sort | zip -qX "${dir##*/}.zip" -@)
		mv "$dir.zip" "$out"
	else
		tar czf "$out/${dir##*/}.tar.gz" -C "$build" "${dir##*/}"
	fi
}

# The chart with the dashboards and rules, which lie outside of its folder. helm package would write the time.
chart() {
	cp -rL "$tree/deploy/helm/gpu-leak-exporter" "$build/"
	sed -i "s/^\(version\|appVersion\): .*/\1: $version/" "$build/gpu-leak-exporter/Chart.yaml"
	tar czf "$out/gpu-leak-exporter-$version.tgz" -C "$build" gpu-leak-exporter
}

rm -rf "$build" "$out"
mkdir -p "$out" "$tree"
git ls-files -z | xargs -0 cp --parents --no-dereference --target-directory="$tree"
for arch in "$host" $(printf '%s\n' amd64 arm64 | grep -vx "$host"); do
	cc=${compiler[$arch]}
	[[ $arch != "$host" ]] || cc=gcc
	GOARCH=$arch CC=$cc "$bin/promu" build --prefix "$build/linux-$arch" >/dev/null
done
shared
pages
for arch in amd64 arm64; do
	GOARCH=$arch "$bin/promu" tarball --prefix "$out" "$build/linux-$arch"
	packages $arch
done
laptop darwin arm64
laptop darwin amd64
laptop windows amd64
for p in "${programs[@]}"; do
	# What the program says that it is made of. The time is that of the commit.
	"$bin/cyclonedx-gomod" bin -json -noserial -version "v$version" "$build/linux-$host/$p" 2>/dev/null |
		sed 's/^\( *"timestamp": \)".*"/\1"'"$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)"'"/' > "$out/$p-$version.cdx.json"
done
chart
(cd "$out" && sha256sum -- * > sha256sums.txt)
ls -l "$out"
