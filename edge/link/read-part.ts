/**
 * Reads parts of packs (compressed files of a bundle) with HTTP GET. A request can begin at any
 * byte of a part.
 */

import { type Agent as HttpAgent, get as httpGet, type IncomingMessage } from 'node:http';
import { type Agent as HttpsAgent, get as httpsGet } from 'node:https';
import { finished, type Readable, Transform } from 'node:stream';
import { version } from '#master';
import { awaitResponse } from '#runtime';
import { EdgeError } from '../errors.ts';
import type { PartRange } from './link.ts';

export interface PartRequest {
  readonly url: string;
  readonly agent: HttpAgent | HttpsAgent;
  readonly ca: Buffer | undefined;
  readonly range: PartRange;
  /** Duration without a received byte after which the request fails, in milliseconds. */
  readonly stallMs: number;
  readonly signal: AbortSignal;
}

/**
 * Downloads a part of a pack (compressed content of a bundle) as a stream that starts at
 * `range.from`. The stream fails with ERR_SITE_LINK if the request fails, and with
 * ERR_BUNDLE_CONTENT if the part is larger than permitted.
 */
export function readPart(asked: PartRequest): Readable {
  const { url, range, signal, stallMs } = asked;
  const path = new URL(url).pathname;
  /** Offset of the next byte in the part, from 0. */
  let at = range.from;
  const result = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      const skipped = Math.max(0, Math.min(range.from - at, chunk.length));
      at += chunk.length;
      if (at <= range.maxBytes) done(null, chunk.subarray(skipped));
      else {
        const problem = `GET ${path} failed: the response exceeds ${range.maxBytes} bytes`;
        done(new EdgeError('ERR_BUNDLE_CONTENT', problem));
      }
    },
  });
  const fail = (cause: Error): void => {
    const text = `GET ${path} failed: ${cause.message}`;
    result.destroy(new EdgeError('ERR_SITE_LINK', text, { cause }));
  };
  const send = url.startsWith('https:') ? httpsGet : httpGet;
  const request = send(url, {
    agent: asked.agent,
    signal,
    headers: {
      'user-agent': `saltbridge/${version}`,
      ...(range.from === 0 ? {} : { range: `bytes=${range.from}-` }),
    },
    ...(asked.ca === undefined ? {} : { ca: asked.ca }),
  });
  awaitResponse(request).then((response) => {
    const begin = beginOf(response, range.from);
    // Also reports a response that has failed already.
    finished(response, (error) => {
      if (error != null) fail(error);
    });
    if (begin === undefined) {
      response.resume();
      fail(new Error(`the centre replied with the HTTP status ${response.statusCode}`));
      return;
    }
    at = begin;
    response.pipe(result);
  }, fail);
  request.setTimeout(stallMs, () =>
    request.destroy(new Error(`the centre sent no data for ${Math.round(stallMs / 1000)} s`)),
  );
  result.on('close', () => {
    if (!result.readableEnded) request.destroy();
  });
  return result;
}

/**
 * Returns the offset of the first byte of a response in the requested part of a pack. Returns
 * `undefined` if the request has failed. The offset is 0 if a cache sends the whole part although a
 * range was requested.
 */
function beginOf({ statusCode, headers }: IncomingMessage, from: number): number | undefined {
  if (statusCode === 200) return 0;
  const range = headers['content-range'];
  return statusCode === 206 && range?.startsWith(`bytes ${from}-`) === true ? from : undefined;
}
