/**
 * A server that the master asks. It gives an honest answer, or an answer that is spoiled in one
 * respect. It runs in a thread of its own, so that its work does not count as work of the master.
 */

import { Worker } from 'node:worker_threads';
import type { Cleanup } from '../../helpers/cleanup.ts';

/** Honest answer over HTTP. A body that is not text or bytes is sent as JSON. */
export interface HttpAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Honest server. It answers HTTP requests, or messages of another protocol. */
export type HonestServer =
  | { readonly http: (request: HeardRequest) => HttpAnswer }
  | { readonly raw: (message: Buffer) => Buffer };

export interface HeardRequest {
  readonly method: string;
  readonly path: string;
}

/** Spoiled respect of the answers. */
export interface Spoil {
  readonly field: string;
  readonly value: unknown;
}

/** Counts of one case. */
export interface ServerCounts {
  readonly requests: number;
  /** Bytes that the server has sent. */
  readonly bytes: number;
  /** Connections to another server, which only spoiled answers name. */
  readonly strays: number;
}

/** Respects in which an answer over HTTP is spoiled, besides its body. */
export const httpSpoils = {
  head: ['status', 'header', 'headers', 'location', 'length', 'encoding', 'protocol', 'hints'],
  stream: ['size', 'endless', 'unfinished', 'cut', 'garbage'],
} as const;
export const rawSpoils = ['bytes', 'repeat', 'endless', 'unfinished', 'cut'] as const;

/** Message to the thread. */
export type Instruction =
  | { readonly kind: 'spoil'; readonly spoil: Spoil | undefined }
  | { readonly kind: 'answer'; readonly id: number; readonly answer: HonestAnswer | undefined }
  | { readonly kind: 'take' };

/** Message from the thread. */
export type Report =
  | { readonly kind: 'listening'; readonly port: number; readonly rawPort: number }
  | { readonly kind: 'asked'; readonly id: number; readonly question: Question }
  | { readonly kind: 'counts'; readonly counts: ServerCounts };

/** Request for an honest answer. */
export type Question = { readonly http: HeardRequest } | { readonly raw: Uint8Array };
export type HonestAnswer = { readonly http: HttpAnswer } | { readonly raw: Uint8Array };

const program = new URL('./spoiling-thread.ts', import.meta.url);

export class SpoilingServer {
  readonly #thread = new Worker(program);
  readonly #listening = Promise.withResolvers<void>();
  readonly #takers: ((counts: ServerCounts) => void)[] = [];
  #honest: HonestServer = { http: () => ({ body: {} }) };
  #port = 0;
  #rawPort = 0;

  private constructor() {
    this.#thread.on('message', (report: Report) => this.#receive(report));
    this.#thread.once('error', this.#listening.reject);
  }

  /** Starts the servers. They are closed with `cleanup`. */
  static async start(cleanup: Cleanup): Promise<SpoilingServer> {
    const it = new SpoilingServer();
    cleanup.teardown(() => it.#thread.terminate());
    await it.#listening.promise;
    return it;
  }

  get origin(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Port of protocols other than HTTP. */
  get rawPort(): number {
    return this.#rawPort;
  }

  /** Sets the answers of the next case. Without a spoil, they are honest. */
  prepare(honest: HonestServer, spoil?: Spoil): void {
    this.#honest = honest;
    this.#instruct({ kind: 'spoil', spoil });
  }

  /** Closes all connections, and returns the counts since the last call. */
  take(): Promise<ServerCounts> {
    const { promise, resolve } = Promise.withResolvers<ServerCounts>();
    this.#takers.push(resolve);
    this.#instruct({ kind: 'take' });
    return promise;
  }

  #instruct(instruction: Instruction): void {
    this.#thread.postMessage(instruction);
  }

  #receive(report: Report): void {
    if (report.kind === 'listening') {
      [this.#port, this.#rawPort] = [report.port, report.rawPort];
      this.#listening.resolve();
    } else if (report.kind === 'counts') {
      this.#takers.shift()?.(report.counts);
    } else {
      const { id, question } = report;
      this.#instruct({ kind: 'answer', id, answer: this.#answer(question) });
    }
  }

  /** Returns `undefined` if the honest server has another protocol. */
  #answer(question: Question): HonestAnswer | undefined {
    const honest = this.#honest;
    if ('http' in question) {
      return 'http' in honest ? { http: honest.http(question.http) } : undefined;
    }
    return 'raw' in honest ? { raw: honest.raw(Buffer.from(question.raw)) } : undefined;
  }
}
