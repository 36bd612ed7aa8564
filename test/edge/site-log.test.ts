/** The log of a site: bounds, dropping, acknowledgement and reopening; and its ingest. */

import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import Type from 'typebox';
import { openSiteFacts } from '#edge/facts/site-facts.ts';
import { DurableLog } from '#edge/log/durable-log.ts';
import { type LogClass, logClasses, type NewLogEntry } from '#edge/log/log.ts';
import {
  decodeBatch,
  decodeValue,
  encodeBatch,
  isMarker,
  lastOf,
  type SentItem,
} from '#edge/log/log-codec.ts';
import { openSignalSource } from '#edge/log/site-signals.ts';
import { openSources } from '#edge/log/site-sources.ts';
import { ApprovedPlans } from '#edge/orders/approved-plans.ts';
import type { CentreClock } from '#edge/orders/centre-clock.ts';
import type { SiteContext } from '#edge/parts.ts';
import { type JobReturn, MasterError, type StateArea, type StateOperation } from '#master';
import { createMemoryStore, defineRow, type Store } from '#store';

function areaOf({ get, list, write }: Store): StateArea {
  const plain = (bytes: Uint8Array): Uint8Array => bytes;
  return { get, list, write, seal: plain, unseal: plain } as StateArea;
}

function memoryArea(): StateArea {
  const store = createMemoryStore();
  return areaOf({
    ...store,
    get: (key) => store.get(key),
    list: (prefix, options) => store.list(prefix, options),
    write: (operations) => store.write(operations),
  } as Store);
}

async function allOf(log: DurableLog, name: LogClass): Promise<readonly SentItem[]> {
  return log.read(name, Number.MAX_SAFE_INTEGER, 100_000);
}

/** Requires that each sequence number from the first to the last item belongs to one item. */
function requireNoGap(t: ExecutionContext, items: readonly SentItem[]): void {
  for (const [index, item] of items.entries()) {
    const before = items[index - 1];
    const first = isMarker(item) ? item.from : item.sequence;
    if (before !== undefined) t.is(first, lastOf(before) + 1);
  }
}

/** Number of entries that the markers of a class state as dropped. */
async function markedOf(log: DurableLog, name: LogClass): Promise<number> {
  const markers = (await allOf(log, name)).filter(isMarker);
  return markers.reduce((sum, { from, to }) => sum + to - from + 1, 0);
}

const mebibyte = 2 ** 20;

// EDGE-C4 of docs/consistency.md
test('a full log drops the oldest entries of the last class, and a marker states them', async (t) => {
  const state = memoryArea();
  const log = await DurableLog.open({ state, now: () => 1000, maxBytes: mebibyte });
  const value = { text: 'x'.repeat(10_000) };
  for (let count = 0; count < 20; count += 1) {
    await log.append({ class: 'alarm', kind: 'event', value });
  }
  for (let count = 0; count < 100; count += 1) {
    await log.append({ class: 'fact', kind: 'minion', value });
  }
  const { alarm, fact } = log.waiting;
  t.is(alarm.dropped, 0);
  t.is(alarm.entries, 20);
  t.true(fact.dropped > 0);
  t.is(fact.entries + fact.dropped, 100);
  t.true(alarm.bytes + fact.bytes <= mebibyte);
  const [marker, next] = await allOf(log, 'fact');
  t.deepEqual(marker, { from: 1, to: fact.dropped, oldestAt: 1000 });
  t.is(next && lastOf(next), fact.dropped + 1);
});

test('alarms are dropped only if nothing else is left', async (t) => {
  const state = memoryArea();
  const log = await DurableLog.open({ state, now: () => 1, maxBytes: mebibyte });
  const value = { text: 'x'.repeat(20_000) };
  await log.append({ class: 'return', kind: 'return', value });
  for (let count = 0; count < 60; count += 1) {
    await log.append({ class: 'alarm', kind: 'event', value });
  }
  t.is(log.waiting.return.entries, 0);
  t.is(log.waiting.return.dropped, 1);
  t.true(log.waiting.alarm.dropped > 0);
  t.true(log.waiting.alarm.bytes <= mebibyte);
});

