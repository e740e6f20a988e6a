"""A client of the sidecar (nodelease serve). One for each thread."""
import http.client, json, os, socket

class Sidecar:
    def __init__(self, address=os.environ.get("NODELEASE_SIDECAR", "http://127.0.0.1:7373"), batch=100):
        self.address, self.batch, self.ids, self.connection, self.pid = address, batch, [], None, os.getpid()

    def node(self):
        """{"pool", "node_id", "version", ...}, true at this moment."""
        return self._ask("GET", "/v1/node")

    def next_id(self):
        """A new ID. IDs are fetched in batches."""
        if not self.ids or self.pid != os.getpid():
            self.ids = [int(i) for i in reversed(self._ask("POST", f"/v1/ids?n={self.batch}")["ids"])]
        return self.ids.pop()

    def _ask(self, method, path):
        if self.pid != os.getpid():  # after a fork, the batch and the connection are the parent's (S1)
            self.ids, self.connection, self.pid = [], None, os.getpid()
        fresh = self.connection is None
        try:
            self.connection = self.connection or _connect(self.address)
            self.connection.request(method, path)
            response = self.connection.getresponse()
            answer = json.loads(response.read())
        except (OSError, http.client.HTTPException) as reason:
            self.connection = None
            if fresh:
                raise ConnectionError(f"{self.address}: {reason}: is nodelease serve running there? See NODELEASE_SIDECAR") from reason
            return self._ask(method, path)  # an idle connection may have been closed: try once more
        if response.status != 200:  # {"error", "detail", "remedy"}
            raise RuntimeError(f"{answer['error']}: {answer['detail']}; {answer['remedy']}")
        return answer

def _connect(address):
    unix = address.startswith("unix:")
    connection = http.client.HTTPConnection("localhost" if unix else address.removeprefix("http://"), timeout=10)
    if unix:
        connection.auto_open, connection.sock = 0, socket.socket(socket.AF_UNIX)  # by itself it would connect to port 80
        connection.sock.settimeout(10)
        connection.sock.connect(address.removeprefix("unix:"))
    return connection
