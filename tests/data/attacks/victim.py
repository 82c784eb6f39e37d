"""Stands for a service on loopback that a script must not reach: python3 victim.py [PORT, 19999] [ADDRESS, 127.0.0.1]. With PORT 0 on a free one. Prints its port, and each request it gets."""
import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def go(self):
        n = int(self.headers.get('content-length') or 0); b = self.rfile.read(n)
        print(self.client_address[0], self.command, self.path, dict(self.headers), b[:300], flush=True)
        if self.path.startswith('/redir'):
            self.send_response(302 if self.command == 'GET' else 307)
            self.send_header('Location', 'http://127.0.0.1:19998/stolen'); self.send_header('Content-Length', '0'); self.end_headers(); return
        out = b'{"job_id":"raysubmit_1","secret":"INTERNAL-DATA-42","data":[{"id":"m"}]}'
        self.send_response(200); self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(out))); self.end_headers(); self.wfile.write(out)
    do_GET = do_POST = do_PUT = do_DELETE = go
server = http.server.ThreadingHTTPServer((sys.argv[2] if len(sys.argv) > 2 else '127.0.0.1', int(sys.argv[1]) if len(sys.argv) > 1 else 19999), H)
print(server.server_address[1], flush=True)
server.serve_forever()
