"""An engine for the probes' tests: a child of it, forked before any use of CUDA, holds 4 MiB; it answers /health."""

import http.server
import os
import sys

import torch

held = None
ready, done = os.pipe()
if os.fork() == 0:
    held = torch.Tensor((1 << 20,))
    os.write(done, b"x")
    os.read(os.pipe()[0], 1)
os.read(ready, 1)
print("environment set up: %s" % hasattr(__builtins__, "environment_was_set_up"), flush=True)


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


http.server.HTTPServer((sys.argv[2], int(sys.argv[1])), Answer).serve_forever()
