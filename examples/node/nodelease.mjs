// A client of the sidecar (nodelease serve).
import http from "node:http";

export class Sidecar {
  #agent = new http.Agent({ keepAlive: true });
  #ids = [];
  #fetching;

  constructor(address = process.env.NODELEASE_SIDECAR ?? "http://127.0.0.1:7373", batch = 100) {
    this.target = address.startsWith("unix:") ? { socketPath: address.slice(5) } : new URL(address);
    this.address = address;
    this.batch = batch;
  }

  // {pool, node_id, version, …}, true at this moment.
  node() { return this.#ask("GET", "/v1/node"); }

  // A new ID, as a BigInt. IDs are fetched in batches, one request for all callers that wait.
  async nextID() {
    while (this.#ids.length === 0) {
      this.#fetching ??= this.#ask("POST", `/v1/ids?n=${this.batch}`)
        .then(({ ids }) => { this.#ids = ids.reverse().map(BigInt); })
        .finally(() => { this.#fetching = undefined; });
      await this.#fetching;
    }
    return this.#ids.pop();
  }

  async #ask(method, path) {
    const { hostname, port, socketPath } = this.target;
    const { status, text } = await new Promise((resolve, reject) => {
      http.request({ hostname, port, socketPath, method, path, agent: this.#agent, timeout: 10_000 }, async (response) => {
        resolve({ status: response.statusCode, text: (await response.toArray()).join("") });
      }).on("error", ({ message }) => reject(new Error(`${this.address}: ${message}: is nodelease serve running there? See NODELEASE_SIDECAR`))).on("timeout", function () { this.destroy(new Error("no answer")); }).end();
    });
    const answer = JSON.parse(text);
    if (status !== 200) throw new Error(`${answer.error}: ${answer.detail}; ${answer.remedy}`);
    return answer;
  }
}