// EDGE-C4 of docs/consistency.md
test('any course of appending, acknowledging and reopening keeps order, bounds and figures', async (t) => {
  const step = fc.oneof(
    fc.record({
      kind: fc.constant('append' as const),
      class: fc.constantFrom(...logClasses),
      minion: fc.constantFrom('web1', 'web2', undefined),
      size: fc.integer({ min: 0, max: 60_000 }),
      count: fc.integer({ min: 1, max: 30 }),
    }),
    fc.record({
      kind: fc.constant('acknowledge' as const),
      class: fc.constantFrom(...logClasses),
      items: fc.integer({ min: 1, max: 20 }),
    }),
    fc.record({ kind: fc.constant('reopen' as const) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const options = { state: memoryArea(), now: () => 5, maxBytes: mebibyte };
      let log = await DurableLog.open(options);
      for (const each of steps) {
        if (each.kind === 'reopen') {
          const { waiting, id } = log;
          log = await DurableLog.open(options);
          t.deepEqual(log.waiting, waiting);
          t.is(log.id, id);
        } else if (each.kind === 'append') {
          const value = { text: 'x'.repeat(each.size) };
          const entry = { class: each.class, kind: 'event', value, minion: each.minion };
          await Promise.all(Array.from({ length: each.count }, () => log.append(entry)));
        } else {
          const items = await log.read(each.class, Number.MAX_SAFE_INTEGER, each.items);
          const last = items.at(-1);
          if (last !== undefined) await log.acknowledge(each.class, lastOf(last));
        }
        let bytes = 0;
        for (const name of logClasses) {
          const items = await allOf(log, name);
          const entries = items.filter((it) => !isMarker(it));
          const figures = log.waiting[name];
          t.is(figures.entries, entries.length);
          t.true(items.length - entries.length <= entries.length + 1);
          requireNoGap(t, items);
          if (entries.length === 0 && items.length === 0) t.is(figures.oldestAt, undefined);
          if (items.length > 0) decodeBatch(encodeBatch(items.slice(0, 5)));
          bytes += figures.bytes;
        }
        t.true(bytes <= mebibyte);
      }
      for (const name of logClasses) {
        const last = (await allOf(log, name)).at(-1);
        if (last !== undefined) await log.acknowledge(name, lastOf(last));
        t.false(log.hasWork(name));
        t.is(log.waiting[name].bytes, 0);
      }
      t.deepEqual(await Array.fromAsync(options.state.list(['log', 'minion'])), []);
    }),
    { numRuns: 25 },
  );
});

test('the returns of one minion leave space in the log for those of others', async (t) => {
  const options = { state: memoryArea(), now: () => 1, maxBytes: 2 * mebibyte };
  let log = await DurableLog.open(options);
  const add = async (minion: string, times: number): Promise<void> => {
    for (let count = 0; count < times; count += 1) {
      const value = { jid: '1', minion, return: 'x'.repeat(20_000) };
      await log.append({ class: 'return', kind: 'return', value, minion });
    }
  };
  const wholeOf = async (minion: string): Promise<number> => {
    const values = (await allOf(log, 'return')).map((it) =>
      isMarker(it) ? {} : decodeValue(it.value),
    );
    return values.filter((it) => it.minion === minion && it.return !== 'VALUE_TRIMMED').length;
  };
  await add('web1', 5);
  await add('loud', 60);
  log = await DurableLog.open(options);
  await add('loud', 60);
  await add('web1', 5);
  await add('web2', 5);
  t.is(log.waiting.return.entries, 135);
  t.is(log.waiting.return.dropped, 0);
  t.deepEqual([await wholeOf('web1'), await wholeOf('web2')], [10, 5]);
  const ofLoud = await wholeOf('loud');
  t.true(ofLoud > 30 && ofLoud < 60);
  // The centre stores all entries, so that the minion has its share again.
  await log.acknowledge('return', 135);
  t.deepEqual(await Array.fromAsync(options.state.list(['log', 'minion'])), []);
  await add('loud', 40);
  t.is(await wholeOf('loud'), 40);
});

