/**
 * Minions whose keys have ended, with the time of the end. Another machine may have such an id now.
 * It must not receive jobs and secrets of a run that was sent to the former machine.
 */

import Type from 'typebox';
import type { ExtensionHost, JobReturn, KeyLoss } from '#master';
import { defineRow } from '#store';

const prefix = ['lost-keys'];

/** Format of the rows `lost-keys/<minion id>`. */
const lostKeyRow = defineRow({
  name: 'lost key',
  schema: Type.Object({
    /** Time at which the key ended, in milliseconds since 1970. */
    at: Type.Number(),
  }),
});

/**
 * Time for which the end of a key is stored, in milliseconds. A run continues at most until its
 * deadline, a day after its start. A plan can then undo its steps for another day.
 */
const keepMs = 3 * 86_400_000;

/** Record of the ended keys of the last three days. It survives a restart. */
export class LostKeys {
  readonly #host: Pick<ExtensionHost, 'now' | 'shared'>;
  /** Times at which keys ended, by minion id, the oldest first. */
  readonly #times = new Map<string, number>();

  private constructor(host: Pick<ExtensionHost, 'now' | 'shared'>) {
    this.#host = host;
  }

  static async open(host: Pick<ExtensionHost, 'now' | 'shared'>): Promise<LostKeys> {
    const keys = new LostKeys(host);
    await host.shared.follow(prefix, (change) => {
      if (change.type !== 'put') return;
      const { entry } = change;
      keys.#set(entry.key.at(-1) ?? '', lostKeyRow.decode(entry).at);
    });
    return keys;
  }

  /**
   * Records that the key of a minion has ended now. Durable when the promise resolves. In a cluster,
   * only the member that ends a key knows the time. The other members do not replace this time,
   * because a run may have started on the next machine with the id.
   */
  async note(id: string, where: KeyLoss): Promise<void> {
    const isKnown = this.#host.shared.cluster !== undefined && this.#times.has(id);
    if (where === 'elsewhere' || (where === 'earlier' && isKnown)) return;
    const at = this.#host.now();
    this.#set(id, at);
    const value = lostKeyRow.encode({ at });
    const put = { op: 'put', key: [...prefix, id], value, expiresAt: at + keepMs } as const;
    await this.#host.shared.write([put]);
  }

  /** Returns those of the minions whose keys have ended at this time or later. */
  since(minions: readonly string[], time: number): readonly string[] {
    if (this.#times.size === 0) return [];
    return minions.filter((id) => this.#endOf(id) >= time);
  }

  /**
   * Whether the return was received after the key of its minion had ended, and the key ended at the
   * given time or later. Another machine may then have sent the return.
   */
  isOfNextMachine(
    { minion, receivedAt }: Pick<JobReturn, 'minion' | 'receivedAt'>,
    time: number,
  ): boolean {
    const end = this.#endOf(minion);
    return end >= time && receivedAt >= end;
  }

  #endOf(id: string): number {
    return this.#times.get(id) ?? Number.NEGATIVE_INFINITY;
  }

  #set(id: string, at: number): void {
    const oldest = this.#host.now() - keepMs;
    for (const [known, time] of this.#times) {
      if (time > oldest) break;
      this.#times.delete(known);
    }
    this.#times.delete(id);
    this.#times.set(id, at);
  }
}
