#!/usr/bin/env bash
# Installs the Debian packages that Stagecoach needs: deploy/packages.txt, up to the section named (build | test | more),
# or those of the section `image` alone.
# Idempotent: does nothing when nothing is missing, and needs root only when something is.
set -euo pipefail
cd "$(dirname "$0")/.."

upto=${1:-build}
case $upto in
  build | test | more | image) ;;
  *) echo "usage: deploy/install-deps.sh [build|test|more|image]" >&2; exit 2 ;;
esac

wanted=()
section=build
while read -r line; do
  case $line in
    '# ['*) section=${line#'# ['}; section=${section%]} ;;
    '#'* | '') ;;
    *)
      case $upto:$section in
        build:build | test:build | test:test | image:image | more:build | more:test | more:more) wanted+=("$line") ;;
      esac ;;
  esac
done < deploy/packages.txt

is_installed() { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }
missing=()
for line in "${wanted[@]}"; do
  read -r package _ instead <<< "$line"  # package | instead
  is_installed "$package" || { [ -n "$instead" ] && is_installed "$instead"; } || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "install-deps: all ${#wanted[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo > /dev/null || {
    echo "install-deps: these packages are missing, and only root can install them: ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "install-deps: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
