/**
 * Simulated minions of the campaign. Some have one master, others are connected to two or three.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { isWireMap, type WireMap } from '#minion-protocol';
import { LastingMinion } from '../../../bench/crash/lasting-minion.ts';
import { importKey, type SwarmKey, swarmId } from '../../../bench/swarm/keys.ts';
import { HistoryFile } from './history.ts';
import type { Site } from './site.ts';

export const handles: readonly string[] = Array.from({ length: 12 }, (_, index) => `h${index}`);

/** Time that Salt's minions wait for a reply, approximately, in milliseconds. */
const answerMs = 10_000;

/** Function with which masters ask about jobs that take long. It is not stored as a job. */
const question = 'saltutil.find_job';

/** One minion with its connections. */
interface HotMinion {
  readonly id: string;
  readonly connections: readonly LastingMinion[];
}

export interface SignalRate {
  readonly signalsPerSecond: number;
}

export class SimulatedMinions {
  readonly #history: HistoryFile;
  readonly #minions: readonly HotMinion[];
  /**
   * Time at which each connection last had a return acknowledged, by master, in milliseconds since
   * 1970.
   */
  readonly answeredAt: Map<string, number> = new Map();
  /** Sign-ins after the first one, with their reasons. */
  readonly signIns: { readonly why: string; readonly at: number }[] = [];
  returns = 0;
  signals = 0;
  #isEmitting = true;
  #emitting: Promise<unknown> = Promise.resolve();

  /** Signs the minions in and subscribes them. */
  static async start(site: Site, count: number): Promise<SimulatedMinions> {
    const minions = new SimulatedMinions(site, count);
    for (const { connections } of minions.#minions) {
      for (const connection of connections) {
        await connection.signIn(undefined);
        await connection.listen();
      }
    }
    return minions;
  }

  private constructor(site: Site, count: number) {
    this.#history = new HistoryFile(site.histories, 'minions');
    const keys = site.keys.map(importKey);
    this.#minions = Array.from({ length: count }, (_, index) => {
      const [key] = keys.slice(index % keys.length);
      if (key === undefined) throw new Error('no key');
      return this.#connect(site, index, key);
    });
  }

  get ids(): readonly string[] {
    return this.#minions.map(({ id }) => id);
  }

  /**
   * Sends signals until {@link stopSignals}. Each minion uses one handle after the other, and sends
   * one signal at a time.
   */
  signal({ signalsPerSecond }: SignalRate): void {
    const pauseMs = (1000 * this.#minions.length) / signalsPerSecond;
    this.#emitting = Promise.all(
      this.#minions.map(async ({ id, connections: [connection] }, offset) => {
        for (let number = 0; this.#isEmitting; number += 1) {
          const from = Date.now();
          const handle = handles[(offset + number) % handles.length] ?? '';
          const data = { data: { minion: id, number } };
          const isTaken = await connection?.emit(`heat/${handle}`, data);
          const outcome = isTaken === true ? 'kept' : 'unknown';
          const to = Date.now();
          this.#history.note({ fact: 'signal', handle, minion: id, number, outcome, from, to });
          if (outcome === 'kept') this.signals += 1;
          await sleep(Math.max(0, pauseMs - (to - from)));
        }
      }),
    );
  }

  /** Resolves when all signals that were begun are answered. */
  async stopSignals(): Promise<void> {
    this.#isEmitting = false;
    await this.#emitting;
  }

  stop(): void {
    this.#isEmitting = false;
    for (const { connections } of this.#minions) for (const it of connections) it.stop();
  }

  #connect(site: Site, index: number, key: SwarmKey): HotMinion {
    const id = swarmId(index);
    const seen = new Set<string>();
    const asked = new Set<string>();
    const { members, requestPort, publishPort } = site;
    const masters = Array.from({ length: mastersOf(index) }, (_, step) => {
      const member = members[(index + step) % members.length];
      if (member === undefined) throw new Error('no member');
      return member;
    });
    const connections = masters.map(
      ({ name, place: { host } }) =>
        new LastingMinion({
          id,
          index,
          key,
          requestPort,
          publishPort,
          host,
          answerMs,
          signsInAgain: true,
          // Like Salt's minion, it does not run a job again that it has received from another
          // master.
          isNew: (jid) => {
            const isNew = !seen.has(jid);
            seen.add(jid);
            return isNew;
          },
          onJob: (jid, minion, job) => {
            if (job.fun === question) {
              asked.add(jid);
              return;
            }
            const runKey = keyOf(job);
            this.#history.note({
              fact: 'ran',
              jid,
              minion,
              ...(runKey === undefined ? {} : { key: runKey }),
            });
          },
          onAcknowledged: (jid, minion) => {
            if (asked.delete(jid)) return;
            const at = Date.now();
            this.#history.note({ fact: 'returned', jid, minion, at });
            this.answeredAt.set(name, at);
            this.returns += 1;
          },
          onOutdated: (_, why) => this.signIns.push({ why, at: Date.now() }),
        }),
    );
    return { id, connections };
  }
}

/**
 * Returns the masters of a minion. Of six minions, three have one master, two have two, and one has
 * three.
 */
function mastersOf(index: number): number {
  return [1, 1, 1, 2, 2, 3][index % 6] ?? 1;
}

/** Returns the key with which a run of the bridge was called. */
function keyOf({ arg }: WireMap): string | undefined {
  const keywords = Array.isArray(arg) ? arg.at(-1) : undefined;
  return isWireMap(keywords) && typeof keywords.key === 'string' ? keywords.key : undefined;
}