test('signals and events of one minion do not displace the returns and facts of others', async (t) => {
  const options = { state: memoryArea(), now: () => 1, maxBytes: mebibyte };
  const excessive: string[] = [];
  const open = (): Promise<DurableLog> =>
    DurableLog.open({ ...options, onExcess: (minion) => excessive.push(minion) });
  let log = await open();
  const add = async (minion: string, name: LogClass, size: number): Promise<void> => {
    const value = { minion, text: 'x'.repeat(size) };
    await log.append({ class: name, kind: 'event', value, minion });
  };
  const reportAll = async (): Promise<void> => {
    for (let count = 0; count < 200; count += 1) {
      await add(`web${count % 20}`, 'return', 300);
      await add(`web${count % 20}`, 'fact', 100);
      // The entries of the rogue minion lie between those of the others.
      await add('rogue', 'return', 10);
    }
  };
  const flood = async (size: number, times: number): Promise<void> => {
    for (let count = 0; count < times; count += 1) {
      await add('rogue', count % 3 === 0 ? 'alarm' : 'signal', size);
    }
  };
  // The rogue minion fills the log before the others use it.
  await flood(20_000, 60);
  await reportAll();
  await flood(300, 2000);
  log = await open();
  await flood(300, 1000);
  await reportAll();
  log = await open();
  await flood(5000, 100);
  const { waiting } = log;
  t.is(waiting.fact.dropped, 0);
  t.is(waiting.fact.entries, 400);
  const values = (await allOf(log, 'return')).map((it) =>
    isMarker(it) ? {} : decodeValue(it.value),
  );
  t.is(values.filter(({ minion }) => minion !== undefined && minion !== 'rogue').length, 400);
  t.deepEqual(new Set(excessive), new Set(['rogue']));
  // Its own entries are dropped in the order of the classes.
  t.is(waiting.signal.entries, 0);
  t.true(waiting.alarm.entries > 0 && waiting.alarm.dropped > 0);
  let bytes = 0;
  for (const name of logClasses) {
    t.is(await markedOf(log, name), waiting[name].dropped);
    requireNoGap(t, await allOf(log, name));
    bytes += waiting[name].bytes;
  }
  t.true(bytes <= mebibyte);
});

test('entries of minions with equal parts of a full log are dropped by class', async (t) => {
  for (const minions of [1, 2, 3, 5, 8, 40]) {
    const options = { state: memoryArea(), now: () => 1, maxBytes: mebibyte };
    let log = await DurableLog.open(options);
    for (let count = 0; count < 500; count += 1) {
      if (count === 300) log = await DurableLog.open(options);
      const minion = `web${count % minions}`;
      const value = { minion, text: 'x'.repeat(900) };
      for (const name of ['signal', 'return', 'fact'] as const) {
        await log.append({ class: name, kind: 'event', value, minion });
      }
      const { signal, fact } = log.waiting;
      t.is(signal.dropped, 0);
      if (log.waiting.return.dropped > 0) t.is(fact.entries, 0);
    }
    t.true(log.waiting.return.dropped > 0);
    for (const name of logClasses) t.true((await allOf(log, name)).filter(isMarker).length <= 1);
  }
});

test('a write reads few rows of the log to drop the entries of one minion', async (t) => {
  const { list, ...area } = memoryArea();
  let rows = 0;
  const state: StateArea = {
    ...area,
    list: async function* (prefix, options) {
      for await (const row of list(prefix, options)) {
        rows += 1;
        yield row;
      }
    },
  };
  const log = await DurableLog.open({ state, now: () => 1, maxBytes: mebibyte });
  const add = async (minion: string, times: number): Promise<void> => {
    const entry = { class: 'return', kind: 'event', value: { minion }, minion } as const;
    await Promise.all(Array.from({ length: times }, () => log.append(entry)));
  };
  await add('rogue', 1);
  for (let count = 0; count < 30; count += 1) await add(`web${count}`, 140);
  let mostRows = 0;
  let allRows = 0;
  let times = 0;
  while (log.waiting.return.dropped < 500) {
    rows = 0;
    await add('rogue', 1);
    mostRows = Math.max(mostRows, rows);
    allRows += rows;
    times += 1;
  }
  // A write searches 2048 rows at most, and reads a few to drop entries.
  t.true(mostRows > 1000 && mostRows < 2500, `${mostRows} rows`);
  t.true(allRows < 4201 + 10 * times, `${allRows} rows in ${times} writes`);
});

