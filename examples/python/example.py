"""Prints which number it has, and as many IDs as asked for: python3 example.py 3"""
import sys
from nodelease import Sidecar

sidecar = Sidecar(batch=100)
node = sidecar.node()
print("node", node["node_id"], "version", node["version"])
for _ in range(int(sys.argv[1])):
    print(sidecar.next_id())
