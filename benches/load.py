#!/usr/bin/env python3
"""What does a request cost the client? Compares provoke's load client with wrk, ab, h2load and oha, against nginx.

All clients take turns within each round, in an order that is rotated, and every figure is a ratio within a round. The
server has one processor and the client another. See README.md beside this file for what the columns mean.
"""
import argparse
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGES = {"wrk": "wrk", "ab": "apache2-utils", "h2load": "nghttp2-client", "nginx": "nginx", "oha": "oha (cargo)"}
CONFIG = """
daemon off; worker_processes 1; pid {scratch}/nginx.pid; error_log {scratch}/error.log crit;
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_requests 1000000000;
    client_body_temp_path {scratch}/t1; proxy_temp_path {scratch}/t2; fastcgi_temp_path {scratch}/t3;
    uwsgi_temp_path {scratch}/t4; scgi_temp_path {scratch}/t5;
    server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello world\\n"; }} }}
    server {{ listen 127.0.0.1:{port2} http2; location / {{ return 200 "hello world\\n"; }} }}
}}
"""
ONE = ["wrk", "provoke", "ab", "h2load", "oha"]
TWO = ["h2load h2", "provoke h2"]


def note(text):
    print(text, file=sys.stderr, flush=True)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    def __init__(self, scratch, core):
        self.port, self.port2 = free_port(), free_port()
        config = Path(scratch, "nginx.conf")
        config.write_text(CONFIG.format(scratch=scratch, port=self.port, port2=self.port2))
        argv = ["taskset", "-c", str(core), shutil.which("nginx") or "/usr/sbin/nginx", "-p", scratch, "-c", str(config)]
        self.process = subprocess.Popen(argv, start_new_session=True)
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.01)
        raise SystemExit("nginx does not come up")

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def argv(client, server, connections, seconds, pound):
    url, url2 = (f"http://127.0.0.1:{port}/" for port in (server.port, server.port2))
    groups = max(1, -(-connections // 100))
    return {
        "wrk": ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", url],
        "provoke": [pound, url[:-1], str(connections), str(seconds)],
        "ab": ["ab", "-q", "-k", "-c", str(connections), "-t", str(seconds), "-n", "100000000", url],
        "h2load": ["h2load", "--h1", "-t1", f"-c{connections}", f"-D{seconds}", url],
        "oha": ["oha", "--no-tui", "-c", str(connections), "-z", f"{seconds}s", "--output-format", "json", url],
        "h2load h2": ["h2load", "-t1", f"-c{groups}", f"-m{-(-connections // groups)}", f"-D{seconds}", url2],
        "provoke h2": [pound, url2[:-1], str(connections), str(seconds), "2-prior-knowledge"],
    }[client]


def requests(client, said):
    """Returns the number of answered requests that the client reports."""
    if client.startswith("provoke"):
        return json.loads(said.splitlines()[0])["requests"]
    if client == "oha":
        return sum(json.loads(said)["statusCodeDistribution"].values())
    pattern = {
        "wrk": r"(\d+) requests in",
        "ab": r"Complete requests:\s+(\d+)",
    }.get(client, r"requests: .* (\d+) succeeded")
    return int(re.search(pattern, said)[1])


def cell(client, server, connections, options):
    """Runs a client once. Returns requests, CPU seconds and wall seconds."""
    command = ["taskset", "-c", str(options.client_core), *argv(client, server, connections, options.seconds, options.pound)]
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said, complained = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{client}: exit {process.returncode}: {complained.strip()[:200]}")
    return requests(client, said), usage.ru_utime + usage.ru_stime, wall


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2, help="of each invocation")
    parser.add_argument("--connections", type=int, nargs="+", default=[10, 64, 256])
    parser.add_argument("--clients", nargs="+", default=ONE + TWO)
    parser.add_argument("--pound", help="the built example; it is built otherwise")
    parser.add_argument("--client-core", type=int, default=0)
    parser.add_argument("--server-core", type=int, default=1)
    parser.add_argument("--out", help="all cells as JSON")
    options = parser.parse_args()
    if not options.pound:
        subprocess.run(["cargo", "build", "--release", "--quiet", "--package", "provoke-load", "--example", "pound"], check=True, cwd=HERE.parent)
        target = os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")
        options.pound = str(Path(target) / "release/examples/pound")
    clients = []
    for client in options.clients:
        program = client.split()[0]
        if program == "provoke" or shutil.which(program):
            clients.append(client)
        else:
            note(f"{client} left out: install {PACKAGES[program]}")
    note(f"load average {os.getloadavg()[0]:.1f}; ratios hold on a busy machine, requests per second do not")
    cells = []
    with tempfile.TemporaryDirectory() as scratch:
        server = Server(scratch, options.server_core)
        try:
            for number in range(options.rounds):
                for connections in options.connections:
                    shift = number % len(clients)
                    for client in clients[shift:] + clients[:shift]:
                        try:
                            answered, cpu, wall = cell(client, server, connections, options)
                        except (RuntimeError, TypeError, KeyError, ValueError) as error:
                            note(f"round {number + 1}, {client}: {error}")
                            continue
                        cells.append(dict(round=number, client=client, connections=connections, requests=answered,
                                          cpu=cpu, wall=wall))
                note(f"round {number + 1} of {options.rounds} done")
        finally:
            server.close()
    if options.out:
        Path(options.out).write_text(json.dumps(cells, indent=1))
    table(cells, clients, options.connections)


def table(cells, clients, connections):
    print("| client | " + " | ".join(f"c={c}: CPU us, x (min..max), req/s" for c in connections) + " |")
    print("| --- |" + " --- |" * len(connections))
    for client in clients:
        row = []
        for count in connections:
            mine = {cell["round"]: cell for cell in cells if (cell["client"], cell["connections"]) == (client, count)}
            base = "h2load h2" if client.endswith("h2") else "wrk"
            peer = {cell["round"]: cell for cell in cells if (cell["client"], cell["connections"]) == (base, count)}
            if not mine:
                row.append("")
                continue
            per = {number: cell["cpu"] / cell["requests"] * 1e6 for number, cell in mine.items()}
            text = f"{statistics.median(per.values()):.2f}"
            both = [number for number in mine if number in peer]
            if both:
                ratios = [peer[n]["cpu"] / peer[n]["requests"] * 1e6 / per[n] for n in both]
                text += f", **{statistics.median(ratios):.2f}** ({min(ratios):.2f}..{max(ratios):.2f})"
                speeds = [mine[n]["requests"] / mine[n]["wall"] / (peer[n]["requests"] / peer[n]["wall"]) for n in both]
                text += f", {statistics.median(speeds):.2f}"
            row.append(text)
        print(f"| {client} | " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
