#!/usr/bin/env python3
"""Does tools/check-layering see what it should? Each case is a small tree with one violation."""
import pathlib
import re
import subprocess
import tempfile
import unittest

CHECKER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check-layering"

CLEAN = {
    "include/once/task.h": "#include <string>\n",
    "include/once/zone.h": '#include "once/task.h"\n',
    "src/core/decide.h": '#include <chrono>\n#include "once/task.h"\n',
    "src/codec/digest.cpp": '#include <openssl/evp.h>\n#include "core/decide.h"\n',
    "src/store/store.h": '#include "core/decide.h"\n',
    "src/store/memory/memory_store.h": '#include "store/store.h"\nnamespace once::store::memory {}\n',
    "src/store/sqlite/database.cpp": '#include <sqlite3.h>\n#include <sys/file.h>\n'
                                     '#include "codec/digest.h"\n#include "store/store.h"\n',
    "src/work/worker.cpp": '#include <thread>\n// not sqlite:: nor "store/sqlite/x.h"\n'
                             '#include "codec/digest.h"\n#include "store/store.h"\n',
    "src/flow/rules/plan.cpp": '#include "core/decide.h"\n',
    "src/flow/definition/reader.cpp": '#include "codec/digest.h"\n#include "flow/rules/plan.h"\n',
    "src/flow/runner.cpp": '#include "flow/definition/reader.h"\n#include "work/worker.h"\n',
    "src/api/zone.cpp": '#include "work/worker.h"\n#include "once/zone.h"\n',
    "src/open.cpp": '#include "store/memory/memory_store.h"\n#include "store/sqlite/database.h"\n'
                    'auto x = store::memory::open();\n',
    "cli/main.cpp": '#include <CLI/CLI.hpp>\n#include <fmt/core.h>\n#include <unistd.h>\n'
                    '#include "cli/app/output.h"\n#include "once/zone.h"\n'
                    '#include "tooling/program.h"\n',
    "src/tooling/program.h": '#include "once/zone.h"\n',
    "src/exec/program.cpp": '#include "tooling/program.h"\n#include "work/worker.h"\n'
                            '// once work --force\nauto a = "--supervisor", b = "once more -- never";\n'
                            "auto c = '\"'; /* once step */ auto d = \"a--b, once \" + work + \"step\";\n",
    "cli/work/work.cpp": 'auto a = "once work --until-empty";\n',
}

