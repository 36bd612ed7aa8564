/** Webhook receiver of Sahara. It receives the progress and the results of jobs. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Message of a cluster about a job. */
export interface JobNews {
  readonly job: string;
  readonly state: string;
  readonly done: number;
  readonly tasks: number;
  readonly nodes?: readonly string[];
  readonly output?: string;
}

export class Receiver {
  readonly news: JobNews[] = [];
  /** Number of requests without a valid signature. */
  forged = 0;
  readonly #key = randomBytes(32);
  readonly #server: Server;

  private constructor() {
    this.#server = createServer(async (request, response) => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part);
      const body = Buffer.concat(parts).toString('utf8');
      const { headers } = request;
      const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
      if (this.#isSigned(String(headers['webhook-signature']), signed)) {
        // A repeated delivery has the same content as the last message, and is ignored.
        const { data } = JSON.parse(body);
        if (JSON.stringify(data.data) !== JSON.stringify(this.news.at(-1)))
          this.news.push(data.data);
      } else this.forged += 1;
      response.end();
    });
  }

  static async start(): Promise<Receiver> {
    const receiver = new Receiver();
    receiver.#server.listen(0, '127.0.0.1');
    await once(receiver.#server, 'listening');
    return receiver;
  }

  get origin(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}`;
  }

  /** URL and key with which the receiver is registered as a handle. */
  get callback(): { readonly url: string; readonly key: string } {
    return { url: `${this.origin}/jobs`, key: `whsec_${this.#key.toString('base64')}` };
  }

  of(job: string): readonly JobNews[] {
    return this.news.filter((it) => it.job === job);
  }

  async close(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  #isSigned(signatures: string, text: string): boolean {
    const expected = Buffer.from(
      `v1,${createHmac('sha256', this.#key).update(text).digest('base64')}`,
    );
    return signatures.split(' ').some((it) => {
      const given = Buffer.from(it);
      return given.length === expected.length && timingSafeEqual(given, expected);
    });
  }
}
