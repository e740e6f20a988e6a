"""Prints the node ID, and as many IDs as requested: python3 example.py 3"""
import sys
from nodelease import Sidecar

if len(sys.argv) != 2 or not sys.argv[1].isdigit():
    sys.exit("usage: python3 example.py COUNT")
sidecar = Sidecar(batch=100)
try:
    node = sidecar.node()
    print("node", node["node_id"], "version", node["version"])
    for _ in range(int(sys.argv[1])):
        print(sidecar.next_id())
except (ConnectionError, RuntimeError) as reason:  # no sidecar, or it has no node ID
    sys.exit(str(reason))
