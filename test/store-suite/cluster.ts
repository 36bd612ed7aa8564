/** Members of a cluster in one process, with a log in memory. */
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { foundLog } from '#cluster/log/founding.ts';
import { type LogStore, type LogStoreOptions, openLogStore } from '#cluster/log/log-store.ts';
import type { Entry, Store } from '#store';
import { encodeKey } from '#store/key-bytes.ts';
import { openLmdbTables } from '#store/lmdb-tables.ts';
import { packNumber } from '#store/row-layout.ts';
import { MemoryLog } from '../helpers/memory-log.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

/** Options of a member besides its name. */
export type MemberOptions = Partial<LogStoreOptions>;

/** A log and its members. */
export class TestCluster {
  readonly log: MemoryLog = new MemoryLog();
  readonly secret: Buffer = Buffer.alloc(32, 7);
  readonly cluster = 'test';
  readonly directory: string;
  readonly #t: ExecutionContext;

  constructor(t: ExecutionContext) {
    this.#t = t;
    this.directory = temporaryDirectory(t);
  }

  /** Options of foundLog. */
  get given(): Pick<LogStoreOptions, 'log' | 'secret' | 'cluster'> {
    return { log: this.log.connect(), secret: this.secret, cluster: this.cluster };
  }

  directoryOf(member: string): string {
    return path.join(this.directory, member);
  }

  found(now: () => number = Date.now): Promise<void> {
    return foundLog({ ...this.given, now });
  }

  async open(member: string, options: MemberOptions = {}): Promise<LogStore> {
    const store = await openLogStore({
      ...this.given,
      directory: this.directoryOf(member),
      member,
      reportIntervalMs: 20,
      ...options,
    });
    this.#t.teardown(() => store.close());
    return store;
  }
}

/** Returns all entries of a store as text. */
export async function contentOf(store: Store): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of store.list([])) found.push(line(entry));
  return found;
}

function line({ key, value, revision, expiresAt }: Entry): string {
  return `${key.join('/')}=${Buffer.from(value)} ${revision} ${expiresAt}`;
}

/** Changes rows of a closed member, so that its store no longer matches the log. */
export async function spoilStore(directory: string): Promise<void> {
  const tables = openLmdbTables(directory);
  await tables.transaction(() => tables.meta.put(encodeKey(['revision']), packNumber(77)));
  await tables.close();
}