test('minions that fill the log together leave the reserves of others and of the site', async (t) => {
  for (const rogues of [4, 30]) {
    const options = { state: memoryArea(), now: () => 1, maxBytes: mebibyte };
    let log = await DurableLog.open(options);
    const flood = async (name: LogClass, size: number, times: number): Promise<void> => {
      const text = 'x'.repeat(size);
      const entries = Array.from({ length: times }, (_, count) => {
        const minion = `rogue${count % rogues}`;
        return { class: name, kind: 'event', value: { minion, text }, minion };
      });
      await Promise.all(entries.map((entry) => log.append(entry)));
    };
    await flood('alarm', 5000, 300);
    const text = 'y'.repeat(1200);
    for (let count = 0; count < 12; count += 1) {
      const minion = `web${count % 3}`;
      const value = { minion, text };
      await log.append({ class: 'return', kind: 'return', value, minion });
      await log.append({ class: 'fact', kind: 'minion', value: { minion }, minion });
      await log.append({ class: 'signal', kind: 'order', value: { text } });
      await log.append({ class: 'return', kind: 'audit', value: { text } });
      await flood('alarm', 1000, 20);
      await flood('return', 1000, 60);
    }
    log = await DurableLog.open(options);
    await flood('signal', 2000, 600);
    await flood('alarm', 2000, 900);
    const kept: string[] = [];
    let bytes = 0;
    for (const name of logClasses) {
      const items = await allOf(log, name);
      requireNoGap(t, items);
      t.is(await markedOf(log, name), log.waiting[name].dropped);
      bytes += log.waiting[name].bytes;
      for (const item of items) {
        const { minion, text: found } = isMarker(item) ? {} : decodeValue(item.value);
        if (isMarker(item) || String(minion).startsWith('rogue')) continue;
        kept.push(item.kind);
        if (item.kind !== 'minion') t.is(found, text);
      }
    }
    t.true(bytes <= mebibyte);
    const count = (kind: string): number => kept.filter((it) => it === kind).length;
    t.deepEqual(['return', 'minion', 'order', 'audit'].map(count), [12, 12, 12, 12]);
    t.is(log.waiting.signal.entries, 12);
  }
});

test('the entries of the site itself leave the reserves of minions', async (t) => {
  const log = await DurableLog.open({ state: memoryArea(), now: () => 1, maxBytes: mebibyte });
  const value = { text: 'x'.repeat(5000) };
  const add = async (minion: string | undefined, times: number): Promise<void> => {
    const entry = { class: 'return', kind: 'event', value, minion } as const;
    for (let count = 0; count < times; count += 1) await log.append(entry);
  };
  await add('web1', 20);
  await add('web2', 20);
  await add(undefined, 500);
  const causes = (await allOf(log, 'return')).map((it): unknown => Object(it).minion);
  t.is(causes.filter((minion) => minion === 'web1' || minion === 'web2').length, 40);
});

test('the returns of a minion within its reserve are whole, whatever others have stored', async (t) => {
  const log = await DurableLog.open({ state: memoryArea(), now: () => 1, maxBytes: mebibyte });
  const add = async (minion: string, size: number, times: number): Promise<void> => {
    const value = { minion, return: 'x'.repeat(size) };
    const entry = { class: 'return', kind: 'return', value, minion } as const;
    for (let count = 0; count < times; count += 1) await log.append(entry);
  };
  // Each takes what the others have left.
  for (let count = 0; count < 10; count += 1) {
    for (const size of [20_000, 5000, 2000]) await add(`rogue${count}`, size, 20);
  }
  await add('rogue0', 2000, 1);
  await add('web1', 2000, 8);
  const values = (await allOf(log, 'return')).map((it) =>
    isMarker(it) ? {} : decodeValue(it.value),
  );
  const texts = values.slice(-9).map((it) => [it.minion, String(it.return).length]);
  t.deepEqual(texts, [['rogue0', 13], ...Array.from({ length: 8 }, () => ['web1', 2000])]);
});

