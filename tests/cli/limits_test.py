#!/usr/bin/env -S python3 -B
"""docs/limits.md: its numbers are those of the source, and the command refuses what is over them."""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli/support"))
from once_command import OnceTest  # noqa: E402

DOC = (ROOT / "docs/limits.md").read_text()


def value(expression):
    number = expression.replace("'", "").replace("U", "")
    shift = re.fullmatch(r"(\d+) ?<< ?(\d+)", number)
    return int(shift.group(1)) << int(shift.group(2)) if shift else int(number)


class Numbers(OnceTest):
    def test_are_those_of_the_source(self):
        checked = 0
        for line in DOC.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) != 3 or "`k" not in cells[2]:
                continue
            source = (ROOT / re.search(r"\S+\.(?:h|cpp)", cells[2]).group()).read_text()
            for name in re.findall(r"`(k\w+)`", cells[2]):
                with self.subTest(constant=name):
                    number = value(re.search(rf"\b{name} ?= ?([^;]+);", source).group(1).strip())
                    if cells[1] != "as a result":
                        self.assertIn(str(number), re.findall(r"\d+", cells[1]))
                    checked += 1
        self.assertGreater(checked, 15)

    def test_every_file_that_is_named_exists(self):
        for path in re.findall(r"(?:src|cli)/[\w/]+\.(?:h|cpp)", DOC):
            self.assertTrue((ROOT / path).is_file(), path)


class Refused(OnceTest):
    def test_with_the_limit_and_nothing_is_done(self):
        big = "x" * (1 << 20)
        (self.folder / "big.json").write_text(f'"{big}"')
        (self.folder / "huge").write_bytes(b"x" * ((16 << 20) + 1))
        for arguments, limit in [
            (["publish", "t", "--id", "x" * 1025], "1024"), (["publish", "t" * 513], "512"),
            (["publish", "t", "@big.json"], "1048576"), (["publish", "t", "--raw", "@huge"], "16 MiB"),
            (["publish", "t", "--header", "a=" + "x" * 65536], "65536"),
            (["publish", "t", "[" * 513 + "]" * 513], "512"),
            (["queue", "add", "x" * 65, "--topic", "t"], "64"), (["queue", "add", "q", "--topic", "t", "--lease", "50ms"], "100ms"),
            (["queue", "add", "q", "--topic", "t", "--max-running", "2000"], "1024"),
            (["queue", "add", "q", "--topic", "t", "--window", "20000"], "10000"),
            (["queue", "add", "q", "--topic", "t", "--backoff", ",".join(["1s"] * 101)], "100"),
        ]:  # fmt: skip
            with self.subTest(arguments=[word[:20] for word in arguments]):
                self.assertIn(limit, self.refused(2, *arguments))
        self.assertEqual([], [line for line in self.once("log", "--json").out.splitlines() if "error" not in line])


if __name__ == "__main__":
    unittest.main()
