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
    const { port, socketPath } = this.target, hostname = this.target.hostname?.replace(/[[\]]/g, ""); // of IPv6
    const { status, text } = await new Promise((resolve, reject) => {
      const failed = ({ message }) => reject(new Error(`${this.address}: ${message}: is nodelease serve running there? See NODELEASE_SIDECAR`));
      http.request({ hostname, port, socketPath, method, path, agent: this.#agent, timeout: 10_000 }, (response) =>
        response.toArray().then((parts) => resolve({ status: response.statusCode, text: parts.join("") }), failed)).on("error", failed).on("timeout", function () { this.destroy(new Error("no answer")); }).end();
    });
    const answer = JSON.parse(text);
    if (status !== 200) throw new Error(`${answer.error}: ${answer.detail}; ${answer.remedy}`);
    return answer;
  }
}
