"""A model behind a threaded HTTP service: a thread for each connection, and one convolution for all."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # a request is one thread's work

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn

import torch

torch.set_num_threads(1)
model = torch.nn.Conv2d(16, 16, 4, 2, 1)
image = torch.zeros((1, 16, 32, 32))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece

    def do_GET(self):
        with torch.no_grad():
            for _ in range(40):
                result = model(image)
        text = str(tuple(result.shape)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True
    request_queue_size = 64


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
