/** Entries of sites that a centre stores, and what a malicious site can do to them. */

import { zstdCompressSync } from 'node:zlib';
import test from 'ava';
import { MinionClaims } from '#edge/facts/minion-claims.ts';
import { type SiteState, siteRow, sitesPrefix } from '#edge/identity/site-rows.ts';
import { edgeLimits } from '#edge/limits.ts';
import { findEntries, openEntries } from '#edge/log/centre-entries.ts';
import { EntryRates } from '#edge/log/entry-rates.ts';
import { Ingest, type IngestOptions } from '#edge/log/ingest.ts';
import { maxRawBytes } from '#edge/log/log-messages.ts';
import type { CentreContext } from '#edge/parts.ts';
import type { WireMap } from '#minion-protocol';
import { maxSliceSteps } from '#runtime';
import { until, within } from '../helpers/deadline.ts';
import { slicesOf } from '../helpers/slices.ts';
import { memoryRows } from './bundles/tuf-stage.ts';
import { batchOf, entryOf } from './raw-site.ts';

type Receive = (params: unknown, from: { readonly site: string }) => Promise<unknown>;

/** Centre with a log, on rows in memory. The site `evil` sends to it. */
async function stage() {
  const memory = memoryRows({ now: 0 });
  const writes = { after: async (_operations: number): Promise<void> => {} };
  const shared: typeof memory = {
    ...memory,
    write: async (operations) => {
      const revision = await memory.write(operations);
      await writes.after(operations.length);
      return revision;
    },
  };
  let joined = true;
  const putSite = async (state: SiteState, revokedAt?: number): Promise<void> => {
    joined = state === 'joined';
    const since = revokedAt === undefined ? {} : { revokedAt };
    const value = siteRow.encode({ name: 'evil', state, ...since });
    await memory.write([{ op: 'put', key: [...sitesPrefix, 'evil'], value }]);
  };
  await putSite('joined');
  const fired: WireMap[] = [];
  const warned: object[] = [];
  const clock = { now: 0 };
  const closing = new AbortController();
  /** Clock of the rates. A batch that waits moves it forward. */
  const pace = { now: 0, waits: [] as number[], isHeld: false };
  const sleep = async (milliseconds: number, ...signals: readonly AbortSignal[]): Promise<void> => {
    pace.waits.push(milliseconds);
    pace.now += milliseconds;
    if (!pace.isHeld) return;
    await new Promise((resolve) => {
      for (const signal of signals) signal.addEventListener('abort', resolve);
    });
  };
  const receivers = new Map<string, Receive>();
  const host = {
    logger: { warn: (about: object) => warned.push(about) },
    closing: closing.signal,
    shared,
    now: () => clock.now,
    fire: (_tag: string, data: WireMap) => fired.push(data),
  };
  const links = {
    handle: ({ name }: { readonly name: string }, receive: Receive) => receivers.set(name, receive),
    onEnded: () => {},
  };
  // Only these members are used.
  const options = {
    ...{ host, options: { parallelSites: 1 }, links, sleep },
    sites: { isJoined: () => joined },
    rates: new EntryRates(() => pace.now),
  } as unknown as IngestOptions;
  const ingest = new Ingest(options);
  const admission = { keyOf: () => undefined };
  const claims = await MinionClaims.open({
    ...{ admission, find: () => undefined },
    shared: { ...shared, follow: async () => {} },
  } as unknown as Parameters<typeof MinionClaims.open>[0]);
  await claims.claim('north', 'web1');
  const { forget } = openEntries({ host, ingest, claims } as unknown as CentreContext);
  const send = (
    items: Parameters<typeof batchOf>[0],
    log = 'A',
    name = 'alarm',
    site = 'evil',
  ): Promise<unknown> | undefined =>
    receivers.get(`log.${name}`)?.(batchOf(items, log.repeat(16)), { site });
  /** Sends a batch of alarms in its compressed form. */
  const sendBytes = (entries: Uint8Array) =>
    receivers.get('log.alarm')?.({ log: 'A'.repeat(16), entries }, { site: 'evil' });
  /** Sends entries of the kind `event` in a batch. */
  const add = (first: number, count: number, log?: string, value: WireMap = { action: 'x' }) =>
    send(
      Array.from({ length: count }, (_, index) => entryOf(first + index, 'event', value)),
      log,
    );
  const entries = () => findEntries(shared, { name: 'evil', limit: 10_000 });
  const rows = async () => {
    const found = await Array.fromAsync(shared.list(['centre', 'entry']));
    return found.map(({ value }) => value);
  };
  const stored = async () => {
    const all = await rows();
    return { count: all.length, bytes: all.reduce((sum, { length }) => sum + length, 0) };
  };
  /** Waits for the turn of the site to send returns. */
  const takeTurn = async () => receivers.get('log.turn')?.({}, { site: 'evil' });
  const more = { forget, memory, putSite, writes, pace, closing, ingest };
  return { send, sendBytes, add, entries, rows, stored, fired, takeTurn, warned, clock, ...more };
}