test('a full log is searched once for minions that together exceed their reserves', async (t) => {
  const { list, ...area } = memoryArea();
  let rows = 0;
  const state: StateArea = {
    ...area,
    list: async function* (prefix, options) {
      for await (const row of list(prefix, options)) {
        rows += 1;
        yield row;
      }
    },
  };
  const log = await DurableLog.open({ state, now: () => 1, maxBytes: mebibyte });
  const add = async (minion: string, times: number): Promise<void> => {
    const entry = { class: 'return', kind: 'event', value: { minion }, minion } as const;
    await Promise.all(Array.from({ length: times }, () => log.append(entry)));
  };
  for (let count = 0; count < 30; count += 1) await add(`web${count}`, 40);
  while (log.waiting.return.dropped === 0) {
    for (let count = 0; count < 10; count += 1) await add(`rogue${count}`, 10);
  }
  rows = 0;
  const before = log.waiting.return.dropped;
  for (let count = 0; count < 1000; count += 1) await add(`rogue${count % 10}`, 1);
  t.is(log.waiting.return.dropped - before, 1000);
  t.true(rows < 1200 + 4 * 1000, `${rows} rows`);
});

test('a log whose rows were stored by an earlier version is read', async (t) => {
  const options = { state: memoryArea(), now: () => 1, maxBytes: mebibyte };
  let log = await DurableLog.open(options);
  const value = { text: 'x'.repeat(20_000) };
  for (let count = 0; count < 60; count += 1) {
    await log.append({ class: 'return', kind: 'event', value });
  }
  const { waiting } = log;
  const { oldestAt, dropped, entries } = waiting.return;
  const bytes = waiting.return.bytes - 128;
  const old = { next: 61, entries, bytes, dropped, hasMarker: true, oldestAt, ms: 1, count: 0 };
  const anyRow = defineRow({ name: 'old', schema: Type.Any() });
  await options.state.write([
    { op: 'put', key: ['log', 'head', 'return'], value: anyRow.encode(old) },
    { op: 'put', key: ['log', 'minion', 'web1'], value: anyRow.encode({ bytes: 500_000 }) },
  ]);
  log = await DurableLog.open(options);
  t.deepEqual(log.waiting, waiting);
  // The row counts the returns of the minion.
  await log.append({ class: 'return', kind: 'return', value, minion: 'web1' });
  const last = (await allOf(log, 'return')).at(-1);
  if (last === undefined || isMarker(last)) return t.fail();
  t.deepEqual({ ...decodeValue(last.value) }, { text: 'VALUE_TRIMMED' });
});

