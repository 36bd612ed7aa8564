/** All calls of one user to runners and wheel functions share one turn. */

import test from 'ava';
import type { AuditRequester, JobUpdate } from '#master';
import { KeyStore } from '#master/auth/key-store.ts';
import { createKeysApi } from '#master/auth/keys-api.ts';
import { JobCache } from '#master/jobs/job-cache.ts';
import { jobRow } from '#master/jobs/job-row.ts';
import type { WireMap, WireValue } from '#minion-protocol';
import { workSlices } from '#runtime/work-budget.ts';
import type { FunctionTable } from '#salt/functions/define-function.ts';
import { askRunners } from '#salt/runners/ask-runners.ts';
import { CacheBanks } from '#salt/runners/cache-banks.ts';
import { cacheRunner } from '#salt/runners/cache-runner.ts';
import { docRunner } from '#salt/runners/doc-runner.ts';
import { jobsRunner } from '#salt/runners/jobs-runner.ts';
import { queueRunner } from '#salt/runners/queue-runner.ts';
import { keyWheel } from '#salt/wheel/key-wheel.ts';
import { createMemoryStore, type Operation } from '#store';
import { pem } from '../../helpers/vectors.ts';

const ids = Array.from({ length: 200 }, (_, number) => `web${number}`);

/** Functions whose work takes several slices. */
interface Case {
  readonly fun: string;
  readonly kwarg?: WireMap;
  readonly table: () => FunctionTable | Promise<FunctionTable>;
  /** Results of the minions, for jobs that the requester starts. */
  readonly values?: readonly WireValue[];
}

/** Jobs interface with minions that return these values. */
function jobsWith(values: readonly WireValue[]): {
  run: () => AsyncGenerator<JobUpdate, void, void>;
} {
  return {
    run: async function* () {
      for (const [number, value] of values.entries()) {
        const more = { fun: 'x', retcode: 0, success: true, receivedAt: 0 };
        yield { type: 'return', jid: '1', minion: `web${number}`, return: value, ...more };
      }
    },
  };
}

async function jobs(): Promise<FunctionTable> {
  const store = createMemoryStore();
  const operations: Operation[] = ids.map((_, number) => {
    const jid = `${number}`.padStart(20, '0');
    const value = jobRow.encode({
      ...{ jid, fun: 'test.ping', arg: [], tgt: 'web1', tgtType: 'glob', user: 'root' },
      ...{ minions: ['web1'], missing: [], publishedAt: 0, selfMade: false },
    });
    return { op: 'put', key: ['jobs', jid], value };
  });
  await store.write(operations);
  const options = { store, isOn: true, keepMs: 86_400_000, keepMarksMs: 1, now: Date.now };
  return jobsRunner({ running: () => [], jobs: jobsWith([]), cache: new JobCache(options) });
}

function cache(): FunctionTable {
  return cacheRunner({
    facts: {
      of: () => ({ grains: { get: () => undefined, whole: () => ({}) }, pillar: undefined }),
      forgetPart: async () => {},
    },
    mine: undefined,
    targets: {
      resolve: async () => ({
        ...{ minions: ids, missing: [], isNarrowed: false, unknown: [], resources: new Map() },
        ...{ target: { tgt: '*', tgtType: 'glob' }, problem: undefined },
      }),
      resolveExact: async () => ({ minions: ids, missing: [], isNarrowed: false }),
    },
    acceptedIds: () => ids,
    banks: new CacheBanks(createMemoryStore()),
  });
}

function ask(): FunctionTable {
  return askRunners({
    api: jobsWith([]),
    targets: { resolveWithin: () => Promise.reject(new Error('no target is resolved')) },
  });
}

