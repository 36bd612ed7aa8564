/**
 * What a run tells, as lines of JSON; who reads no more leaves the run to itself.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { FastifyReply } from 'fastify';
import { linkSignals, writeMarkedJson } from '../../master/index.ts';
import { BridgeError } from '../errors.ts';
import { problemOf } from './errors.ts';

/** What is told, of a command or a plan. */
export interface Told {
  /** The first line. */
  readonly begun: object;
  updates(): AsyncIterable<object>;
}

/** Runs that are followed at a time. */
const maxReaders = 1000;

/** Streams of one server's routes. */
export class UpdateStreams {
  readonly #closing: AbortSignal;
  #readers = 0;

  /** @param closing - ends all of them */
  constructor(closing: AbortSignal) {
    this.#closing = closing;
  }

  /** @throws BridgeError ERR_COMMAND_BUSY */
  async send(reply: FastifyReply, told: Told): Promise<FastifyReply> {
    if (this.#readers >= maxReaders) {
      throw new BridgeError('ERR_COMMAND_BUSY', 'as many runs as may be are followed');
    }
    this.#readers += 1;
    reply.hijack();
    const { raw } = reply;
    for (const [name, value] of Object.entries(reply.getHeaders())) {
      if (value !== undefined) raw.setHeader(name, value);
    }
    raw.writeHead(200, { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' });
    try {
      await writeUpdates(raw, told, this.#closing);
    } finally {
      this.#readers -= 1;
    }
    return reply;
  }
}

async function writeUpdates(
  out: ServerResponse,
  { begun, updates }: Told,
  closing: AbortSignal,
): Promise<void> {
  const gone = new AbortController();
  out.once('close', () => gone.abort());
  const end = linkSignals(gone.signal, closing).signal;
  try {
    await writeLine(out, begun, end);
    for await (const update of updates()) {
      if (end.aborted) break;
      await writeLine(out, update, end);
    }
  } catch (error) {
    const { code, message } = problemOf(error);
    if (!end.aborted) out.write(`${JSON.stringify({ type: 'error', code, message })}\n`);
  }
  out.end();
}

async function writeLine(out: ServerResponse, item: object, end: AbortSignal): Promise<void> {
  const line = writeMarkedJson(item);
  if (!out.write(`${line}\n`)) await once(out, 'drain', { signal: end });
}
