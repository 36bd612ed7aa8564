/**
 * Each member of a cluster records the heads of the other members' audit logs in its own log. A
 * head is the sequence number and the hash of the last record. To alter one log unnoticed, an
 * attacker would have to alter the logs of all members.
 */

import type { Store } from '#store';
import type { AuditHead } from '../api/index.ts';
import { type Cluster, ownPrefix } from '../context/index.ts';
import { readHead } from './audit-files.ts';
import type { AuditRecord, AuditTrail } from './audit-record.ts';

const action = 'audit.head';
const detailForm = /^record (\d{1,15}) has the hash ([0-9a-f]{64})$/;
/**
 * Interval at which a member notes the last sequence number and hash of every other member's log,
 * in milliseconds. The notes later show whether another member's log was altered. The records that
 * a member writes after the latest note about its log are protected only by the hash chain of that
 * log.
 */
const noteMs = 600_000;

/**
 * Sequence number and hash of the last record in another member's log, as this member recorded
 * them.
 */
export interface Witness extends AuditHead {
  /** Name of the member whose log contains the record. */
  readonly member: string;
}

/**
 * Reads the sequence number and hash of another member's last record from an audit record. Returns
 * `undefined` if the audit record is about something else.
 */
export function readWitness(record: AuditRecord): Witness | undefined {
  if (record.action !== action || record.what === undefined) return undefined;
  const [, sequence, hash] = detailForm.exec(record.detail ?? '') ?? [];
  if (hash === undefined) return undefined;
  return { member: record.what, sequence: Number(sequence), hash };
}

export interface AuditWitnessOptions {
  readonly audit: Pick<AuditTrail, 'append'>;
  readonly cluster: Pick<Cluster, 'member'> & {
    status(): { readonly members: readonly { readonly name: string }[] };
  };
  /** Store of the cluster. */
  readonly store: Pick<Store, 'get'>;
  /** Id of this master. */
  readonly id: string;
}

/**
 * Appends the sequence number and hash of the other members' last records to this member's audit
 * log, every ten minutes.
 */
export class AuditWitness {
  readonly #options: AuditWitnessOptions;
  readonly #noted = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: AuditWitnessOptions) {
    this.#options = options;
    // If reading the heads fails, the next interval repeats it.
    this.#timer = setInterval(() => void this.note().catch(() => {}), noteMs).unref();
  }

  /**
   * Records the last sequence number and hash of each other member's log, if they changed since the
   * previous recording.
   * @throws StoreError
   */
  async note(): Promise<void> {
    const { audit, cluster, store, id } = this.#options;
    for (const { name } of cluster.status().members) {
      if (name === cluster.member) continue;
      const head = await readHead(store, ownPrefix(name));
      if (head === undefined || this.#noted.get(name) === head.hash) continue;
      this.#noted.set(name, head.hash);
      const who = { kind: 'master', name: id } as const;
      const detail = `record ${head.sequence} has the hash ${head.hash}`;
      audit.append({ who, action, what: name, outcome: 'done', detail });
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
