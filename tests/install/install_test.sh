#!/usr/bin/env bash
# Installs Once, builds tests/install/consumer against what was installed, by CMake and by
# pkg-config, and runs it. Static: the build that is being tested; shared: one of its own, of the same
# objects.
# Usage: install_test.sh static|shared SOURCE BUILD VERSION CXX
set -euo pipefail

kind=$1 source=$2 build=$3 version=$4 cxx=$5
scratch=$build/install-test/$kind
prefix=$scratch/usr
rm -rf "$prefix" "$scratch/consumer" "$scratch/examples" "$scratch/staged"
mkdir -p "$scratch"

fail() {
  echo "install_test: $*" >&2
  exit 1
}

# How the objects of that library are compiled, wherever the build lies.
compiled_by() {
  ninja -C "$1" -t commands "$2" | grep -F ' -c ' | sed "s#$1#BUILD#g" | sort
}

# Does the last step to that file and no other.
make_only() {
  (cd "$1" && sh -c "$(ninja -t commands -s "$2")")
}

if [[ $kind == shared ]]; then
  settings=()
  while IFS= read -r line; do settings+=("-D$line"); done < <(
    grep -E '^(CMAKE_BUILD_TYPE|CMAKE_CXX_FLAGS[A-Z_]*|ONCE_(NATS|UNITY|SANITIZE|WERROR)):' \
      "$build/CMakeCache.txt")
  shared=$scratch/build
  rm -rf "$shared"
  cmake --no-warn-unused-cli -S "$source" -B "$shared" -G Ninja "${settings[@]}" -DCMAKE_CXX_COMPILER="$cxx" \
    -DBUILD_SHARED_LIBS=ON -DONCE_BUILD_TESTS=OFF -DONCE_BUILD_CLI=OFF -DONCE_MUTABLE=ON
  if cmp -s <(compiled_by "$build" libonce.a) <(compiled_by "$shared" "libonce.so.$version"); then
    cp -R "$build"/CMakeFiles/once_*.dir "$shared/CMakeFiles"
    make_only "$shared" "libonce.so.$version"
    make_only "$shared" libonce.so
  else
    cmake --build "$shared"
  fi
  build=$shared
fi

# A package is made with DESTDIR; people install with a prefix.
DESTDIR=$scratch/staged cmake --install "$build" --prefix /usr >/dev/null
[[ -f $scratch/staged/usr/include/once/once.h ]] || fail "DESTDIR was not respected"
cmake --install "$build" --prefix "$prefix" >/dev/null

! grep -rlF "$source" "$prefix/lib/cmake" "$prefix/lib/pkgconfig" "$prefix/include" ||
  fail "installed files name the source folder"

if [[ $kind == shared ]]; then
  [[ -L $prefix/lib/libonce.so && ! -e $prefix/lib/libonce.a ]] || fail "not a shared library"
  shown=$(nm -D --defined-only -C "$prefix/lib/libonce.so" | cut -d' ' -f3- |
    grep -vE '^((typeinfo|typeinfo name|vtable) for )?once::v1::' || true)
  [[ -z $shown ]] || fail "the shared library shows more than once::v1: $shown"
else
  [[ -f $prefix/lib/libonce.a ]] || fail "not a static library"
  "$prefix/bin/once" version | grep -qF "$version" || fail "the installed command is not $version"
fi

cmake -S "$source/tests/install/consumer" -B "$scratch/consumer" -G Ninja \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$scratch/consumer"
[[ $("$scratch/consumer/consumer") == "$version" ]] || fail "the consumer made by CMake failed"

# The C++ examples compile with what is installed, too.
cmake -S "$source/examples/cpp" -B "$scratch/examples" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$scratch/examples"
rm -f "$scratch/zone.db"*
"$scratch/examples/example_workflow" "$scratch/zone.db" | grep -q '^completed ' ||
  fail "an example that was built with the installed library failed"

installed=$(cd "$prefix/include/once" && echo *)
expected="audit.h consumer.h doctor.h flows.h json.h ledger.h metrics.h once.h queues.h result.h task.h tasks.h \
testing.h version.h view.h worker.h workflow.h zone.h"
[[ $installed == "$expected" ]] || fail "other headers are installed: $installed"

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
[[ $(pkg-config --modversion once) == "$version" ]] || fail "once.pc has another version"
read -ra flags <<<"$(pkg-config --cflags --libs once)"
"$cxx" -std=c++20 "$source/tests/install/consumer/main.cpp" -o "$scratch/by-pkg-config" "${flags[@]}"
[[ $(LD_LIBRARY_PATH=$prefix/lib "$scratch/by-pkg-config") == "$version" ]] ||
  fail "the consumer made by pkg-config failed"
