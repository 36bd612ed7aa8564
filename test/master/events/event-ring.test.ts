/** Events that are kept, so that a reader can go on where it stopped. */

import test from 'ava';
import type { MasterEvent } from '../../../master/api/events.ts';
import { type BusApi, createBusApi, EventBus } from '../../../master/events/event-bus.ts';
import { EventRing } from '../../../master/events/event-ring.ts';
import { createSilentLogger } from '../../../master/index.ts';
import { createMemoryStore, type Store } from '../../../store/index.ts';

const missed = 'saltbridge/events/missed';
const usual = { entries: 1000, bytes: 1_048_576 };

interface Kept {
  readonly ring: EventRing;
  readonly bus: EventBus;
  readonly api: BusApi;
  readonly store: Store;
}

async function open(run: string, store: Store = createMemoryStore(), size = usual): Promise<Kept> {
  const parts = { store, size, now: () => 0, log: createSilentLogger(), run };
  const ring = await EventRing.open(parts);
  const bus = new EventBus({ maxEventBytes: 0, ring });
  return { ring, bus, api: createBusApi(bus, ring), store };
}

/** What a reader is told that comes back; the last event is fired once it has. */
async function tagsAfter({ api, bus }: Kept, after: string, match?: string[]): Promise<string[]> {
  const request = { after, ...(match === undefined ? {} : { match }) };
  const events = api.subscribe(request);
  bus.fire('end', {});
  const tags: string[] = [];
  for await (const { tag } of events) {
    if (tag === 'end') break;
    tags.push(tag);
  }
  return tags;
}

/** Ids of events as a reader of all sees them. */
async function idsOf({ api, bus }: Kept, tags: readonly string[]): Promise<string[]> {
  const events = api.subscribe();
  for (const tag of tags) bus.fire(tag, {});
  const ids: string[] = [];
  for await (const { id } of events) {
    ids.push(String(id));
    if (ids.length === tags.length) break;
  }
  return ids;
}

const first = 'aaaaaaaa';
const second = 'bbbbbbbb';

test('who comes back has what was fired meanwhile, once, and then what follows', async (t) => {
  const kept = await open(first);
  const [a = ''] = await idsOf(kept, ['a', 'b', 'c']);
  t.deepEqual(await tagsAfter(kept, a), ['b', 'c']);
  t.deepEqual(await tagsAfter(kept, a, ['c', 'en*']), ['c']);
});

test('events outlive the process, with their data and ids', async (t) => {
  const before = await open(first);
  const [a = '', b = ''] = await idsOf(before, ['a']);
  t.is(b, '');
  before.bus.fire('b', { big: 2n ** 60n, bytes: new Uint8Array([0, 255]), list: [null, 1.5] });
  await before.ring.close();
  const after = await open(second, before.store);
  const events: MasterEvent[] = [];
  for await (const batch of after.ring.after(a)) events.push(...batch);
  t.like(events[0], { tag: 'b', id: `${first}-2` });
  t.is(events[0]?.data.big, 2n ** 60n);
  t.deepEqual(events[0]?.data.bytes, new Uint8Array([0, 255]));
  t.deepEqual(events[0]?.data.list, [null, 1.5]);
  after.bus.fire('c', {});
  t.deepEqual(await tagsAfter(after, a), ['b', 'c']);
});

test('where a run did not end in order, its readers are told that some may be missing', async (t) => {
  const before = await open(first);
  const [a = ''] = await idsOf(before, ['a', 'b']);
  await before.ring.flush();
  const after = await open(second, before.store);
  after.bus.fire('c', {});
  t.deepEqual(await tagsAfter(after, a), ['b', missed, 'c']);
  t.deepEqual(await tagsAfter(after, `${first}-9`), [missed, 'c']);
});

test('what is older than the ring is told as missing, before all that is left', async (t) => {
  const kept = await open(first, createMemoryStore(), { ...usual, entries: 32 });
  const tags = Array.from({ length: 100 }, (_, index) => `t${index}`);
  const [a = ''] = await idsOf(kept, tags);
  await kept.ring.flush();
  const told = await tagsAfter(kept, a);
  t.is(told[0], missed);
  t.deepEqual(told.slice(1), tags.slice(-(told.length - 1)));
  t.true(told.length > 20 && told.length <= 34);
  const records = await kept.store.stream('events').read();
  t.true(records.length <= 33);
});

test('its bytes are bounded as well', async (t) => {
  const kept = await open(first, createMemoryStore(), { entries: 1000, bytes: 65_536 });
  for (let index = 0; index < 200; index += 1) {
    kept.bus.fire('t', { text: 'x'.repeat(1000) });
    await kept.ring.flush();
  }
  const records = await kept.store.stream('events').read();
  const bytes = records.reduce((sum, { value }) => sum + value.byteLength, 0);
  t.true(records.length > 10);
  t.true(bytes <= 65_536);
});

test('an id of nobody is followed by all there is; what is no id by what happens now', async (t) => {
  const kept = await open(first);
  await idsOf(kept, ['a', 'b']);
  t.deepEqual(await tagsAfter(kept, 'cccccccc-1'), [missed, 'a', 'b']);
  t.deepEqual(await tagsAfter(kept, 'x'), [missed]);
  t.deepEqual(await tagsAfter(kept, `${first}-99`), [missed]);
});

test('a store that keeps nothing takes no event from those who listen', async (t) => {
  const store = createMemoryStore();
  const failing: Store = {
    get: (key) => store.get(key),
    list: (prefix, options) => store.list(prefix, options),
    watch: (prefix, signal) => store.watch(prefix, signal),
    stream: (name) => store.stream(name),
    close: () => store.close(),
    write: async (steps) => {
      if (steps.some(({ op }) => op === 'append')) throw new Error('full');
      return store.write(steps);
    },
  };
  const kept = await open(first, failing);
  const [a = ''] = await idsOf(kept, ['a', 'b']);
  t.is(a, `${first}-1`);
  t.deepEqual(await tagsAfter(kept, a), [missed]);
});

test('without a ring, events have no id, and who asks for the past is told that it is gone', async (t) => {
  const bus = new EventBus({ maxEventBytes: 0 });
  const events = createBusApi(bus).subscribe({ after: `${first}-1` });
  bus.fire('now', {});
  const told: MasterEvent[] = [];
  for await (const event of events) if (told.push(event) === 2) break;
  t.deepEqual(
    told.map(({ tag, id }) => [tag, id]),
    [
      [missed, undefined],
      ['now', undefined],
    ],
  );
});