VIOLATIONS = {
    "public header sees the core": ("include/once/task.h", '#include "core/decide.h"'),
    "public header sees a third party": ("include/once/task.h", "#include <nlohmann/json.hpp>"),
    "public header sees the operating system": ("include/once/task.h", "#include <unistd.h>"),
    "core sees a codec": ("src/core/decide.h", '#include "codec/digest.h"'),
    "core sees the seam": ("src/core/decide.h", '#include "store/store.h"'),
    "core has a thread": ("src/core/decide.h", "#include <thread>"),
    "core has a mutex": ("src/core/decide.h", "#include <mutex>"),
    "core reads a clock": ("src/core/decide.h", "auto t = std::chrono::steady_clock::now();"),
    "core sees the operating system": ("src/core/decide.h", "#include <sys/time.h>"),
    "a codec sees the seam": ("src/codec/digest.cpp", '#include "store/store.h"'),
    "seam sees a store": ("src/store/store.h", '#include "store/sqlite/database.h"'),
    "seam sees SQLite": ("src/store/store.h", "#include <sqlite3.h>"),
    "a store sees another": ("src/store/memory/memory_store.h", '#include "store/sqlite/database.h"'),
    "a store sees the engine": ("src/store/sqlite/database.cpp", '#include "work/worker.h"'),
    "memory sees SQLite": ("src/store/memory/memory_store.h", "#include <sqlite3.h>"),
    "engine sees a store": ("src/work/worker.cpp", '#include "store/sqlite/database.h"'),
    "engine sees SQLite": ("src/work/worker.cpp", "#include <sqlite3.h>"),
    "engine sees NATS": ("src/work/worker.cpp", "#include <nats/nats.h>"),
    "engine names a store": ("src/work/worker.cpp", "store::sqlite::open(path);"),
    "engine declares into a store": ("src/work/worker.cpp", "namespace once::store::sqlite {"),
    "engine sees the public faces": ("src/work/worker.cpp", '#include "api/zone_state.h"'),
    "faces see a store": ("src/api/zone.cpp", '#include "store/memory/memory_store.h"'),
    "faces name a store": ("src/api/zone.cpp", "auto store = memory::open();"),
    "public header sees the tooling": ("include/once/zone.h", '#include "tooling/program.h"'),
    "tooling sees the engine": ("src/tooling/program.h", '#include "work/worker.h"'),
    "tooling sees the operating system": ("src/tooling/program.h", "#include <unistd.h>"),
    "worker sees the tooling": ("src/work/worker.cpp", '#include "tooling/program.h"'),
    "command sees the engine": ("cli/main.cpp", '#include "work/worker.h"'),
    "command sees SQLite": ("cli/main.cpp", "#include <sqlite3.h>"),
    "command sees Boost": ("cli/main.cpp", "#include <boost/asio.hpp>"),
    "the server sees the command": ("src/server/api.cpp", '#include "cli/app/session.h"'),
    "the server sees a store": ("src/server/api.cpp", '#include "store/store.h"'),
    "the server names a command": ("src/server/api.cpp", 'auto a = "see once list";'),
    "a shape sees the server": ("src/shapes/task_json.cpp", '#include "server/api.h"'),
    "the library sees a shape": ("src/api/zone.cpp", '#include "shapes/task_json.h"'),
    "a codec sees nlohmann": ("src/codec/digest.cpp", "#include <nlohmann/json.hpp>"),
    "JSON sees a codec": ("src/json/json.cpp", '#include "codec/digest.h"'),
    "JSON sees OpenSSL": ("src/json/json.cpp", "#include <openssl/evp.h>"),
    "the rules of workflows have a thread": ("src/flow/rules/plan.cpp", "#include <thread>"),
    "the rules of workflows see a runner": ("src/flow/rules/plan.cpp", '#include "flow/runner.h"'),
    "a definition sees the seam": ("src/flow/definition/reader.cpp", '#include "store/store.h"'),
    "work sees programs": ("src/work/worker.cpp", '#include "exec/program.h"'),
    "work sees workflows": ("src/work/worker.cpp", '#include "flow/runner.h"'),
    "an unknown project": ("src/work/worker.cpp", "#include <absl/strings/str_cat.h>"),
    "an include past the roots": ("src/work/worker.cpp", '#include "../core/decide.h"'),
    "a file in no box": ("src/misc/strings.cpp", "int x;"),
    "a text names a command": ("src/work/worker.cpp", 'auto a = "see \'once queue add\'";'),
    "a text in two parts names a command": ("src/work/worker.cpp", 'auto a = "see once "\n  "audit";'),
    "a text that is added up names a command": ("src/work/worker.cpp", 'auto a = x + "once " + "work";'),
    "a raw text names a command": ("src/work/worker.cpp", 'auto a = R"(once doubt)";'),
    "a text names an option": ("src/work/worker.cpp", 'auto a = "remove it with --force";'),
    "a text begins with an option": ("src/work/worker.cpp", 'auto a = "--max-bytes=-1";'),
    "a public header names an option": ("include/once/zone.h", 'auto a = "(--unique)";'),
}


def run(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            file = pathlib.Path(root, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return subprocess.run([CHECKER, root], capture_output=True, text=True)


class CheckLayering(unittest.TestCase):
    def test_clean_tree_passes(self):
        checked = run(CLEAN)
        self.assertEqual((checked.returncode, checked.stdout), (0, ""), checked.stderr)

    def test_each_violation_is_found_where_it_is(self):
        for what, (name, line) in VIOLATIONS.items():
            with self.subTest(what):
                before = CLEAN.get(name, "")
                checked = run({**CLEAN, name: before + line + "\n"})
                self.assertEqual(checked.returncode, 1, checked.stdout + checked.stderr)
                self.assertEqual(len(checked.stdout.splitlines()), 1, checked.stdout)
                self.assertIn(f"{name}:{before.count(chr(10)) + 1}:", checked.stdout)

    def test_every_command_is_known(self):
        root = CHECKER.parents[1]
        commands = re.search(r"COMMANDS = \((.*?)\)\.split", CHECKER.read_text(), re.DOTALL).group(1)
        known = re.findall(r"[a-z]+", commands)
        declared = re.findall(r"\badd_(\w+)\(CLI::App", (root / "cli/app/commands.h").read_text())
        self.assertEqual(sorted(declared), sorted(known))

    def test_empty_tree_is_no_success(self):
        self.assertEqual(run({}).returncode, 1)


if __name__ == "__main__":
    unittest.main()
