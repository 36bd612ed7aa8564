/** External pillar from a web service. */

import { pillarAddressProblem } from '#config';
import { type ExtPillar, MasterError } from '#master';
import { readAtOnce, readPillarText, type TextReader } from './pillar-text.ts';

/** A service that answers with a minion's pillar. */
export interface ExtPillarHttpOptions {
  /** With `{id}` where the minion's id stands, behind the host: `https://cmdb.test/pillar/{id}`. */
  readonly url: string;
  /** The hosts that may be asked, as in the address, with the port if it is named there. */
  readonly hosts: readonly string[];
  /** Default `json`. */
  readonly format?: 'json' | 'yaml';
  /** Sent with each request, for instance `authorization`. Default: none. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Milliseconds for the whole answer. Default 10,000. */
  readonly timeoutMs?: number;
  /** Largest answer, bytes. Default 4 MiB. */
  readonly maxBytes?: number;
  /** Whether `http:` will do, as for a service on the same host. Default false. */
  readonly allowsPlainHttp?: boolean;
}

/**
 * Pillar from a service. 404 and 204 mean that the minion has none there; every other answer but
 * 200, a redirection among them, is a failure.
 * @throws MasterError ERR_ARGS for an address that may not be asked
 */
export function extPillarHttp(options: ExtPillarHttpOptions): ExtPillar {
  return openExtPillarHttp(options, readAtOnce);
}

/** The same with a reader of one's own. @throws MasterError ERR_ARGS */
export function openExtPillarHttp(options: ExtPillarHttpOptions, reader: TextReader): ExtPillar {
  const {
    url,
    format = 'json',
    headers = {},
    timeoutMs = 10_000,
    maxBytes = 4 * 1024 * 1024,
  } = options;
  const problem = pillarAddressProblem(options);
  if (problem !== undefined) throw new MasterError('ERR_ARGS', `url: ${problem}`);
  const { host } = new URL(url.replaceAll('{id}', 'id'));
  return {
    name: `http ${host}`,
    provide: async ({ id }) => {
      const address = url.replaceAll('{id}', () => encodeURIComponent(id));
      const signal = AbortSignal.timeout(timeoutMs);
      const response = await answered(fetch(address, { headers, signal, redirect: 'error' }));
      if (response.status === 404 || response.status === 204) {
        await response.body?.cancel();
        return undefined;
      }
      if (response.status !== 200) {
        await response.body?.cancel();
        throw new MasterError('ERR_PILLAR_SOURCE', `the service answered ${response.status}`);
      }
      return readPillarText(await answered(readBounded(response, maxBytes)), format, reader);
    },
  };
}

/** @throws MasterError ERR_PILLAR_SOURCE */
async function answered<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (cause) {
    if (cause instanceof MasterError) throw cause;
    throw new MasterError(
      'ERR_PILLAR_SOURCE',
      'the service cannot be asked, or does not answer in time',
      { cause },
    );
  }
}

async function readBounded({ body }: Response, maxBytes: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of body ?? []) {
    bytes += part.length;
    if (bytes > maxBytes) {
      throw new MasterError('ERR_PILLAR_SOURCE', `the answer has more than ${maxBytes} bytes`);
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
}
