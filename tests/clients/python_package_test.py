#!/usr/bin/env -S python3 -B
"""The Python client as a package: types, the wheel, and its import from a clean environment."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CLIENT = Path(__file__).resolve().parents[2] / "clients" / "python"
PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's packages


def has(*modules):
    found = subprocess.run([PYTHON, "-c", "import " + ", ".join(modules)], capture_output=True)
    return found.returncode == 0


class Package(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="once-package-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_tool(self, *command):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("ONCE_", "PYTHON"))}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    @unittest.skipUnless(has("mypy"), "no mypy here; `tools/setup test` installs it")
    def test_the_types_are_strict(self):
        self.run_tool(PYTHON, "-m", "mypy", "--strict", "--cache-dir", self.folder / "cache", CLIENT / "once")

    @unittest.skipUnless(has("build", "hatchling"), "no build tools here; `tools/setup test` installs them")
    def test_the_wheel_is_built_and_imported(self):
        source = self.folder / "source"
        shutil.copytree(CLIENT, source, ignore=shutil.ignore_patterns("__pycache__", "dist"))
        # Debian's hatchling asks for `editables`, which Debian does not have and no wheel needs.
        build = [PYTHON, "-m", "build", "--no-isolation", "--skip-dependency-check", "--wheel"]
        self.run_tool(*build, "--outdir", self.folder / "dist", source)
        (wheel,) = (self.folder / "dist").glob("once_client-*.whl")
        self.run_tool(sys.executable, "-m", "venv", self.folder / "venv")
        python = self.folder / "venv" / "bin" / "python"
        self.run_tool(python, "-m", "pip", "install", "--no-index", "--quiet", wheel)
        said = self.run_tool(
            python, "-I", "-c",
            "import once, once.aio, importlib.resources, importlib.metadata as m\n"
            "print(once.__file__, importlib.resources.files('once').joinpath('py.typed').is_file())\n"
            "print(m.version('once-client'), m.requires('once-client'))\n"
            "print(all(hasattr(once, name) for name in once.__all__))",
        )
        self.assertIn(str(self.folder / "venv"), said)
        version = next(line for line in (CLIENT / "pyproject.toml").read_text().splitlines() if line.startswith("version"))
        self.assertRegex(said, rf"py True\n{version.split(chr(34))[1]} None\nTrue\n")


if __name__ == "__main__":
    if os.environ.get("ONCE_TEST_NATS"):
        print("SKIPPED: a package is the same on every store")
        sys.exit(77)
    unittest.main()
