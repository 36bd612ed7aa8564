/** Event ids are valid on every member of a cluster. */
import test from 'ava';
import { createSilentLogger, type MasterEvent } from '#master';
import { EventBus } from '#master/events/event-bus.ts';
import { EventRing } from '#master/events/event-ring.ts';
import { createBusApi } from '#master/events/events-api.ts';
import { maxSliceSteps } from '#runtime/work-budget.ts';
import { createMemoryStore, type Store } from '#store';
import { slicesOf } from '../../helpers/slices.ts';

/** A member whose events are delivered to the others when the test says so. */
class Member {
  readonly bus: EventBus;
  readonly ring: EventRing;
  /** Events that it has emitted. */
  readonly told: MasterEvent[] = [];

  private constructor(ring: EventRing) {
    this.ring = ring;
    const sendToMembers = (event: MasterEvent): void => void this.told.push(event);
    this.bus = new EventBus({ maxEventBytes: 0, ring, sendToMembers });
  }

  static async open(member: string, store: Store = createMemoryStore()): Promise<Member> {
    const size = { entries: 1000, bytes: 1_000_000 };
    const log = createSilentLogger();
    return new Member(await EventRing.open({ store, size, member, now: Date.now, log }));
  }

  /**
   * Fires an event.
   * @returns its id on this member
   */
  fire(tag: string): string {
    this.bus.fire(tag, {});
    return this.told.at(-1)?.id ?? '';
  }

  /** Delivers an event of another member, by its number. */
  hear(from: Member, number: number): void {
    const { tag, data, id } = from.told[number - 1] as MasterEvent;
    this.bus.repeat(tag, data, id);
  }

  /** Returns the tags that a reader receives after this id. */
  async tagsAfter(after: string): Promise<readonly string[]> {
    const end = new AbortController();
    const events = createBusApi(this.bus, this.ring).batches({ after }, end.signal);
    this.bus.fire('end', {});
    const tags: string[] = [];
    for await (const batch of events) {
      tags.push(...batch.map(({ tag }) => tag));
      if (tags.at(-1) === 'end') end.abort();
    }
    return tags.slice(0, -1);
  }
}

test('an id is valid at a member that received the same events in a different order', async (t) => {
  const [a, b] = [await Member.open('a'), await Member.open('b')];
  a.fire('a1');
  b.fire('b1');
  b.fire('b2');
  a.hear(b, 1);
  const atA = a.fire('a2');
  a.hear(b, 2);
  // The order on b is b1 b2 a1 a2. A reader that has read a1 b1 a2 on a has only missed b2.
  b.hear(a, 1);
  b.hear(a, 2);
  t.deepEqual(await b.tagsAfter(atA), ['b2']);
  t.deepEqual(await a.tagsAfter(atA), ['b2']);
});

test('events that the next member receives later are not emitted twice', async (t) => {
  const [a, b] = [await Member.open('a'), await Member.open('b')];
  a.fire('a1');
  b.hear(a, 1);
  const read = a.fire('a2');
  a.fire('a3');
  const end = new AbortController();
  const events = createBusApi(b.bus, b.ring).batches({ after: read }, end.signal);
  b.hear(a, 2);
  b.hear(a, 3);
  const tags: string[] = [];
  for await (const batch of events) {
    tags.push(...batch.map(({ tag }) => tag));
    end.abort();
  }
  t.deepEqual(tags, ['a3']);
});

test('an id is valid after both members restart', async (t) => {
  const stores = [createMemoryStore(), createMemoryStore()] as const;
  const before = [await Member.open('a', stores[0]), await Member.open('b', stores[1])] as const;
  before[0].fire('a1');
  before[1].hear(before[0], 1);
  const read = before[1].fire('b1');
  before[0].hear(before[1], 1);
  await Promise.all(before.map(({ ring }) => ring.close()));
  const [a, b] = [await Member.open('a', stores[0]), await Member.open('b', stores[1])];
  const next = a.fire('a2');
  b.hear(a, 1);
  t.deepEqual(await b.tagsAfter(read), ['a2']);
  b.fire('b2');
  for (const number of [1, 2]) a.hear(b, number);
  // The last event that this reader has read was an event of b.
  t.deepEqual(await a.tagsAfter(next), ['end', 'b2']);
});

test('readers are notified of events of another member that did not arrive', async (t) => {
  const [a, b] = [await Member.open('a'), await Member.open('b')];
  const read = a.fire('a1');
  b.hear(a, 1);
  a.fire('a2');
  a.fire('a3');
  const end = new AbortController();
  const live = b.bus.batches({ accepts: (tag) => tag === 'a3', signal: end.signal });
  b.hear(a, 3);
  t.deepEqual(await b.tagsAfter(read), ['saltbridge/events/missed', 'a3']);
  end.abort();
  const seen: string[] = [];
  for await (const batch of live) seen.push(...batch.map(({ tag }) => tag));
  t.deepEqual(seen, ['saltbridge/events/missed', 'a3']);
});

test('ids of a single master have one part', async (t) => {
  const ring = await EventRing.open({
    store: createMemoryStore(),
    size: { entries: 10, bytes: 10_000 },
    now: Date.now,
    log: createSilentLogger(),
  });
  t.regex(ring.keep('x', {}), /^[0-9a-f]{12}-1$/);
});

test('the work to find a position does not grow with the number of positions', async (t) => {
  const size = { entries: 100_000, bytes: 1e9 };
  const log = createSilentLogger();
  const ring = await EventRing.open({ store: createMemoryStore(), size, now: Date.now, log });
  for (let count = 0; count < 12_000; count += 1) ring.keep('x', {});
  await ring.flush();
  const slicesFor = async (places: readonly string[]): Promise<readonly number[]> => {
    const pages = ring.after(places.join('.'));
    const slices = await slicesOf(() => pages.next());
    await pages.return();
    return slices;
  };
  const many = Array.from({ length: 64 }, (_, i) => `${(0x1000_0000 + i).toString(16)}00000000-7`);
  t.is((await slicesFor(many)).length, 2);
  t.deepEqual(await slicesFor(many), await slicesFor(many.slice(0, 1)));
  t.true(Math.max(...(await slicesFor(many))) <= maxSliceSteps);
});

test('an id with two positions of one member is invalid', async (t) => {
  const a = await Member.open('a');
  const id = a.fire('a1');
  a.fire('a2');
  t.deepEqual(await a.tagsAfter(id), ['a2']);
  t.deepEqual(await a.tagsAfter(`${id}.${id}`), ['saltbridge/events/missed']);
});
