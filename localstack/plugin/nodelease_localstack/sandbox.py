"""One function's `bootstrap` as a process, and the Lambda Runtime API on 127.0.0.1 that it asks for events.

Has errors, crashes, time-outs and warm reuse. Has no memory limit, no layers, no extensions, and runs the host's architecture only.
"""
import json
import os
import queue
import re
import subprocess
import threading
import time
from concurrent.futures import Future, TimeoutError
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import InvocationResult


def error(message, kind):
    return json.dumps({"errorMessage": message, "errorType": kind}).encode()


class RuntimeAPI(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sandbox = None

    def log_message(self, *args):
        pass

    def reply(self, code, body=b"", headers=()):
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):  # /runtime/invocation/next
        self.sandbox.started()
        event = self.sandbox.events.get()
        if event is None:
            return self.reply(410)
        self.reply(200, event["payload"].encode(), [
            ("Lambda-Runtime-Aws-Request-Id", event["invoke-id"]),
            ("Lambda-Runtime-Deadline-Ms", str(event["deadline"])),
            ("Lambda-Runtime-Invoked-Function-Arn", event["invoked-function-arn"]),
            ("Lambda-Runtime-Trace-Id", event["trace-id"]),
            ("Content-Type", "application/json")])

    def do_POST(self):
        body = self.body()
        answer = re.search(r"/runtime/invocation/([^/]+)/(response|error)$", self.path)
        if answer:
            self.sandbox.finish(answer[1], body, answer[2] == "error")
        elif self.path.endswith("/runtime/init/error"):
            self.sandbox.failed(body)
        self.reply(202)

    def body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body


class Sandbox:
    def __init__(self, code, env):
        self.events, self.ready, self.lock = queue.Queue(), Future(), threading.Lock()
        self.current, self.lines = None, []
        api = type("API", (RuntimeAPI,), {"sandbox": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), api)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        env = {name: str(value) for name, value in env.items()} | {
            "PATH": os.environ["PATH"],
            "LAMBDA_TASK_ROOT": code,
            "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:%d" % self.http.server_address[1]}
        self.process = subprocess.Popen([os.path.join(code, "bootstrap")], cwd=code, env=env, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        for line in self.process.stdout:
            self.lines.append(line)
        body = error(f"Runtime exited with error: exit status {self.process.wait()}", "Runtime.ExitError")
        self.failed(body)
        if self.current:
            self.finish(self.current[0], body, True)

    def started(self):
        if not self.ready.done():
            self.ready.set_result(True)

    def failed(self, body):
        if not self.ready.done():
            self.ready.set_exception(StatusErrorException("the function ended before it asked for an event", payload=body))

    def finish(self, request, body, is_error):
        with self.lock:
            if self.current and self.current[0] == request and not self.current[1].done():
                self.current[1].set_result((body, is_error))

    def alive(self):
        return self.process.poll() is None

    def invoke(self, event, timeout):
        begin, request = time.time(), event["invoke-id"]
        event["deadline"] = int((begin + timeout) * 1000)
        self.lines.clear()
        self.current = (request, Future())
        self.events.put(event)
        try:
            body, is_error = self.current[1].result(timeout)
        except TimeoutError:
            self.stop()
            body, is_error = error(f"RequestId: {request} Error: Task timed out after {timeout:.2f} seconds", "Sandbox.Timedout"), True
        time.sleep(0.005)  # lets the last log lines arrive
        logs = (f"START RequestId: {request}\n{''.join(self.lines)}END RequestId: {request}\n"
                f"REPORT RequestId: {request}\tDuration: {(time.time() - begin) * 1000:.2f} ms\n")
        return InvocationResult(request, body, is_error, logs)

    def stop(self):
        self.events.put(None)
        self.process.kill()
        self.process.wait()
        self.http.shutdown()
        self.http.server_close()
