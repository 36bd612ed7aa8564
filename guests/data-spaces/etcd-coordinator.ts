/** Storage of data space values in etcd. */

import { isMap, RepeatedWarnings, retryDelayMs, Semaphore, sleepUntilAborted } from '#runtime';
import { guestLimits } from '../limits.ts';
import { ChangeListeners, type Coordinator, unavailableError } from './coordinator.ts';
import type { EtcdAnswer, EtcdGateway } from './etcd-gateway.ts';

export interface EtcdCoordinatorOptions {
  readonly gateway: EtcdGateway;
  /** Prefix of the keys, for example `/saltbridge/data/`. */
  readonly prefix: string;
  readonly log: { warn(about: object, message: string): void };
}

/**
 * Interval between two checks of the connection, in milliseconds. An idle stream does not detect
 * that its connection is lost.
 */
const heartbeatMs = 10_000;
const reconnectDelays = { initialDelayMs: 200, maxDelayMs: 10_000 };
/**
 * Target size of a page of values, in bytes. The number of values per page is computed from the
 * previous page.
 */
const pageBytes = 1_048_576;
const pageKeys = { first: 16, most: 1_000 };

/**
 * Creates a coordinator that stores values in etcd. A value has the key `<prefix><space>/<key>`.
 * The version of a value is the version number that etcd assigns to this key. One stream reports
 * the changes of all keys.
 */
export function createEtcdCoordinator({
  gateway,
  prefix,
  log,
}: EtcdCoordinatorOptions): Coordinator {
  const changes = new ChangeListeners();
  const warnings = new RepeatedWarnings(log);
  const closing = new AbortController();
  const requests = new Semaphore(guestLimits.etcdRequests);
  let isConnected = false;
  const warn = (kind: 'call' | 'stream', err: unknown): void => {
    if (closing.signal.aborted) return;
    const message = 'etcd, which stores the values of data spaces, does not respond';
    warnings.warn(kind, { err }, message);
  };
  const call = async (path: string, body: object): Promise<EtcdAnswer> => {
    try {
      return await requests.run(() => gateway.call(path, body));
    } catch (error) {
      warn('call', error);
      throw unavailableError(error);
    }
  };
  const keyOf = (space: string, key: string): string => toBase64(`${prefix}${space}/${key}`);
  const notify = (name: string): void => {
    const slash = name.indexOf('/', prefix.length);
    changes.tell(name.slice(prefix.length, slash), name.slice(slash + 1));
  };

  /**
   * Watches all values in etcd, and calls the listeners of each changed key until the stream ends.
   * When the watch begins, calls all listeners, because earlier changes may have been missed.
   */
  const follow = async (signal: AbortSignal): Promise<void> => {
    const range = { key: toBase64(prefix), range_end: toBase64(endOf(prefix)) };
    const body = { create_request: { ...range, fragment: true } };
    for await (const answer of gateway.stream('/v3/watch', body, signal)) {
      const result = isMap(answer.result) ? answer.result : undefined;
      if (result === undefined || result.canceled === true) {
        throw new Error(
          `etcd ended the watch of the values: ${JSON.stringify(answer).slice(0, 300)}`,
        );
      }
      if (result.created === true) {
        isConnected = true;
        changes.tellAll();
      }
      for (const name of changedKeys(result)) notify(name);
    }
  };
  const followAlways = async (): Promise<void> => {
    for (let failures = 0; !closing.signal.aborted; ) {
      const ends = new AbortController();
      const end = (): void => ends.abort();
      closing.signal.addEventListener('abort', end, { once: true });
      const heartbeats = beat(gateway, ends);
      try {
        await follow(ends.signal);
      } catch (error) {
        warn('stream', error);
      }
      end();
      closing.signal.removeEventListener('abort', end);
      await heartbeats;
      failures = isConnected ? 1 : failures + 1;
      isConnected = false;
      await sleepUntilAborted(retryDelayMs(failures, reconnectDelays, Math.random), closing.signal);
    }
  };
  const following = followAlways();

  return {
    get: async (space, key) => {
      const [found] = valuesOf(await call('/v3/kv/range', { key: keyOf(space, key) }));
      return found && { value: found.value, version: found.version };
    },
    put: async (space, key, { value, version }) => {
      const name = keyOf(space, key);
      const { succeeded } = await call('/v3/kv/txn', {
        compare: [{ key: name, target: 'VERSION', result: 'EQUAL', version: String(version - 1) }],
        success: [{ request_put: { key: name, value: Buffer.from(value).toString('base64') } }],
      });
      return succeeded === true;
    },
    watch: (space, key, listener) => changes.add(space, key, listener),
    sizes: async (space) => {
      const start = `${prefix}${space}/`;
      const sizes = new Map<string, number>();
      let limit = pageKeys.first;
      for (let next = start; ; ) {
        const range = { key: toBase64(next), range_end: toBase64(endOf(start)), limit };
        const answer = await call('/v3/kv/range', range);
        const page = valuesOf(answer);
        for (const { name, value } of page) sizes.set(name.slice(start.length), value.length);
        const last = page.at(-1);
        if (answer.more !== true || last === undefined) return sizes;
        next = `${last.name}\0`;
        const bytes = page.reduce((sum, { value }) => sum + value.length, 1);
        const fitting = Math.floor((pageBytes / bytes) * page.length);
        limit = Math.min(pageKeys.most, Math.max(pageKeys.first, fitting));
      }
    },
    remove: async (space) => {
      const start = `${prefix}${space}/`;
      const range = { key: toBase64(start), range_end: toBase64(endOf(start)) };
      await call('/v3/kv/deleterange', range);
      changes.tellSpace(space);
    },
    isConnected: () => isConnected,
    close: async () => {
      closing.abort();
      await following;
      await gateway.close();
    },
  };
}

/** Checks the server at intervals, and aborts the stream if the server does not respond. */
async function beat(gateway: EtcdGateway, stream: AbortController): Promise<void> {
  for (;;) {
    await sleepUntilAborted(heartbeatMs, stream.signal);
    if (stream.signal.aborted) return;
    try {
      // Read a key that does not exist. etcd responds only if a quorum of its members is available.
      await gateway.call('/v3/kv/range', { key: toBase64('\0'), count_only: true });
    } catch {
      stream.abort();
    }
  }
}

interface EtcdValue {
  readonly name: string;
  readonly value: Uint8Array;
  readonly version: number;
}

function valuesOf({ kvs }: EtcdAnswer): readonly EtcdValue[] {
  return listOf(kvs).map(({ key, value, version }) => ({
    name: Buffer.from(String(key), 'base64').toString('utf8'),
    // etcd omits empty values.
    value: Buffer.from(typeof value === 'string' ? value : '', 'base64'),
    version: Number(version),
  }));
}

function changedKeys({ events }: EtcdAnswer): readonly string[] {
  return listOf(events).flatMap(({ kv }) =>
    isMap(kv) ? [Buffer.from(String(kv.key), 'base64').toString('utf8')] : [],
  );
}

function listOf(value: unknown): readonly EtcdAnswer[] {
  return Array.isArray(value) ? value.filter(isMap) : [];
}

function toBase64(text: string): string {
  return Buffer.from(text).toString('base64');
}

/**
 * Returns the end of the key range for a prefix that ends with a slash. The range does not include
 * this end.
 */
function endOf(prefix: string): string {
  return `${prefix.slice(0, -1)}0`;
}
