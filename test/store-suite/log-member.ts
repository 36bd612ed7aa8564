/**
 * A member of a cluster that writes until it is killed. Its argument is a {@link MemberSetting} as
 * JSON. It reports the begin and the end of each write, and on `report` the content of its store.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { openJetStreamLog } from '#cluster/log/jetstream-log.ts';
import { type LogStore, openLogStore } from '#cluster/log/log-store.ts';
import { StoreError } from '#store';
import { contentOf } from './cluster.ts';

export interface MemberSetting {
  readonly member: string;
  readonly directory: string;
  readonly servers: readonly string[];
  readonly cluster: string;
  readonly secret: string;
  /** Number of this start. It is part of all values, so that no two starts write the same value. */
  readonly run: number;
  readonly clockMs: number;
}

/** Message of a member. */
export type MemberMessage =
  | { readonly type: 'open' }
  | { readonly type: 'try' | 'kept' | 'refused' | 'unknown'; readonly value: string }
  | { readonly type: 'counted' }
  | { readonly type: 'failed'; readonly code: string }
  | {
      readonly type: 'report';
      readonly position: number;
      readonly records: readonly string[];
      readonly content: string;
      readonly counter: number;
    };

const lanes = 4;
const setting: MemberSetting = JSON.parse(process.argv[2] ?? '{}');
const { member, run } = setting;
let isWriting = true;

function tell(message: MemberMessage): void {
  process.send?.(message);
}

async function open(): Promise<LogStore> {
  for (;;) {
    try {
      const { servers, cluster } = setting;
      const log = await openJetStreamLog({ servers, cluster, connectTimeoutMs: 60_000 });
      return await openLogStore({
        directory: setting.directory,
        log,
        secret: Buffer.from(setting.secret, 'hex'),
        cluster,
        member,
        now: () => Date.now() + setting.clockMs,
        onDiverged: ({ code }) => tell({ type: 'failed', code }),
      });
    } catch (error) {
      const code = error instanceof StoreError ? error.code : String(error);
      if (code !== 'ERR_STORE_UNAVAILABLE' && code !== 'ERR_CLUSTER_OUTCOME') {
        process.send?.({ type: 'failed', code }, () => process.exit(1));
        await once(process, 'exit');
      }
      await sleep(200);
    }
  }
}

async function writeLane(store: LogStore, lane: number): Promise<void> {
  for (let i = 0; isWriting; i += 1) {
    const value = `${member}-${run}-${lane}-${i}`;
    tell({ type: 'try', value });
    try {
      await store.write([
        { op: 'append', stream: 's', value: Buffer.from(value) },
        { op: 'put', key: ['last', member, String(lane)], value: Buffer.from(value) },
        { op: 'put', key: ['brief', value], value: Buffer.from(''), expiresAt: Date.now() + 2000 },
      ]);
      tell({ type: 'kept', value });
    } catch (error) {
      const isUnknown = error instanceof StoreError && error.code === 'ERR_CLUSTER_OUTCOME';
      tell({ type: isUnknown ? 'unknown' : 'refused', value });
      await sleep(100);
    }
  }
}

/** Increments a counter, unless another member has done so meanwhile. */
async function count(store: LogStore): Promise<void> {
  while (isWriting) {
    const before = await store.get(['counter']);
    const value = Buffer.from(String(Number(Buffer.from(before?.value ?? []).toString()) + 1));
    const ifRevision = before?.revision ?? 0;
    await store.write([{ op: 'put', key: ['counter'], value, ifRevision }]).then(
      () => tell({ type: 'counted' }),
      () => sleep(20),
    );
  }
}

async function report(store: LogStore): Promise<void> {
  const records = await store.stream('s').read();
  const content = (await contentOf(store)).join('\n');
  const counter = await store.get(['counter']);
  tell({
    type: 'report',
    position: store.status.position,
    records: records.map(({ value }) => Buffer.from(value).toString()),
    content: createHash('sha256').update(content).digest('hex'),
    counter: Number(Buffer.from(counter?.value ?? []).toString()),
  });
}

const store = await open();
tell({ type: 'open' });
const writers = [
  ...Array.from({ length: lanes }, (_, lane) => writeLane(store, lane)),
  count(store).catch(() => {}),
];
for (;;) {
  const [told] = await once(process, 'message');
  if (told === 'end') {
    isWriting = false;
    await Promise.all(writers);
    await store.barrier();
    tell({ type: 'open' });
  } else await report(store);
}
