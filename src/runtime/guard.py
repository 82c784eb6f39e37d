"""Runs a program and ends it, with all that it started, when its time is up or whoever asked for it has gone.

Arguments: seconds, a folder that is removed at the end, the program and its arguments. Standard input is held open by whoever
asked. Exit status: the program's, 128 + the number of the signal that ended it, or 124 when its time was up.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time

SECRET = re.compile(r"(^|[^A-Z0-9])(TOKEN|KEY|APIKEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)([^A-Z0-9]|$)")

deadline = time.monotonic() + float(sys.argv[1])
folder = sys.argv[2]
environment = {name: value for name, value in os.environ.items() if not SECRET.search(name.upper())}
status = 124
try:
    program = subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
    try:
        while time.monotonic() < deadline:
            code = program.poll()
            if code is not None:
                status = code if code >= 0 else 128 - code
                break
            if select.select([0], [], [], 0.02)[0] and not os.read(0, 4096):
                break
    finally:
        try:
            os.killpg(program.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
finally:
    shutil.rmtree(folder, ignore_errors=True)
sys.exit(status)
