/** Sahara's own end of a webhook: hears of progress and results of jobs. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What a cluster tells of a job. */
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
  /** Requests without a valid signature. */
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
        // A retry of what was told already has the same content.
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

  /** As a handle is registered. */
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
