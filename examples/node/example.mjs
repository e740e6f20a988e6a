// Prints which number it has, and as many IDs as asked for: node example.mjs 3
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
} catch ({ message }) { // it is not there; it has no number
  console.error(message);
  process.exit(1);
}
