/** Entries of the matrix for bytes that the HTTP client of Node.js does not send. */

import { connect } from 'node:net';
import type { Entry, Outcome } from './entry.ts';
import { addresses, type HostileSite } from './site.ts';
import { textOf } from './values.ts';

/** Time limit for one connection, in milliseconds. */
const timeoutMs = 4_000;
const chunkSizes = [1, 15, 16, 300] as const;

/** Place of a listener, and the headers with which it handles a request. */
interface Listener {
  readonly place:
    | { readonly port: number; readonly localAddress: string }
    | { readonly path: string };
  readonly paths: readonly [string, ...string[]];
  readonly headers: string;
}

export function connectionEntries({ port, agentSocket }: HostileSite): readonly Entry[] {
  const listeners: Readonly<Record<string, Listener>> = {
    API: {
      place: { port, localAddress: addresses.hostile },
      paths: ['/login', '/run', '/health', '/hook/a', '/nowhere'],
      headers: 'host: 127.0.0.1\r\ncontent-type: application/json\r\n',
    },
    'agent listener': {
      place: { path: agentSocket },
      paths: ['/openstack', '/saltbridge/v1/data', '/saltbridge/v1/nowhere'],
      headers: 'host: a\r\nx-neutron-network-id: net-A\r\nx-forwarded-for: 10.0.0.5\r\n',
    },
  };
  return Object.entries(listeners).map(([name, { place, paths, headers }]) => ({
    name: `connection ${name}`,
    fields: ['chunks', 'discarded', 'pipelined', 'expecting', 'without host'],
    maxBytes: 1_048_576,
    prepare: (field, value) => {
      const text = textOf(value);
      const path = paths[text.length % paths.length] ?? paths[0];
      const size = chunkSizes[Math.floor(text.length / 8) % chunkSizes.length] ?? 1;
      // Both listeners answer this request before they read the body.
      const early = `POST ${paths.at(-1)} HTTP/1.1\r\n${headers}content-encoding: x\r\n`;
      const post = `POST ${path} HTTP/1.1\r\n${headers}transfer-encoding: chunked\r\n`;
      const get = `GET ${path} HTTP/1.1\r\n${headers}`;
      const parts: Readonly<Record<string, readonly string[]>> = {
        chunks: [`${post}\r\n${inChunks(text, size)}`],
        discarded: [`${early}transfer-encoding: chunked\r\n\r\n`, inChunks(text, size)],
        pipelined: [repeated(`${get}\r\n`, text.length)],
        expecting: [repeated(`${get}expect: x\r\n\r\n`, text.length)],
        'without host': [repeated('GET / HTTP/1.1\r\n\r\n', text.length)],
      };
      const [first = '', afterAnswer = ''] = parts[field] ?? [];
      return () =>
        exchange(place, Buffer.from(first, 'latin1'), Buffer.from(afterAnswer, 'latin1'));
    },
  }));
}

/** Returns a body of the length of the text in chunks of one size. */
function inChunks(text: string, size: number): string {
  const content = text.slice(0, size).padEnd(size, 'a');
  const chunk = `${size.toString(16)}\r\n${content.replace(/[^ -~]/g, 'a')}\r\n`;
  return `${repeated(chunk, text.length)}0\r\n\r\n`;
}

function repeated(text: string, length: number): string {
  return text.repeat(Math.max(1, Math.floor(length / text.length)));
}

/**
 * Sends bytes, and further bytes after the first part of the response. Returns the status of the
 * response.
 */
function exchange(place: Listener['place'], bytes: Buffer, afterAnswer: Buffer): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const socket = connect({ host: '127.0.0.1', ...place });
  let answer = 'closed';
  socket.setTimeout(timeoutMs, () => socket.destroy());
  socket.on('error', () => {});
  socket.once('data', (data) => {
    answer = data.toString('latin1', 'HTTP/1.1 '.length, 'HTTP/1.1 '.length + 3);
    socket.end(afterAnswer);
  });
  socket.once('close', () => resolve({ answer }));
  socket.write(bytes);
  return promise;
}