test('each entry that a minion causes counts towards its part of the log', async (t) => {
  const appended: NewLogEntry[] = [];
  const { promise: allRead, resolve } = Promise.withResolvers<void>();
  const jid = '20260101000000000000';
  const events = [
    { tag: 'event/a', data: { id: 'web1' } },
    { tag: 'alarm/a', data: { id: 'web1' } },
    { tag: `salt/job/${jid}/ret/web1`, data: { id: 'web1', fun: 'test.ping', return: true } },
    { tag: 'minion/refresh/web1', data: {} },
    { tag: 'salt/auth', data: { id: 'web1', result: false } },
    { tag: 'event/of-the-master', data: {} },
  ];
  const bus = {
    batches: async function* ({ signal }: { readonly signal: AbortSignal }) {
      yield events;
      resolve();
      await new Promise((ended) => signal.addEventListener('abort', ended));
    },
  };
  let audit: (entry: object) => void = () => {};
  const onAppend = (listener: typeof audit): void => {
    audit = listener;
  };
  // Only these members are used.
  const context = {
    host: {
      find: () => undefined,
      now: () => 1,
      shared: {},
      state: { list: async function* () {} },
      use: () => ({ bus, cache: {}, onAppend }),
    },
    options: { name: 'north', alarms: ['alarm/*'], events: ['event/*', 'minion/*', 'salt/auth'] },
    log: {
      append: async (entry: NewLogEntry) => void appended.push(entry),
      appendTogether: async (entries: readonly NewLogEntry[]) => void appended.push(...entries),
    },
  } as unknown as SiteContext;
  const { intake } = openSignalSource(context);
  const signal = { tag: 'heat/ready', sender: 'web1', data: {}, body: {}, rule: undefined };
  await intake?.take({ ...signal, jid: undefined, request: { mark: '1', place: 0 } });
  const part = openSources(context);
  await part.start?.();
  await allRead;
  audit({ who: { kind: 'minion', name: 'web1' }, action: 'publish', outcome: 'denied' });
  audit({ who: { kind: 'user', name: 'web1' }, action: 'publish', outcome: 'denied' });
  await part.close?.();
  t.deepEqual(
    appended.map((it) => [it.class, it.kind, it.minion]),
    [
      ['signal', 'signal', 'web1'],
      ['return', 'event', 'web1'],
      ['alarm', 'event', 'web1'],
      ['return', 'return', 'web1'],
      ['return', 'event', 'web1'],
      ['return', 'event', '/sign-ins'],
      ['return', 'event', undefined],
      ['return', 'audit', 'web1'],
      ['return', 'audit', undefined],
    ],
  );
});

test('returns of jobs whose ids have a suffix are in the log, and leave no rows behind', async (t) => {
  const jids = ['20260101000000000000', '20260101000000000001_4711', '20260101000000000002_c0u1'];
  const jid = '20260101000000000003_a/b';
  const { promise: allRead, resolve } = Promise.withResolvers<void>();
  const appended: NewLogEntry[] = [];
  const deleted: string[] = [];
  const bus = {
    batches: async function* ({ accepts }: { readonly accepts: (tag: string) => boolean }) {
      const events = [...jids, jid].map((it) => {
        return { tag: `salt/job/${it}/ret/web1`, data: { id: 'web1', fun: 'test.ping' } };
      });
      yield events.filter(({ tag }) => accepts(tag));
      resolve();
    },
  };
  // Only these members are used.
  const part = openSources({
    host: {
      shared: {},
      state: { list: async function* () {} },
      use: () => ({ bus, cache: {}, onAppend: () => {} }),
    },
    options: { name: 'north', alarms: [], events: [] },
    log: {
      appendTogether: async (
        entries: readonly NewLogEntry[],
        operations: readonly StateOperation[],
      ) => {
        appended.push(...entries);
        for (const it of operations) if (it.op === 'delete') deleted.push(it.key.join());
      },
    },
  } as unknown as SiteContext);
  const result = { minion: 'web1' } as unknown as JobReturn;
  const rows = [...jids, jid].flatMap((it) => part.returnRows?.(it, result) ?? []);
  await part.start?.();
  await allRead;
  await part.close?.();
  t.deepEqual(
    appended.map(({ kind, value }) => [kind, value.jid, value.minion]),
    jids.map((it) => ['return', it, 'web1']),
  );
  t.deepEqual(
    deleted,
    rows.flatMap((it) => (it.op === 'put' ? it.key.join() : [])),
  );
});

test('facts count towards the minion that has sent them', async (t) => {
  const appended: NewLogEntry[] = [];
  const { promise: allRead, resolve } = Promise.withResolvers<void>();
  const warned: string[] = [];
  const bus = {
    batches: async function* () {
      yield [{ tag: 'salt/minion/web1/start', data: { id: 'web1' } }];
      // Too many events wait for the reader.
      if (warned.length === 0) throw new MasterError('ERR_READER_DROPPED', 'dropped');
      yield [{ tag: 'salt/minion/web1/start', data: { id: 'rogue' } }];
      resolve();
    },
  };
  // Only these members are used.
  const context = {
    host: {
      logger: { warn: (message: string) => warned.push(message) },
      use: () => ({ bus, facts: { of: () => ({}) }, present: () => [{ id: 'web2' }] }),
    },
    log: { append: async (entry: NewLogEntry) => void appended.push(entry) },
    onAnnounce: () => {},
  } as unknown as SiteContext;
  const announced: (() => Promise<void>)[] = [];
  const part = openSiteFacts({
    ...context,
    onAnnounce: (listener) => void announced.push(listener),
  });
  await part.start?.();
  await allRead;
  await part.close?.();
  for (const announce of announced) await announce();
  t.deepEqual(
    appended.map((it) => [it.class, it.value.minion, it.minion]),
    [
      ['fact', 'web1', 'web1'],
      ['fact', 'web1', 'web1'],
      ['fact', 'web1', 'rogue'],
      ['fact', 'web2', 'web2'],
    ],
  );
  t.is(warned.length, 1, 'the reader that was dropped reads on');
});

