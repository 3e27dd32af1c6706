#!/usr/bin/env -S python3 -B
"""A stream that others publish to: the official JavaScript client publishes and knows nothing of Once,
`once work` runs a program per message, and effects are counted from outside.
"""

import json
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
from real_processes import SystemTest, skip_loudly  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PUBLISHER = Path(__file__).parent / "support" / "foreign_publisher" / "publish.js"
PACKAGES = ROOT / "build" / "nats-js" / "node_modules"
TASKS = 40


def server_program():
    fetched = ROOT / "build" / "nats-server" / "usr" / "sbin" / "nats-server"
    given = os.environ.get("ONCE_NATS_SERVER")
    return given or (str(fetched) if fetched.exists() else None)


class ForeignStream:
    """What holds on any kind of stream; `retention` says which."""

    def setUp(self):
        super().setUp()
        program = server_program()
        if program is None:
            skip_loudly(self, "there is no nats-server; tools/nats-server fetches one")
        if not (PACKAGES / "nats").exists():
            skip_loudly(self, "there is no JavaScript client of NATS; tools/nats-js fetches it")
        version = self.once("version").out
        if "nats" not in self.once("queue", "list", "--store", "nats://127.0.0.1:1/x").err.lower():
            skip_loudly(self, f"this once has no NATS store: {version}")
        (self.folder / "server.conf").write_text(
            f'listen: "127.0.0.1:-1"\nports_file_dir: "{self.folder}"\n'
            f'jetstream {{ store_dir: "{self.folder}/data" }}\n'
        )
        server = subprocess.Popen(
            [program, "-c", self.folder / "server.conf"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(self._end, server)
        ports = self.folder / f"nats-server_{server.pid}.ports"
        self.until(lambda: ports.exists() and ports.read_text().endswith("}"), "the server is up")
        self.url = json.loads(ports.read_text())["nats"][0]
        self.environment["ONCE_STORE"] = self.url + "/test"
        self.publisher = subprocess.Popen(
            ["node", PUBLISHER, self.url],
            env={**os.environ, "NODE_PATH": str(PACKAGES)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self._end, self.publisher)
        # A window so short that what is published again is a message of its own.
        self.tell(
            stream={
                "name": "ORDERS",
                "subjects": ["orders.>"],
                "retention": self.retention,
                "duplicate_window": 100_000_000,
            }
        )

    def tell(self, **command):
        self.publisher.stdin.write(json.dumps(command) + "\n")
        self.publisher.stdin.flush()
        answer = self.publisher.stdout.readline()
        self.assertTrue(answer, "the publisher has ended")
        return json.loads(answer)

    def publish(self, data, **more):
        """A new message, also when its id was published before: then after the server's window."""
        answer = {}

        def stored():
            answer.update(self.tell(subject="orders.new", data=data, **more))
            return not answer["duplicate"]

        self.until(stored, "the server's window is over")
        return answer["sequence"]

    def states(self):
        items = self.ok("list", "--queue", "q", "--limit", "1000", "--json").lines
        return {item["sequence"]: (item["key"], item["state"]) for item in items}

    def effects(self):
        return self.read("effects").splitlines()

    def test_each_key_has_its_effect_once_though_workers_are_killed(self):
        self.ok("queue", "add", "q", "--stream", "ORDERS", "--key", "header:Nats-Msg-Id",
                "--lease", "8s")
        # The effect is made at most once per key by the program itself, which is told the key; a second
        # run is seen in `runs`. One run hangs, and its worker is killed.
        program = self.script(
            "bill",
            'echo "$ONCE_KEY" >> runs\n'
            'if [ "$ONCE_KEY" = m20 ] && [ "$ONCE_ATTEMPT" = 1 ]; then\n'
            "  echo $$ > hangs; sleep 600\n"
            "fi\n"
            'echo "$ONCE_KEY $(cat)" >> effects\n',
        )
        doomed = self.worker("doomed", "--", program)
        for n in range(TASKS):
            self.publish(f'{{"amount":{n}}}', msgID=f"m{n}")
        self.pids("hangs")
        doomed.send_signal(signal.SIGKILL)
        doomed.wait()
        # The publisher was not sure, and sends the first half again.
        for n in range(TASKS // 2):
            self.publish(f'{{ "amount" : {n} }}', msgID=f"m{n}")
        conflicting = self.publish('{"amount":-1}', msgID="m3")
        nameless = self.publish('{"amount":1}')
        heirs = [self.worker(f"heir{n}", "--until-empty", "--", program) for n in range(2)]
        for heir in heirs:
            heir.wait(timeout=90)
        # Two tasks ended dead: the conflict and the one without a key. One worker or both recorded them.
        self.assertIn(sorted(heir.returncode for heir in heirs), ([0, 1], [1, 1]))

        self.assertEqual(
            sorted(f'm{n} {{"amount":{n}}}' for n in range(TASKS)), sorted(self.effects())
        )
        runs = self.read("runs").splitlines()
        self.assertEqual(["m20"], [key for key in set(runs) if runs.count(key) > 1])
        status = self.status()
        self.assertEqual(
            (TASKS, TASKS // 2, 2),
            (status["completed"], status["duplicate"], status["dead"]),
            status,
        )
        self.assertEqual(0 if self.retention == "workqueue" else TASKS * 3 // 2 + 2,
                         self.tell(look="ORDERS")["messages"])
        self.assertEqual(["lost", "completed"], self.outcomes("m20"))
        dead = {line["sequence"]: line for line in self.ok("dead", "list", "--json").lines}
        self.assertIn("conflicting_duplicate", dead[conflicting]["error"])
        self.assertIn("no header Nats-Msg-Id", dead[nameless]["error"])

    def test_a_dead_letter_is_seen_and_retried_by_its_key(self):
        self.ok("queue", "add", "q", "--stream", "ORDERS", "--topic", "orders.*",
                "--key", "{order.id}")
        self.publish('{"order":{"id":"a b"}}')
        self.settle("sh", "-c", "exit 65", exits=1)
        (dead,) = self.ok("dead", "list", "--json").lines
        self.assertEqual(("ORDERS:1", "a b", "orders.new"), (dead["id"], dead["key"], dead["topic"]))
        self.assertEqual("ORDERS:1", self.ok("inspect", "a b", "--json").line["id"])
        self.assertIn('{"order":{"id":"a b"}}', self.ok("dead", "show", "a b").out)
        self.ok("dead", "retry", "a b", "--queue", "q")
        self.settle("cat")
        self.assertEqual('{"order":{"id":"a b"}}\n', self.ok("wait", "ORDERS:1", "--queue", "q").out)

    def test_what_cannot_be_is_refused_with_the_reason(self):
        self.assertIn("there is no stream 'NONE'",
                      self.refused(6, "queue", "add", "q", "--stream", "NONE", "--key", "{a}"))
        self.assertIn("say by --key", self.refused(2, "queue", "add", "q", "--stream", "ORDERS"))
        self.ok("queue", "add", "q", "--stream", "ORDERS", "--key", "{a}")
        self.assertEqual("ORDERS", self.ok("queue", "show", "q", "--json").line["stream"])
        self.assertIn("can't be changed", self.refused(2, "queue", "set", "q", "--stream", "OTHER"))


class WorkQueue(ForeignStream, SystemTest):
    retention = "workqueue"


class Limits(ForeignStream, SystemTest):
    retention = "limits"


if __name__ == "__main__":
    unittest.main()
