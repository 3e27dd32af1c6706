#!/usr/bin/env -S python3 -B
"""An HTTP/1.1 proxy that loses requests and responses, by a seed.

Usage: lossy_proxy.py --to HOST:PORT [--drop-requests P] [--drop-responses P] [--seed N]

It prints `listening on PORT`. A dropped request is not forwarded. A dropped response was forwarded
and answered, but the client does not get the answer. In both cases the client's connection ends.
The n-th request that the proxy reads has the same fate in every run with the same seed.
"""

import argparse
import random
import socket
import sys
import threading


class Gone(Exception):
    """The other side has ended the connection."""


class Reader:
    """Reads whole HTTP messages from a socket."""

    def __init__(self, sock):
        self.sock, self.buffer = sock, b""

    def more(self):
        piece = self.sock.recv(1 << 16)
        if not piece:
            raise Gone
        self.buffer += piece

    def message(self):
        """One message with a Content-Length or without a body."""
        while b"\r\n\r\n" not in self.buffer:
            self.more()
        head, _, rest = self.buffer.partition(b"\r\n\r\n")
        size = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                size = int(value)
        whole = len(head) + 4 + size
        while len(self.buffer) < whole:
            self.more()
        message, self.buffer = self.buffer[:whole], self.buffer[whole:]
        return message


class Proxy:
    def __init__(self, to, drop_requests=0.0, drop_responses=0.0, seed=0, port=0):
        self.to = to
        self.drop_requests, self.drop_responses = drop_requests, drop_responses
        self.random, self.mutex = random.Random(seed), threading.Lock()
        self.requests = self.lost_requests = self.lost_responses = 0
        self.listening = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port = self.listening.getsockname()[1]

    def start(self):
        threading.Thread(target=self.run, daemon=True).start()
        return self

    def run(self):
        while True:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def close(self):
        self.listening.close()

    def fate_of(self, request):
        """Whether a request is lost, and whether its response is. A test may override this."""
        with self.mutex:
            self.requests += 1
            request = self.random.random() < self.drop_requests
            response = self.random.random() < self.drop_responses
            self.lost_requests += request
            self.lost_responses += response and not request
            return request, response

    def pass_on(self, request, response):
        """The response for the client. A test may override this to look at it or to delay it."""
        return response

    def serve(self, client):
        server = None
        try:
            reader = Reader(client)
            while True:
                request = reader.message()
                lose_request, lose_response = self.fate_of(request)
                if lose_request:
                    return
                if server is None:
                    server = socket.create_connection(self.to)
                    answers = Reader(server)
                server.sendall(request)
                response = self.response(client, answers)
                if lose_response:
                    return
                client.sendall(self.pass_on(request, response))
                if b"\r\nconnection: close" in response.split(b"\r\n\r\n")[0].lower():
                    return
        except (OSError, Gone, ValueError):
            pass
        finally:
            client.close()
            if server is not None:
                server.close()

    @staticmethod
    def response(client, answers):
        """The server's response. Ends early if the client goes away, as a long poll may."""
        answers.sock.settimeout(0.25)
        while True:
            try:
                return answers.message()
            except TimeoutError:
                client.setblocking(False)
                try:
                    if client.recv(1, socket.MSG_PEEK) == b"":
                        raise Gone
                except BlockingIOError:
                    pass
                finally:
                    client.setblocking(True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", required=True, metavar="HOST:PORT")
    parser.add_argument("--port", type=int, default=0, help="of the proxy; 0 takes a free one")
    parser.add_argument("--drop-requests", type=float, default=0.0, metavar="P")
    parser.add_argument("--drop-responses", type=float, default=0.0, metavar="P")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    host, _, port = given.to.rpartition(":")
    to = (host.strip("[]"), int(port))
    proxy = Proxy(to, given.drop_requests, given.drop_responses, given.seed, given.port)
    print(f"listening on {proxy.port}", flush=True)
    proxy.run()


if __name__ == "__main__":
    sys.exit(main())
