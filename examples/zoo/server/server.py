"""A server with four database connections. A fifth request at the same time finds none, and ends the server."""
import http.server
import os
import queue
import sys
import time
import traceback

connections = queue.Queue()
for number in range(4):
    connections.put(number)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        connection = connections.get_nowait()
        time.sleep(0.02)  # asks the database
        connections.put(connection)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, *_):
        traceback.print_exc()
        os._exit(1)


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
