#!/usr/bin/env -S python3 -B
"""Runs the table of requests and answers with Python's http.client.

Usage: run_python.py --url URL [--lossy] TABLE...
"""

import argparse
import http.client
import json
import re
import sys
import time
from urllib.parse import urlsplit

MOST_TRIES = 50


class Wrong(Exception):
    """The answer is not the one that the table expects."""


class NoAnswer(Exception):
    """The request or its answer was lost."""


def send(address, method, path, headers, body):
    connection = http.client.HTTPConnection(*address, timeout=60)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        if body is not None or method in ("POST", "PUT", "PATCH"):
            connection.putheader("Content-Length", str(len(body or b"")))
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(f"no answer: {error}") from error
    finally:
        connection.close()


def filled(value, saved):
    """The value with its variables replaced. A text that is one variable takes the variable's type."""
    if isinstance(value, str):
        whole = re.fullmatch(r"\$\{(\w+)\}", value)
        if whole:
            return saved[whole[1]]
        return re.sub(r"\$\{(\w+)\}", lambda found: str(saved[found[1]]), value)
    if isinstance(value, list):
        return [filled(each, saved) for each in value]
    if isinstance(value, dict):
        return {name: filled(each, saved) for name, each in value.items()}
    return value


def compare(wanted, got, place):
    if isinstance(wanted, dict):
        if not isinstance(got, dict):
            raise Wrong(f"{place} is {got!r}, not an object")
        for name, each in wanted.items():
            if name not in got:
                raise Wrong(f"{place}.{name} is missing")
            compare(each, got[name], f"{place}.{name}")
    elif isinstance(wanted, list):
        if not isinstance(got, list) or len(got) != len(wanted):
            raise Wrong(f"{place} is {got!r}, not an array of {len(wanted)}")
        for n, each in enumerate(wanted):
            compare(each, got[n], f"{place}.{n}")
    elif wanted in ("<string>", "<number>"):
        kinds = (str,) if wanted == "<string>" else (int, float)
        if not isinstance(got, kinds) or isinstance(got, bool):
            raise Wrong(f"{place} is {got!r}, not a {wanted[1:-1]}")
    elif wanted != got or isinstance(wanted, bool) != isinstance(got, bool):
        raise Wrong(f"{place} is {got!r}, not {wanted!r}")


def look_up(value, path):
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


class Runner:
    def __init__(self, url, lossy):
        parts = urlsplit(url)
        self.address, self.lossy = (parts.hostname, parts.port), lossy

    def answer(self, step, saved):
        method, path = filled(step["request"], saved).split(" ", 1)
        headers, body = dict(step.get("with", {})), None
        if "json" in step:
            headers.setdefault("Content-Type", "application/json")
            body = json.dumps(filled(step["json"], saved)).encode()
        elif "text" in step:
            body = step["text"].encode()
        elif "size" in step:
            body = b"x" * step["size"]
        tries = MOST_TRIES if self.lossy and step.get("repeat") else 1
        for n in range(tries):
            try:
                return send(self.address, method, path, headers, body)
            except NoAnswer as error:
                if n + 1 == tries:
                    raise Wrong(str(error)) from error
                time.sleep(0.01)

    def step(self, step, saved):
        if step.get("only") == "direct" and self.lossy:
            return
        status, headers, body = self.answer(step, saved)
        expected = {**step, **(step.get("lossy", {}) if self.lossy else {})}
        allowed = expected["status"] if isinstance(expected["status"], list) else [expected["status"]]
        if status not in allowed:
            raise Wrong(f"the status is {status}, not {expected['status']}: {body.decode(errors='replace').strip()}")
        for name, value in expected.get("headers", {}).items():
            if headers.get(name) != value:
                raise Wrong(f"the header {name} is {headers.get(name)!r}, not {value!r}")
        if "lines" in expected:
            compare(filled(expected["lines"], saved), [json.loads(line) for line in body.splitlines()], "lines")
        if "answer" in expected or expected.get("save"):
            got = json.loads(body)
            compare(filled(expected.get("answer", {}), saved), got, "answer")
            for name, path in expected.get("save", {}).items():
                saved[name] = look_up(got, path)

    def case(self, case):
        saved = {}
        for n, step in enumerate(case["steps"], 1):
            try:
                self.step(step, saved)
            except (Wrong, ValueError, KeyError, IndexError, TypeError) as error:
                return f"step {n}, {step['request']}: {type(error).__name__}: {error}"
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--lossy", action="store_true", help="repeat each request until it is answered")
    parser.add_argument("tables", nargs="+", metavar="TABLE")
    given = parser.parse_args()
    runner, passed, failed = Runner(given.url, given.lossy), 0, 0
    for table in given.tables:
        with open(table, encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        for case in cases:
            if given.lossy and case.get("lossy") is False:
                continue
            problem = runner.case(case)
            print(f"FAILED {case['name']}: {problem}" if problem else f"passed {case['name']}", flush=True)
            passed, failed = passed + (not problem), failed + bool(problem)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