test('a site that alternates between logs, or skips numbers, has at most 10,000 entries', async (t) => {
  const { add, stored, entries, fired } = await stage();
  for (let round = 0; round < 4; round += 1) {
    await add(9_000_000_000_000_000 - round, 1, 'B');
    await add(round * 1_000_000 + 1, 2000, 'C');
    await add(8_000_000_000_000 + round * 5000, 2000, 'D');
  }
  t.is((await stored()).count, 10_000);
  t.is(fired.length, 4 * 4001, 'entries with lower numbers are published too');
  await add(5, 1, 'E');
  t.is((await stored()).count, 10_000);
  const all = await entries();
  t.is(all.length, 10_000);
  t.true(
    all.some(({ sequence }) => sequence === 5),
    'the latest entry is stored',
  );
});

test('the stored entries of a site have a maximum size, however small their batches are', async (t) => {
  const { add, stored } = await stage();
  const small = { action: 'x' };
  for (let round = 0; round < 4; round += 1) await add(round * 2048 + 1, 2048, 'A', small);
  const large = { action: 'x', text: 'x'.repeat(1_000_000) };
  for (let round = 0; round < 80; round += 1) await add(8193 + round, 1, 'A', large);
  const { count, bytes } = await stored();
  t.true(bytes <= 67_108_864, `${bytes} bytes`);
  t.is(count, 67);
});

test('the entries of a revoked site are deleted in several writes', async (t) => {
  const { add, forget, memory, putSite, stored, writes } = await stage();
  for (let round = 0; round < 5; round += 1) await add(round * 1000 + 1, 1000);
  await forget?.('evil');
  t.is((await stored()).count, 5000, 'the site is not revoked');
  await putSite('revoked');
  const sizes: number[] = [];
  writes.after = async (operations) => void sizes.push(operations);
  await forget?.('evil');
  t.is(sizes.length, 3);
  t.true(Math.max(...sizes) <= 2050);
  t.is((await stored()).count, 0);
  t.deepEqual(await Array.fromAsync(memory.list(['centre', 'kept'])), []);
});

test('a deletion that ends before all entries are deleted leaves the correct number', async (t) => {
  const { add, forget, putSite, stored, writes } = await stage();
  for (let round = 0; round < 5; round += 1) await add(round * 1000 + 1, 1000);
  await putSite('revoked');
  let isFirst = true;
  writes.after = async () => {
    // The site joins again.
    if (isFirst) await putSite('joined');
    isFirst = false;
  };
  await forget?.('evil');
  t.is((await stored()).count, 2952);
  for (let round = 5; round < 12; round += 1) await add(round * 1000 + 1, 1000);
  await add(12_001, 48);
  t.is((await stored()).count, 10_000);
  await add(12_049, 1);
  t.is((await stored()).count, 10_000);
});

