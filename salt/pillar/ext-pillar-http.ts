/** External pillar from a web service. */

import { pillarAddressProblem } from '#config';
import { type ExtPillar, MasterError } from '#master';
import { FairSlots, readStream, unlimitedWaiting } from '#runtime';
import { saltLimits } from '../limits.ts';
import { readPillarText, type TextReader, textReaderOfPrograms } from './pillar-text.ts';

/** Options of `extPillarHttp`. */
export interface ExtPillarHttpOptions {
  /**
   * Address with `{id}` as a placeholder for the minion's id, after the host:
   * `https://cmdb.test/pillar/{id}`.
   */
  readonly url: string;
  /** Allowed hosts, written as in the address, with the port if the address has one. */
  readonly hosts: readonly string[];
  /** Format of the response. Default: `json`. */
  readonly format?: 'json' | 'yaml';
  /** Headers of each request, for example `authorization`. Default: none. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Timeout for the whole response, in milliseconds. Default: 10,000. */
  readonly timeoutMs?: number;
  /** Maximum size of the response, in bytes. Default: 4 MiB. */
  readonly maxBytes?: number;
  /** Whether `http:` is allowed, for example for a service on the same host. Default: false. */
  readonly allowsPlainHttp?: boolean;
}

/**
 * Opens external pillar from a web service. Status 404 or 204 means that the service has no pillar
 * for the minion. Every other status except 200, including redirections, is an error.
 * @throws MasterError ERR_ARGS if the address is not allowed
 */
export function extPillarHttp(options: ExtPillarHttpOptions): ExtPillar {
  return openExtPillarHttp(options, textReaderOfPrograms());
}

/**
 * Opens external pillar from a web service, with a given parser of the responses.
 * @throws MasterError ERR_ARGS
 */
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
  const slots = new FairSlots(saltLimits.pillarServiceRequests, {
    ...saltLimits.pillarServiceRequests,
    waiting: unlimitedWaiting,
  });
  /** Requests that have not started yet, by minion id. */
  const waiting = new Map<string, ReturnType<ExtPillar['provide']>>();
  const ask = async (id: string): ReturnType<ExtPillar['provide']> => {
    const address = url.replaceAll('{id}', () => encodeURIComponent(id));
    const signal = AbortSignal.timeout(timeoutMs);
    const response = await answered(fetch(address, { headers, signal, redirect: 'error' }));
    if (response.status === 404 || response.status === 204) {
      await response.body?.cancel();
      return undefined;
    }
    if (response.status !== 200) {
      await response.body?.cancel();
      throw new MasterError(
        'ERR_PILLAR_SOURCE',
        `the service responded with status ${response.status}`,
      );
    }
    const tooLarge = () =>
      new MasterError('ERR_PILLAR_SOURCE', `the response exceeds ${maxBytes} bytes`);
    const text = await answered(readStream(response.body ?? [], maxBytes, tooLarge));
    return readPillarText(text, format, { reader, owner: id });
  };
  return {
    name: `http ${host}`,
    provide: ({ id }) => {
      // Callers share a request only if it starts after they called. So they never get data from
      // before their call.
      const shared = waiting.get(id);
      if (shared !== undefined) return shared;
      let hasStarted = false;
      const answer = slots.run(id, () => {
        hasStarted = true;
        waiting.delete(id);
        return ask(id);
      });
      if (!hasStarted) waiting.set(id, answer);
      return answer;
    },
  };
}

/**
 * Awaits the response and converts its errors.
 * @throws MasterError ERR_PILLAR_SOURCE
 */
async function answered<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (cause) {
    if (cause instanceof MasterError) throw cause;
    throw new MasterError(
      'ERR_PILLAR_SOURCE',
      'the service cannot be reached or did not respond in time',
      { cause },
    );
  }
}
