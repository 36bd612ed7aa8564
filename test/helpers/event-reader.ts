/** Reads a stream of server-sent events, such as `/events`. */
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { ExecutionContext } from 'ava';
import { within } from './deadline.ts';

/** A stream that is being read. */
export class EventReader {
  readonly response: IncomingMessage;
  readonly ended: Promise<void>;
  #text = '';
  #wake: (() => void) | undefined;

  constructor(response: IncomingMessage) {
    this.response = response;
    this.ended = new Promise((resolve) => response.once('close', () => resolve()));
    response.on('data', (chunk: Buffer) => {
      this.#text += chunk.toString('utf8');
      this.#wake?.();
    });
    response.on('error', () => {});
  }

  get text(): string {
    return this.#text;
  }

  get tags(): string[] {
    return [...this.#text.matchAll(/^tag: (.*)$/gm)].map(([, tag = '']) => tag);
  }

  /** Waits until the received text matches a pattern. */
  async until(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.#text)) {
      const more = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await within(`${pattern} in a stream`, more);
    }
    return this.#text;
  }
}

/** Opens `/events` or another event stream. It is closed at the end of the test. */
export async function openEvents(
  t: ExecutionContext,
  port: number,
  headers: Record<string, string>,
  query = '',
  path = '/events',
): Promise<EventReader> {
  const outgoing = httpRequest({
    method: path.startsWith('/rpc') ? 'POST' : 'GET',
    port,
    host: '127.0.0.1',
    path: `${path}${query}`,
    headers,
    agent: false,
  });
  t.teardown(() => outgoing.destroy());
  outgoing.on('error', () => {});
  const answered = new Promise<IncomingMessage>((resolve) => outgoing.once('response', resolve));
  outgoing.end();
  return new EventReader(await within('the head of a stream', answered));
}
