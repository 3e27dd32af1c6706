#!/usr/bin/env -S python3 -B
"""Runs a test script with its stores on a nats-server of its own: a zone per test.

Usage: on_nats.py SCRIPT [ARGUMENT...]
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import nats_cluster  # noqa: E402


def main():
    nats_cluster.end_without_server()
    with nats_cluster.Cluster() as server:
        return subprocess.call(sys.argv[1:], env={**os.environ, "ONCE_TEST_NATS": server.url()})


if __name__ == "__main__":
    sys.exit(main())