test('the outcome of an approved plan counts towards the minion whose signal starts it', async (t) => {
  const { promise: appended, resolve } = Promise.withResolvers<NewLogEntry>();
  const plan =
    'plans:\n  grow:\n    on: { signal: "heat/*" }\n    plan: db.grow\n    groups: { db: "db*" }\n';
  // Only these members are used.
  const context = {
    host: {
      fire: () => {},
      logger: { info: () => {} },
      master: () => ({
        events: {
          subscribe: async () =>
            (async function* () {
              yield { tag: 'heat/ready', data: { id: 'web1' } };
            })(),
        },
      }),
      now: () => 1,
      use: () => ({ onChange: () => {}, plans: {}, readText: async () => plan }),
    },
    log: { append: async (entry: NewLogEntry) => resolve(entry) },
  } as unknown as SiteContext;
  const plans = new ApprovedPlans(context, { isValid: true } as unknown as CentreClock);
  await plans.start();
  t.like(await appended, { class: 'alarm', minion: 'web1' });
  await plans.close();
});

test('a value that is too large for a batch loses its large fields only', async (t) => {
  const state = memoryArea();
  const log = await DurableLog.open({ state, now: () => 1, maxBytes: 64 * mebibyte });
  const large = Array.from({ length: 60_000 }, () => Math.random());
  await log.append({ class: 'return', kind: 'return', value: { jid: '1', return: large } });
  const [item] = await allOf(log, 'return');
  if (item === undefined || isMarker(item)) return t.fail();
  t.deepEqual({ ...decodeValue(item.value) }, { jid: '1', return: 'VALUE_TRIMMED' });
});

test('a log whose centre has later entries begins a new log', async (t) => {
  const state = memoryArea();
  const log = await DurableLog.open({ state, now: () => 1, maxBytes: mebibyte });
  await log.append({ class: 'alarm', kind: 'event', value: { a: 1 } });
  const { id } = log;
  await log.acknowledge('alarm', 70);
  t.not(log.id, id);
  t.is(log.waiting.alarm.entries, 1);
  t.is((await DurableLog.open({ state, now: () => 1, maxBytes: mebibyte })).id, log.id);
});

test('malformed batches are refused', (t) => {
  const value = Buffer.from([0x80]);
  const entry = (sequence: number): SentItem => ({ sequence, ms: 1, count: 0, kind: 'a', value });
  t.is(decodeBatch(encodeBatch([entry(1), entry(2)])).length, 2);
  const bad: readonly (readonly SentItem[])[] = [
    [],
    [entry(1), entry(3)],
    [entry(2), entry(1)],
    [{ from: 3, to: 2, oldestAt: 0 }],
    [entry(0)],
    [{ ...entry(1), kind: '' } as SentItem],
  ];
  for (const items of bad) {
    t.throws(() => decodeBatch(encodeBatch(items)), { code: 'ERR_SITE_MESSAGE' });
  }
  t.throws(() => decodeBatch(Buffer.from('nonsense')), { code: 'ERR_SITE_MESSAGE' });
  const bomb = encodeBatch([{ ...entry(1), value: Buffer.alloc(8 * mebibyte) } as SentItem]);
  t.true(bomb.length < 10_000);
  t.throws(() => decodeBatch(bomb), { code: 'ERR_SITE_MESSAGE' });
});