test('entries from before a revocation are marked if the site joins again before their deletion', async (t) => {
  const { add, clock, memory, putSite } = await stage();
  clock.now = 1;
  await add(1, 1);
  clock.now = 3;
  await add(2, 1);
  await putSite('joined', 2);
  const found = await findEntries(memory, { name: 'evil' });
  const marks = found.map(({ sequence, isBeforeRevocation }) => [sequence, isBeforeRevocation]);
  t.deepEqual(marks.toSorted(), [
    [1, true],
    [2, undefined],
  ]);
});

test('an entry is accepted only in the classes of its kind, so that turns are kept', async (t) => {
  const { send, stored, fired } = await stage();
  const value = { action: 'x' };
  for (const [kind, name] of [
    ['audit', 'signal'],
    ['audit', 'alarm'],
    ['return', 'alarm'],
  ] as const) {
    const reply = await send([entryOf(1, kind, value)], kind, name);
    const reason = `ERR_SITE_MESSAGE: log entries of the kind ${kind} are not accepted in the class ${name}`;
    t.deepEqual(reply, { sequence: 1, refused: [{ sequence: 1, reason }] });
  }
  t.is((await stored()).count, 0);
  t.is(fired.length, 0);
  // A class that needs a turn.
  await t.throwsAsync(async () => send([entryOf(1, 'audit', value)], 'A', 'return'), {
    message: /it is not the turn of this site/,
  });
});

test('an entry of an unknown kind is refused, not silently dropped', async (t) => {
  const { send, stored } = await stage();
  const items = [entryOf(1, 'no-such-kind', {}), entryOf(2, 'event', {})];
  t.like(await send(items), { sequence: 2, refused: [{ sequence: 1 }] });
  t.is((await stored()).count, 1);
});

test('a return about a minion of another site is refused', async (t) => {
  const { send, stored, fired, takeTurn } = await stage();
  await takeTurn();
  const returned = (minion: string) => ({ jid: '20260101000000000000', minion, return: 1 });
  const items = [entryOf(1, 'return', returned('web1')), entryOf(2, 'return', returned('web2'))];
  t.like(await send(items, 'A', 'return'), { sequence: 2, refused: [{ sequence: 1 }] });
  t.is((await stored()).count, 1);
  t.deepEqual(
    fired.map(({ minion }) => minion),
    ['web2'],
  );
});

// Slices are counted for the whole process.
test.serial(
  'large values of a small batch are decoded, published and listed with pauses',
  async (t) => {
    const { send, entries, fired } = await stage();
    const value = { action: 'x', list: Array.from({ length: 16_000 }, () => 1) };
    const items = Array.from({ length: 60 }, (_, index) => entryOf(index + 1, 'event', value));
    const steps = 60 * 16_000 * 16;
    const slicesOfBatch = await slicesOf(async () => {
      for (let rest = items; rest.length > 0; rest = items.slice(fired.length)) await send(rest);
    });
    t.is(fired.length, 60);
    t.true(slicesOfBatch.length >= (2 * steps) / (4 * maxSliceSteps));
    t.true(Math.max(...slicesOfBatch) < 4 * maxSliceSteps);
    t.true((await slicesOf(() => entries())).length >= steps / (4 * maxSliceSteps));
  },
);

test('the reply to a batch states how many entries were refused beyond those that it lists', async (t) => {
  const { send } = await stage();
  const unknown = (count: number, first = 1) =>
    Array.from({ length: count }, (_, index) => entryOf(first + index, 'unknown', {}));
  const listed = JSON.stringify(await send(unknown(64)));
  t.notRegex(listed, /further/);
  const cut = JSON.stringify(await send(unknown(100, 65)));
  t.regex(cut, /"sequence":128,"reason":"[^"]*and 36 further entries were refused/);
  t.notRegex(cut, /"sequence":129/);
});

