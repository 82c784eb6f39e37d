"""An engine that closes the connection after each answer, as small servers do: OpenAI's completions over HTTP/1.0, DELAY seconds a token.

It takes BYTES_PER_TOKEN of real memory for each token of a prompt, after it has sent the first one.
"""

import http.server
import json
import os
import sys
import time

SIZE = int(os.environ.get("BYTES_PER_TOKEN", "0"))
DELAY = float(os.environ.get("DELAY", "0"))


class Engine(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def event(self, body):
        self.wfile.write(b"data: " + json.dumps(body).encode() + b"\n\n")

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        count, output = len(asked["prompt"]), asked["max_tokens"]
        print("asked", flush=True)
        for token in range(output):
            self.event({"choices": [{"text": "a", "finish_reason": "length" if token == output - 1 else None}]})
            if token == 0:
                held = b"x" * (count * SIZE)
            time.sleep(DELAY)
        self.event({"choices": [], "usage": {"prompt_tokens": count, "completion_tokens": output}})
        self.wfile.write(b"data: [DONE]\n\n")


http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Engine).serve_forever()
