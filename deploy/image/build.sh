#!/usr/bin/env bash
# Makes the image of the programs for this machine's architecture with buildah, as a file that docker, podman and
# containerd load. One revision and one libc6 give the same bytes.
#
#   deploy/image/build.sh BINARIES ARCHIVE    the folder of the programs; the file to write
set -euo pipefail
binaries=$(realpath "$1") archive=$(realpath -m "$2")
cd "$(dirname "$0")/../.."
version=$(<VERSION)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
umask 022
mkdir -p "$root"/usr/{bin,lib} "$root"/usr/share/doc/gpu-leak-exporter "$root"/{etc,tmp,var/lib/gpu_leak_exporter}
ln -s usr/lib "$root/lib"
install -m 755 "$binaries"/{gpu_leak_exporter,gpuleaktool} "$root/usr/bin/"
install -m 644 LICENSE "$root/usr/share/doc/gpu-leak-exporter/copyright"
echo 'gpu_leak_exporter:x:65532:65532::/var/lib/gpu_leak_exporter:/' > "$root/etc/passwd"
# The libraries of libc6, without the tables of character sets.
dpkg -L libc6 | grep -E '^(/usr)?/lib(/[a-z0-9_]+-linux-gnu|64)?/[^/]+\.so[.0-9]*$' | while read -r file; do
	target=$root/usr${file#/usr}
	mkdir -p "${target%/*}"
	install -m 755 "$file" "$target"
done
[[ ! -e $root/usr/lib64 ]] || ln -s usr/lib64 "$root/lib64"
chown -R 65532:65532 "$root/var/lib/gpu_leak_exporter"
chmod 1777 "$root/tmp"

tag=localhost/gpu-leak-exporter:$version
buildah=(buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run")
"${buildah[@]}" build --quiet --isolation chroot --timestamp "$SOURCE_DATE_EPOCH" --tag "$tag" --file deploy/image/Containerfile "$root" >/dev/null
rm -f "$archive"
"${buildah[@]}" push --quiet "$tag" "docker-archive:$archive:$tag"
"${buildah[@]}" rmi --force "$tag" >/dev/null
