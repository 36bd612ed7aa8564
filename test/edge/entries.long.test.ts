/** Entries of sites that a centre stores, and what a malicious site can do to them. */

import test from 'ava';
import { MinionClaims } from '#edge/facts/minion-claims.ts';
import { siteRow, sitesPrefix } from '#edge/identity/site-rows.ts';
import { findEntries, openEntries } from '#edge/log/centre-entries.ts';
import { Ingest, type IngestOptions } from '#edge/log/ingest.ts';
import type { CentreContext } from '#edge/parts.ts';
import { createSilentLogger } from '#master';
import type { WireMap } from '#minion-protocol';
import { maxSliceSteps } from '#runtime';
import { slicesOf } from '../helpers/slices.ts';
import { memoryRows } from './bundles/tuf-stage.ts';
import { batchOf, entryOf } from './raw-site.ts';

type Receive = (params: unknown, from: { readonly site: string }) => Promise<unknown>;

/** Centre with a log, on rows in memory. The site `evil` sends to it. */
async function stage() {
  const shared = memoryRows({ now: 0 });
  const site = siteRow.encode({ name: 'evil', state: 'joined' });
  await shared.write([{ op: 'put', key: [...sitesPrefix, 'evil'], value: site }]);
  const fired: WireMap[] = [];
  const receivers = new Map<string, Receive>();
  const host = {
    logger: createSilentLogger(),
    shared,
    now: () => 0,
    fire: (_tag: string, data: WireMap) => fired.push(data),
  };
  const links = {
    handle: ({ name }: { readonly name: string }, receive: Receive) => receivers.set(name, receive),
    onEnded: () => {},
  };
  // Only these members are used.
  const options = { host, options: { parallelSites: 1 }, links } as unknown as IngestOptions;
  const ingest = new Ingest(options);
  const admission = { keyOf: () => undefined };
  const claims = await MinionClaims.open({
    ...{ admission, find: () => undefined },
    shared: { ...shared, follow: async () => {} },
  } as unknown as Parameters<typeof MinionClaims.open>[0]);
  await claims.claim('north', 'web1');
  openEntries({ host, ingest, claims } as unknown as CentreContext);
  const send = (items: Parameters<typeof batchOf>[0], log = 'A', name = 'alarm') =>
    receivers.get(`log.${name}`)?.(batchOf(items, log.repeat(16)), { site: 'evil' });
  /** Sends entries of the kind `audit` in a batch. */
  const add = (first: number, count: number, log?: string, value: WireMap = { action: 'x' }) =>
    send(
      Array.from({ length: count }, (_, index) => entryOf(first + index, 'audit', value)),
      log,
    );
  const entries = () => findEntries(shared, { name: 'evil', limit: 10_000 });
  const stored = async () => {
    let [count, bytes] = [0, 0];
    for await (const { value } of shared.list(['centre', 'entry'])) {
      count += 1;
      bytes += value.length;
    }
    return { count, bytes };
  };
  return { send, add, entries, stored, fired };
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

test('an entry of a class whose entries are not stored is refused', async (t) => {
  const { send, stored } = await stage();
  const reply = await send([entryOf(1, 'audit', { action: 'x' })], 'A', 'signal');
  t.regex(JSON.stringify(reply), /ERR_SITE_MESSAGE: entries of this kind/);
  t.is((await stored()).count, 0);
});

test('a return about a minion of another site is refused', async (t) => {
  const { send, stored, fired } = await stage();
  const returned = (minion: string) => ({ jid: '20260101000000000000', minion, return: 1 });
  const items = [entryOf(1, 'return', returned('web1')), entryOf(2, 'return', returned('web2'))];
  t.like(await send(items), { sequence: 2, refused: [{ sequence: 1 }] });
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
    const items = Array.from({ length: 60 }, (_, index) => entryOf(index + 1, 'audit', value));
    const steps = 60 * 16_000 * 16;
    const slicesOfBatch = await slicesOf(() => Promise.resolve(send(items)));
    t.is(fired.length, 60);
    t.true(slicesOfBatch.length >= (2 * steps) / (4 * maxSliceSteps));
    t.true(Math.max(...slicesOfBatch) < 4 * maxSliceSteps);
    t.true((await slicesOf(() => entries())).length >= steps / (4 * maxSliceSteps));
  },
);

test('an event of a site carries the name of the site, whatever its data contain', async (t) => {
  const { send, fired } = await stage();
  const event = { tag: 'salt/minion/web1/start', data: { site: 'berlin', id: 'web1' } };
  await send([entryOf(1, 'event', event)]);
  t.deepEqual({ ...fired[0] }, { site: 'evil', id: 'web1' });
});