async function keys(): Promise<FunctionTable> {
  const key = { pem: pem('other_minion').publicPem, since: 0 };
  const files = new Map(ids.map((id) => [id, key]));
  const store = await KeyStore.open({
    files: {
      list: async () => [],
      readAll: (place) => (place === 'accepted' ? files : new Map()),
      read: async () => undefined,
      write: async () => {},
      move: async () => {},
      remove: async () => {},
    },
    watch: () => () => {},
  });
  const api = createKeysApi({
    keys: store,
    hashType: 'sha256',
    protocolOf: () => 0,
    unpin: async () => {},
    ownKeys: async () => [],
    generator: { generateFor: () => Promise.reject(new Error('no key is generated')) },
  });
  return keyWheel({ keys: api, ownKeys: () => [] });
}

const long = 'x'.repeat(60_000);
const cases: readonly Case[] = [
  { fun: 'jobs.list_jobs', table: jobs },
  { fun: 'jobs.list_jobs_filter', kwarg: { count: 200 }, table: jobs },
  { fun: 'cache.grains', table: cache },
  { fun: 'cache.clear_all', kwarg: { tgt: '*' }, table: cache },
  {
    fun: 'doc.execution',
    table: () =>
      docRunner({
        docs: { runner: () => ({}), wheel: () => ({}) },
        jobs: jobsWith(ids.map(() => Object.fromEntries(ids.map((id) => [id, 'text'])))),
      }),
  },
  { fun: 'survey.hash', kwarg: { tgt: '*', fun: 'x' }, table: ask, values: ids.map(() => long) },
  { fun: 'survey.diff', kwarg: { tgt: '*', fun: 'x' }, table: ask, values: ids },
  { fun: 'key.finger', kwarg: { match: '*', hash_type: 'sha512' }, table: keys },
  { fun: 'key.list_all', table: keys },
];

function callAs(
  name: string,
  table: FunctionTable,
  { fun, kwarg = {}, values = [] }: Case,
): Promise<WireValue> | WireValue {
  const by: AuditRequester = { who: { kind: 'user', name, eauth: 'pam' }, rule: 'all' };
  const bound = table[fun]?.bind([], kwarg);
  if (bound === undefined) throw new Error(`unknown function ${fun}`);
  return bound({
    ...{ jid: '1', user: name, by, timeoutSeconds: undefined, emit: () => {} },
    closing: new AbortController().signal,
    asked: { fun, arg: [], kwarg },
    requesterJobs: jobsWith(values),
    continueElsewhere: () => {},
    atEnd: () => {},
  });
}

/** Number of calls of the other user. */
const others = 20;

/** Counts the slices until the call of a user ends, while another user makes many calls. */
async function slicesOfUser(
  each: Case,
): Promise<{ readonly delayed: number; readonly own: number }> {
  const table = await each.table();
  let slices = 0;
  const count = (): void => {
    slices += 1;
  };
  workSlices.subscribe(count);
  try {
    await callAs('alone', table, each);
    const own = slices;
    const calls = Array.from({ length: others }, async () => callAs('alice', table, each));
    slices = 0;
    await callAs('bob', table, each);
    const delayed = slices;
    await Promise.all(calls);
    return { delayed, own };
  } finally {
    workSlices.unsubscribe(count);
  }
}

for (const each of cases) {
  test.serial(`many calls of ${each.fun} by one user delay another user by one turn`, async (t) => {
    const { delayed, own } = await slicesOfUser(each);
    // Each call runs its first slice at once. After that, the users take turns.
    t.true(own >= 2 && delayed <= others + 3 * own, `${delayed} slices, ${own} alone`);
  });
}

test.serial(
  'many calls of one user that change queues delay another user by one call',
  async (t) => {
    const { delayed, own } = await slicesOfUser({
      fun: 'queue.insert',
      kwarg: { queue: 'q', items: ids.map((id) => id + long) },
      table: () =>
        queueRunner({
          store: createMemoryStore(),
          bus: { fire: () => {} },
          isFullService: () => false,
          run: async () => {},
        }),
    });
    t.true(own >= 50 && delayed <= 3 * own, `${delayed} slices, ${own} alone`);
  },
);
