// Prints the node ID, and as many IDs as requested: node example.mjs 3
import { Sidecar } from "./nodelease.mjs";

if (!(Number(process.argv[2]) > 0)) {
  console.error("usage: node example.mjs COUNT");
  process.exit(2);
}
try {
  const sidecar = new Sidecar();
  const { node_id, version } = await sidecar.node();
  console.log("node", node_id, "version", version);
  for (const id of await Promise.all(Array.from({ length: Number(process.argv[2]) }, () => sidecar.nextID()))) console.log(String(id));
} catch ({ message }) { // no sidecar, or it has no node ID
  console.error(message);
  process.exit(1);
}
