/** Polls the cloud for instances and ports, and updates the peer directory. */

import type { Logger } from 'pino';
import { sleepUntilAborted } from '#runtime';
import type { CloudReader, CloudServer } from '../cloud/cloud-reader.ts';
import { guestLimits } from '../limits.ts';
import type { PeerDirectory } from './peers.ts';

export interface PeerPollerOptions {
  readonly reader: Pick<CloudReader, 'networks' | 'ports' | 'server' | 'servers'>;
  readonly directory: PeerDirectory;
  /** Interval between two polls for changes, in milliseconds. */
  readonly intervalMs: number;
  readonly fullIntervalMs: number;
  /** Returns the current time, in milliseconds since 1970. */
  readonly now: () => number;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

/**
 * Overlap of consecutive polls, in milliseconds. It covers differences between clocks, and changes
 * that become visible late.
 */
const overlapMs = 60_000;
const maxBackOff = 16;
/**
 * Delay between a notification and the read that it causes, in milliseconds. Related notifications
 * usually arrive within this time.
 */
const notifiedDelayMs = 1000;
/** Maximum number of notified instances that one poll reads. */
const notifiedOfPoll = 100;

/**
 * Keeps the peer directory up to date with the cloud. If the cloud cannot be read, the directory
 * does not change.
 */
export class PeerPoller {
  readonly #options: PeerPollerOptions;
  #fullAt = -Infinity;
  #polledAt = 0;
  #failures = 0;
  /** Ids of instances that have changed according to notifications. */
  readonly #notified = new Set<string>();
  #wake = new AbortController();

  constructor(options: PeerPollerOptions) {
    this.#options = options;
  }

  /** Polls until the signal fires. */
  async run(closing: AbortSignal): Promise<void> {
    while (!closing.aborted) {
      await this.#tryToPoll(closing);
      const factor = Math.min(2 ** this.#failures, maxBackOff);
      await this.#sleep(this.#options.intervalMs * factor, closing);
    }
  }

  /**
   * Schedules an early poll. The poll reads these instances, and all instances that have changed
   * since the last poll.
   */
  noteChanged(instances: readonly string[]): void {
    for (const id of instances) {
      if (this.#notified.size >= (guestLimits.notifiedInstances.total ?? Infinity)) break;
      this.#notified.add(id);
    }
    // After a failed poll, wait until its retry delay has passed.
    if (this.#failures === 0) this.#wake.abort();
  }

  async #sleep(ms: number, closing: AbortSignal): Promise<void> {
    if (this.#notified.size === 0 || this.#failures > 0) {
      this.#wake = new AbortController();
      await sleepUntilAborted(ms, AbortSignal.any([closing, this.#wake.signal]));
    }
    if (this.#notified.size > 0) await sleepUntilAborted(notifiedDelayMs, closing);
  }

  /**
   * Polls once.
   * @throws CloudError
   */
  async poll(): Promise<void> {
    const { now, fullIntervalMs } = this.#options;
    const startedAt = now();
    // Monotonic time; `startedAt` is wall-clock time.
    const time = performance.now();
    if (time - this.#fullAt >= fullIntervalMs) {
      this.#notified.clear();
      await this.#readAll();
      this.#fullAt = time;
    } else {
      const notified = [...this.#notified].slice(0, notifiedOfPoll);
      for (const id of notified) this.#notified.delete(id);
      await this.#readChanges(this.#polledAt - overlapMs, notified);
    }
    this.#polledAt = startedAt;
  }

  async #tryToPoll(closing: AbortSignal): Promise<void> {
    try {
      await this.poll();
      this.#failures = 0;
    } catch (error) {
      if (closing.aborted) return;
      this.#failures = Math.min(this.#failures + 1, maxBackOff);
      const reason = error instanceof Error ? error.message : 'unknown';
      this.#options.log.warn(
        { reason },
        'could not read instances and ports from Nova and Neutron; retrying',
      );
    }
  }

  async #readAll(): Promise<void> {
    const { reader, directory } = this.#options;
    const before = directory.cloud;
    const found = await reader.servers();
    const servers = new Map(
      found.filter((it) => !it.isDeleted).map((it) => [it.id, withKnown(it, before.servers)]),
    );
    const ports = Map.groupBy(await reader.ports(), ({ device }) => device);
    directory.cloud = { servers, ports, networks: await reader.networks() };
  }

  async #readChanges(since: number, notified: readonly string[]): Promise<void> {
    const { reader, directory } = this.#options;
    const changed = [...(await reader.servers(new Date(since).toISOString()))];
    const seen = new Set(changed.map(({ id }) => id));
    // Nova does not report an instance as changed if only its ports have changed.
    for (const id of notified.filter((it) => !seen.has(it))) {
      const server = await reader.server(id);
      if (server !== undefined) changed.push(server);
    }
    if (changed.length === 0) return;
    const before = directory.cloud;
    const servers = new Map(before.servers);
    const ports = new Map(before.ports);
    const present = changed.filter((it) => !it.isDeleted).map(({ id }) => id);
    const fresh = Map.groupBy(await reader.ports(present), ({ device }) => device);
    for (const server of changed) {
      ports.delete(server.id);
      if (server.isDeleted) servers.delete(server.id);
      else servers.set(server.id, withKnown(server, before.servers));
    }
    for (const [id, own] of fresh) ports.set(id, own);
    const isNew = [...fresh.values()]
      .flat()
      .some(({ network }) => !before.networks.labels.has(network));
    const networks = isNew ? await reader.networks() : before.networks;
    directory.cloud = { servers, ports, networks };
  }
}

/**
 * Returns an instance with its details. If the cell of the instance is unreachable, Nova omits the
 * details. They are then taken from the previous poll, provided that the instance belonged to the
 * same project. If that fails, returns the instance without details.
 */
function withKnown(server: CloudServer, before: ReadonlyMap<string, CloudServer>): CloudServer {
  if (server.name !== undefined) return server;
  const known = before.get(server.id);
  return known?.project === server.project ? known : server;
}
