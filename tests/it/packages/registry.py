"""Serves a package for npm on a port of its own, which it prints."""

import base64, hashlib, http.server, io, json, tarfile

VERSIONS = ["1.0.0", "1.1.0", "1.10.0", "1.2.0", "2.0.0-rc.1"]

def packed(version):
    main = f"#!/usr/bin/env node\nmodule.exports = '{version}'\nif (require.main === module) console.log(module.exports)\n"
    about = {"name": "provoke-hello", "version": version, "bin": {"provoke-hello": "main.js"}, "main": "main.js"}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in [("package.json", json.dumps(about)), ("main.js", main)]:
            entry = tarfile.TarInfo("package/" + name)
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue(), about

ARCHIVES = {version: packed(version) for version in VERSIONS}

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        code, body = 200, b"{}"
        if self.path == "/provoke-hello":
            here = f"http://127.0.0.1:{self.server.server_port}/archive/"
            versions = {}
            for version, (data, about) in ARCHIVES.items():
                sum = base64.b64encode(hashlib.sha512(data).digest()).decode()
                versions[version] = {**about, "dist": {"tarball": here + version, "integrity": "sha512-" + sum}}
            body = json.dumps({"name": "provoke-hello", "dist-tags": {"latest": "1.10.0"}, "versions": versions}).encode()
        elif self.path.startswith("/archive/"):
            body = ARCHIVES[self.path.split("/")[-1]][0]
        else:
            code = 404
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
