#!/usr/bin/env bash
# Builds the images of an installation without a container daemon, and tries them. As root, on Debian 12, with the packages
# of `deploy/install-deps.sh image`.
#
#   deploy/container/build.sh                                 # compiles in an image, with a base made by debootstrap
#   deploy/container/build.sh --from-binaries build/release/bin   # what is built already, on the same Debian
#   deploy/container/build.sh --base docker.io/library/debian:bookworm-slim   # where a registry is in reach
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
  cat >&2 <<'EOF'
usage: deploy/container/build.sh [OPTION]...
  --from-binaries DIR   copy the three binaries from DIR instead of compiling them
  --base IMAGE          a Debian 12 image to start from; default: one made by debootstrap, kept as localhost/stagecoach-base
  --mirror URL          of Debian, for debootstrap and in the images; default: DEBIAN_MIRROR, or what debootstrap takes
  --prefix NAME         of the images' names; default: localhost
  --tag TAG             default: the version in CMakeLists.txt
  --save DIR            also write each image to DIR, as an archive for `kind load` and `ctr images import`
  --no-smoke            do not try the images (tests/kubernetes/pods_test.py)
EOF
  exit 2
}

binaries='' base='' save='' smoke=yes prefix=localhost
mirror=${DEBIAN_MIRROR:-}
tag=$(sed -n 's/^project(stagecoach VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
while [ $# -gt 0 ]; do
  case $1 in
    --no-smoke) smoke=no; shift; continue ;;
    --from-binaries | --base | --mirror | --prefix | --tag | --save) [ $# -ge 2 ] || usage ;;
    *) usage ;;
  esac
  case $1 in
    --from-binaries) binaries=$2 ;;
    --base) base=$2 ;;
    --mirror) mirror=$2 ;;
    --prefix) prefix=$2 ;;
    --tag) tag=$2 ;;
    --save) save=$2 ;;
  esac
  shift 2
done

for tool in podman debootstrap; do
  command -v "$tool" > /dev/null || { echo "build: $tool is missing: deploy/install-deps.sh image" >&2; exit 1; }
done
scratch=$(mktemp -d "${TMPDIR:-/tmp}/stagecoach-image.XXXXXX")
trap 'rm -rf --one-file-system "$scratch"' EXIT

# A minimal Debian 12 with its updates, from the mirror.
make_base() {
  local root=$scratch/base
  echo "build: a base image by debootstrap, from ${mirror:-its own mirror}"
  debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"} > "$scratch/debootstrap.log" 2>&1 ||
    { tail -n 20 "$scratch/debootstrap.log" >&2; exit 1; }
  mirror=$(awk '$1 == "deb" { print $2; exit }' "$root/etc/apt/sources.list")  # that was used
  printf 'deb %s %s main\n' "$mirror" bookworm "$mirror" bookworm-updates "${mirror%/}-security" bookworm-security \
    > "$root/etc/apt/sources.list"
  rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb "$root"/var/log/*.log
  tar -C "$root" --one-file-system -c . | podman import - "$base" > /dev/null
  rm -rf --one-file-system "$root"
}

# What an image may see of the tree: with prebuilt binaries not the sources.
make_context() {
  mkdir "$scratch/context"
  if [ -z "$binaries" ]; then
    git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -C "$scratch/context" -x
    return
  fi
  mkdir -p "$scratch/context/deploy" "$scratch/context/prebuilt"
  cp -R deploy/container "$scratch/context/deploy/"
  for binary in stagecoach stagecoach-coordinator stagecoach-worker; do
    strip -o "$scratch/context/prebuilt/$binary" "$binaries/$binary"
  done
}

if [ -z "$base" ]; then
  base=localhost/stagecoach-base:bookworm
  podman image exists "$base" || make_base
fi
make_context
for component in coordinator worker; do
  image=$prefix/stagecoach-$component:$tag
  echo "build: $image"
  podman build --quiet --isolation chroot --build-arg "BASE=$base" --target "$component" --tag "$image" \
    --file "$scratch/context/deploy/container/Containerfile" "$scratch/context" > "$scratch/$component.log" 2>&1 ||
    { tail -n 40 "$scratch/$component.log" >&2; exit 1; }
  if [ -n "$save" ]; then
    mkdir -p "$save"
    podman save --quiet --output "$save/stagecoach-$component-$tag.tar" "$image"
  fi
done
podman images --filter "reference=$prefix/stagecoach-*:$tag"
[ "$smoke" = no ] || /usr/bin/python3 tests/kubernetes/pods_test.py "$prefix"/stagecoach-{coordinator,worker}":$tag"
