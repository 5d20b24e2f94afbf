"""Says of what is sent to it what type it is; a thread for each connection.

All threads share what `detect_from_content` keeps below libmagic, which no two of them may use at
the same time. With LOCK set, a lock sees to that.
"""

import contextlib
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import magic

turn = threading.Lock() if os.environ.get("LOCK") else contextlib.nullcontext()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        with turn:
            kind = magic.detect_from_content(content).mime_type.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(kind)))
        self.end_headers()
        self.wfile.write(kind)

    def log_message(self, *_):
        pass


ThreadingHTTPServer.request_queue_size = 64
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
