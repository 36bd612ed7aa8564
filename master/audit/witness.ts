/**
 * Members of a cluster note in their own logs how far the logs of the others are: who writes one of
 * them anew would have to write them all.
 */

import type { Store } from '#store';
import type { AuditHead } from '../api/index.ts';
import { type Cluster, ownPrefix } from '../context/index.ts';
import { readHead } from './audit-files.ts';
import type { AuditRecord, AuditTrail } from './audit-record.ts';

const action = 'audit.head';
const detailForm = /^record (\d{1,15}) has the hash ([0-9a-f]{64})$/;
/** Between two notes: what a member writes within that time is known by its own log alone. */
const noteMs = 600_000;

/** What the log of a member says of another one's. */
export interface Witness extends AuditHead {
  /** The member that it is about. */
  readonly member: string;
}

/** What a record says of the log of another member; `undefined`: it is about something else. */
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
  /** That of the cluster. */
  readonly store: Pick<Store, 'get'>;
  /** Id of this master. */
  readonly id: string;
}

/** Notes how far the logs of the others are, every ten minutes. */
export class AuditWitness {
  readonly #options: AuditWitnessOptions;
  readonly #noted = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: AuditWitnessOptions) {
    this.#options = options;
    // A store that cannot be read now can be later.
    this.#timer = setInterval(() => void this.note().catch(() => {}), noteMs).unref();
  }

  /** Notes what has changed since. @throws StoreError */
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
