#!/bin/sh
# Builds the image where neither a Docker daemon nor a registry of images can be reached: as root, with podman, runc and
# debootstrap. The base is then Debian with Debian's own Python 3.11, in place of the one that the Dockerfile pins.
# Debian's mirror is debootstrap's default; pip uses this machine's authorities and /etc/pip.conf. What is built already
# is used again.   Usage, from anywhere: deploy/docker/build_offline.sh [IMAGE]
set -eu
image=${1:-localhost/crowdblend:offline}
base=localhost/crowdblend-base:bookworm
root=$(cd "$(dirname "$0")/../.." && pwd)

for tool in podman runc debootstrap; do
    command -v "$tool" >/dev/null || missing="${missing:-} $tool"
done
if [ -n "${missing:-}" ]; then
    echo "build_offline.sh needs$missing (Debian: apt install$missing); nothing was built" >&2
    exit 2
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "build_offline.sh needs root, for debootstrap; nothing was built" >&2
    exit 2
fi

if ! podman image exists "$base"; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    debootstrap --variant=minbase --include=python3,python3-dev,python3-venv,ca-certificates bookworm "$folder/base" >"$folder/log" ||
        { tail -n 5 "$folder/log" >&2; exit 1; }
    ln -s python3 "$folder/base/usr/bin/python"
    rm -rf "$folder/base/var/cache/apt" "$folder/base/var/lib/apt/lists"
    tar -C "$folder/base" -c . | podman import --quiet - "$base" >/dev/null
fi

# Mounted while the image is built, and not part of it.
set -- --volume /etc/ssl/certs:/etc/ssl/certs:ro
if [ -f /etc/pip.conf ]; then
    set -- "$@" --volume /etc/pip.conf:/etc/pip.conf:ro
fi
exec podman build --isolation chroot --pull=never --build-arg "BASE=$base" "$@" \
    --file "$root/deploy/docker/Dockerfile" --tag "$image" "$root"
