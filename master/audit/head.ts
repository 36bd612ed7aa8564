/** What the store knows of the audit log, so that a tail that was cut off is missed. */
import type { Store } from '../../store/index.ts';
import type { AuditHead } from './chain.ts';

/** The log as it was when it was last synchronised. */
export interface StoredHead extends AuditHead {
  /** Sequence of the first record that is kept: what was before it has been rotated away. */
  readonly first: number;
}

const key = ['audit', 'head'] as const;

/** `undefined`: there was none, or it is none. */
export async function readHead(store: Pick<Store, 'get'>): Promise<StoredHead | undefined> {
  const entry = await store.get(key);
  if (entry === undefined) return undefined;
  const [sequence, first, hash = ''] = Buffer.from(entry.value).toString().split(' ');
  return { sequence: Number(sequence), first: Number(first), hash };
}

export async function writeHead(store: Store, head: StoredHead): Promise<void> {
  const value = Buffer.from(`${head.sequence} ${head.first} ${head.hash}`);
  await store.write([{ op: 'put', key, value }]);
}