test('refused and missing entries of a site are logged once a minute', async (t) => {
  const { send, warned, clock } = await stage();
  for (let first = 1; first <= 64 * 20; first += 64) {
    await send(Array.from({ length: 64 }, (_, index) => entryOf(first + index, 'unknown', {})));
    await send([entryOf(9_000_000, 'event', {})]);
  }
  t.like(warned, [
    { site: 'evil', class: 'alarm', first: { sequence: 1 }, refused: 64, times: 1 },
    { site: 'evil', missing: '65 to 8999999', times: 1 },
  ]);
  t.is(warned.length, 2);
  t.true(JSON.stringify(warned).length < 1000);
  clock.now = 60_000;
  await send([entryOf(1281, 'unknown', {})]);
  t.like(warned[2], { first: { sequence: 1281 }, refused: 1281, times: 20 });
});

test('the entries of a batch with many elements are applied in parts, and none is lost', async (t) => {
  const { send, stored, fired } = await stage();
  const value = { tag: 'x', data: { list: Array.from({ length: 40_000 }, () => 1) } };
  const items = Array.from({ length: 7 }, (_, index) => entryOf(index + 1, 'event', value));
  for (const last of [2, 4, 6]) {
    t.deepEqual(await send(items.slice(last - 2)), { sequence: last, refused: [] });
    t.is(fired.length, last);
  }
  // The site has not received the acknowledgements.
  for (const last of [2, 4, 6]) {
    t.deepEqual(await send(items.slice(last - 2)), { sequence: last, refused: [] });
  }
  t.deepEqual(await send(items.slice(6)), { sequence: 7, refused: [] });
  t.is(fired.length, 7);
  t.is((await stored()).count, 7);
});

test('the centre stores the bytes of a value as the site has sent them', async (t) => {
  const { send, rows } = await stage();
  // A map of the form map 16, which a writer uses only for more than 15 entries.
  const value = Buffer.from('de0001a3746167a178', 'hex');
  await send([{ sequence: 1, ms: 1, count: 0, kind: 'event', value }]);
  const [row] = await rows();
  t.true(Buffer.from(row ?? []).includes(value));
});

// Slices are counted for the whole process.
test.serial('the rows of a batch are encoded with pauses', async (t) => {
  const { add } = await stage();
  const slices = await slicesOf(() => Promise.resolve(add(1, 2048)));
  t.true(slices.length >= (2048 * 500) / maxSliceSteps, `${slices.length} slices`);
});

test('an event of a site carries the name of the site, whatever its data contain', async (t) => {
  const { send, fired } = await stage();
  const event = { tag: 'salt/minion/web1/start', data: { site: 'berlin', id: 'web1' } };
  await send([entryOf(1, 'event', event)]);
  t.deepEqual({ ...fired[0] }, { site: 'evil', id: 'web1' });
});

/** Entries of the kind `event`, numbered from `first`. */
function eventsFrom(first: number, count: number, value: WireMap = {}) {
  return Array.from({ length: count }, (_, index) => entryOf(first + index, 'event', value));
}

test('alarms above the rate of their site wait, and none is lost', async (t) => {
  const { send, memory, pace, fired } = await stage();
  const { perSecond = 0, burst = 0 } = edgeLimits.urgentEntries.rate ?? {};
  for (let first = 1; first <= burst; first += 2048) await send(eventsFrom(first, 2048));
  t.deepEqual(pace.waits, []);
  t.like(await send(eventsFrom(burst + 1, 2000)), { sequence: burst + 2000, refused: [] });
  t.is(fired.length, burst + 2000);
  t.deepEqual(pace.waits, [(2000 / perSecond) * 1000]);
  // The signals of the same site, and the alarms of other sites, do not wait.
  await send([entryOf(1, 'order', {})], 'A', 'signal');
  const other = siteRow.encode({ name: 'good', state: 'joined' });
  await memory.write([{ op: 'put', key: [...sitesPrefix, 'good'], value: other }]);
  await send(eventsFrom(1, 2048), 'B', 'alarm', 'good');
  t.is(pace.waits.length, 1);
});

