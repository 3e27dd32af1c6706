"""One process of a peer: a publisher, a worker. All peers speak the same few lines.

It is started with a role and `--name value` options and says {"ready": true} when it is loaded and
connected. On `go` it works, and then says one JSON line. `stop` tells a worker that nothing more will
come. When its input ends, so does it.
"""
import contextlib
import json
import subprocess
import threading

PATIENCE = 300  # seconds


class Failed(Exception):
    """A peer that could not do its work; the text says why."""


class Role:
    def __init__(self, command, name, folder, **options):
        words = [*map(str, command), name]
        for key, value in options.items():
            if value is not None:
                words += [f"--{key}", str(value)]
        self.name = name
        self._log = folder / f"{name}.log"
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=log, text=True, cwd=folder)
        self.pid = self._process.pid

    def __enter__(self):
        try:
            self._answer()
        except Failed:
            self.kill()
            raise
        return self

    def __exit__(self, failure, *_):
        if not failure:
            self._leave()
        self.kill()

    def _leave(self):
        """It ends by itself when its input does."""
        with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
            self._process.stdin.close()
            self._process.wait(timeout=30)

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def tell(self, word):
        try:
            self._process.stdin.write(word + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._why()) from None

    def _answer(self):
        patience = threading.Timer(PATIENCE, self._process.kill)
        patience.start()
        try:
            line = self._process.stdout.readline()
        finally:
            patience.cancel()
        if not line:
            raise Failed(self._why())
        return json.loads(line)

    def result(self):
        return self._answer()

    def go(self):
        self.tell("go")
        return self.result()

    def running(self):
        return self._process.poll() is None

    def _why(self):
        said = self._log.read_text(errors="replace").strip().splitlines()[-8:]
        return f"its {self.name} process ended or was silent for {PATIENCE} s: " + (" | ".join(said) or "no message")
