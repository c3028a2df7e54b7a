#!/usr/bin/env bash
# Makes the image of the programs for amd64 and arm64 with buildah, as one file (an OCI archive) that containerd and skopeo
# load. One revision and one libc6 give the same bytes. It downloads Debian's libc6 for both.
#
#   deploy/image/build.sh BUILD ARCHIVE    the folder with linux-amd64 and linux-arm64; the file to write
set -euo pipefail
build=$(realpath "$1") archive=$(realpath -m "$2")
cd "$(dirname "$0")/../.."
version=$(<VERSION)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

# The libc6 of both architectures, with all that Debian has mended, in folders of their own: what the machine has installed stays as
# it is, and what compilers for another architecture come with is older.
mkdir -p "$work"/apt/{state/lists,cache/archives}/partial
cat > "$work/apt/apt.conf" <<END
Dir::State "$work/apt/state";
Dir::State::status "/dev/null";
Dir::Cache "$work/apt/cache";
APT::Architecture "amd64";
APT::Architectures { "amd64"; "arm64"; };
APT::Sandbox::User "root";
END
(
	cd "$work/apt"
	export APT_CONFIG=$work/apt/apt.conf
	apt-get update -qq
	apt-get download -qq libc6:amd64 libc6:arm64
	for arch in amd64 arm64; do dpkg-deb --extract libc6_*_$arch.deb "$work/libc6-$arch"; done
)

root() { # ARCH
	local root=$work/root-$1 file target
	mkdir -p "$root"/usr/{bin,lib} "$root"/usr/share/doc/gpu-leak-exporter "$root"/{etc,tmp,var/lib/gpu_leak_exporter}
	ln -s usr/lib "$root/lib"
	install -m 755 "$build/linux-$1"/{gpu_leak_exporter,gpuleaktool} "$root/usr/bin/"
	install -m 644 LICENSE "$root/usr/share/doc/gpu-leak-exporter/copyright"
	echo 'gpu_leak_exporter:x:65532:65532::/var/lib/gpu_leak_exporter:/' > "$root/etc/passwd"
	# The libraries, without the tables of character sets.
	(cd "$work/libc6-$1" && find . -name '*.so*') | grep -E '^\.(/usr)?/lib(/[a-z0-9_]+-linux-gnu|64)?/[^/]+\.so[.0-9]*$' | while read -r file; do
		target=${file#./}
		target=$root/usr/${target#usr/}
		mkdir -p "${target%/*}"
		cp -P "$work/libc6-$1/$file" "$target"
	done
	[[ ! -e $root/usr/lib64 ]] || ln -s usr/lib64 "$root/lib64"
	chown -R 65532:65532 "$root/var/lib/gpu_leak_exporter"
	chmod 1777 "$root/tmp"
}

tag=localhost/gpu-leak-exporter:$version
buildah=(buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run")
for arch in amd64 arm64; do
	root $arch
	"${buildah[@]}" build --quiet --isolation chroot --arch $arch --timestamp "$SOURCE_DATE_EPOCH" --manifest "$tag" --file deploy/image/Containerfile "$work/root-$arch" >/dev/null
done
"${buildah[@]}" manifest push --quiet --all "$tag" "oci:$work/oci:$tag" >/dev/null
# By this name containerd knows it.
sed -i 's,"org.opencontainers.image.ref.name":,"io.containerd.image.name":"'"$tag"'"\,&,' "$work/oci/index.json"
tar cf "$archive" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w --format=gnu -C "$work/oci" .