test('the bytes of alarms are counted after decompression', async (t) => {
  const { send, pace } = await stage();
  const { burst = 0 } = edgeLimits.urgentEntryBytes.rate ?? {};
  const value = { text: 'x'.repeat(1_000_000) };
  const count = Math.floor(burst / 1_000_000);
  for (let place = 1; place <= count; place += 1) await send([entryOf(place, 'event', value)]);
  t.deepEqual(pace.waits, []);
  await send([entryOf(count + 1, 'event', value)]);
  t.is(pace.waits.length, 1);
});

test('batches that cannot be decoded count towards the rate of their site', async (t) => {
  const { sendBytes, pace } = await stage();
  const { burst = 0 } = edgeLimits.urgentEntryBytes.rate ?? {};
  // One MiB of zeros is a hundred bytes.
  const entries = zstdCompressSync(Buffer.alloc(maxRawBytes));
  const count = Math.floor(burst / maxRawBytes);
  for (let place = 1; place <= count; place += 1) {
    await t.throwsAsync(async () => sendBytes(entries), { code: 'ERR_SITE_MESSAGE' });
  }
  t.deepEqual(pace.waits, []);
  await t.throwsAsync(async () => sendBytes(entries), { code: 'ERR_SITE_MESSAGE' });
  t.is(pace.waits.length, 1);
});

test('returns above the rate of their site wait in its turn', async (t) => {
  const { send, takeTurn, pace, fired } = await stage();
  const { burst = 0 } = edgeLimits.bulkEntries.rate ?? {};
  await takeTurn();
  for (let first = 1; first <= burst; first += 2048) {
    await send(eventsFrom(first, 2048), 'A', 'return');
  }
  t.deepEqual(pace.waits, []);
  await send(eventsFrom(burst + 1, 1), 'A', 'return');
  t.is(pace.waits.length, 1);
  t.is(fired.length, burst + 1);
});

test('a revocation does not wait for the rate of the site', async (t) => {
  const { send, putSite, ingest, pace, fired } = await stage();
  const { burst = 0 } = edgeLimits.urgentEntries.rate ?? {};
  for (let first = 1; first <= burst; first += 2048) await send(eventsFrom(first, 2048));
  pace.isHeld = true;
  const replies = [1, 2, 3].map(async (place) => send(eventsFrom(burst + place, 1)));
  const refused = Promise.all(
    replies.map((reply) => t.throwsAsync(reply, { code: 'ERR_SITE_REFUSED' })),
  );
  await until('a batch waits', () => pace.waits.length === 1);
  await putSite('revoked');
  await within('the revocation', ingest.settle('evil'));
  await refused;
  t.is(pace.waits.length, 1, 'the other batches do not wait');
  t.is(fired.length, burst);
});

test('a batch that waits for the rate of its site is refused when the centre closes', async (t) => {
  const { send, closing, pace } = await stage();
  const { burst = 0 } = edgeLimits.urgentEntries.rate ?? {};
  for (let first = 1; first <= burst; first += 2048) await send(eventsFrom(first, 2048));
  pace.isHeld = true;
  const refused = t.throwsAsync(async () => send(eventsFrom(burst + 1, 1)), {
    code: 'ERR_SITE_LINK',
  });
  await until('a batch waits', () => pace.waits.length === 1);
  closing.abort();
  await within('the reply', refused);
});

test('no entry of a batch is accepted after its site was revoked', async (t) => {
  const { send, putSite, ingest } = await stage();
  const accepted: number[] = [];
  ingest.on('signal', {
    operations: async ({ sequence }) => {
      accepted.push(sequence);
      if (sequence === 2) await putSite('revoked');
      return [];
    },
  });
  const items = [1, 2, 3].map((sequence) => entryOf(sequence, 'signal', {}));
  await t.throwsAsync(async () => send(items, 'A', 'signal'), { code: 'ERR_SITE_REFUSED' });
  t.deepEqual(accepted, [1, 2]);
});
