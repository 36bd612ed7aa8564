import anyTest, { type ExecutionContext, type TestFn } from 'ava';
import { type Entry, type Operation, type Store, StoreError } from '#store';
import { agreesWithModel, type OpenStore } from './model-property.ts';

const test: TestFn = anyTest;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (value: Uint8Array): string => new TextDecoder().decode(value);

/** Declares the tests that every engine of {@link Store} must pass. */
export function storeSuite(engine: string, openStore: OpenStore): void {
  const check = (title: string, run: (t: ExecutionContext, given: Given) => Promise<void>): void =>
    test(`${engine}: ${title}`, async (t) => {
      const clock = { now: 1_000_000 };
      const store = await openStore(t, () => clock.now);
      t.teardown(() => store.close());
      await run(t, { store, clock });
    });

  check('an entry can be read back after it was written', async (t, { store }) => {
    const revision = await store.write([{ op: 'put', key: ['a', 'b'], value: bytes('1') }]);
    const entry = await store.get(['a', 'b']);
    t.deepEqual(entry && { ...entry, value: text(entry.value) }, {
      key: ['a', 'b'],
      value: '1',
      revision,
    });
    t.is(await store.get(['a']), undefined);
  });

  check('a value belongs to the store once write was called', async (t, { store }) => {
    const value = bytes('before');
    const written = store.write([{ op: 'put', key: ['a'], value }]);
    value.fill(0);
    await written;
    const read = await store.get(['a']);
    t.is(text(read?.value ?? bytes('')), 'before');
    read?.value.fill(0);
    t.is(text((await store.get(['a']))?.value ?? bytes('')), 'before');
  });

  check('keys are ordered by segments, not by joined text', async (t, { store }) => {
    const keys = [
      ['a'],
      ['a', '\u0000'],
      ['a', 'b'],
      ['a\u0000'],
      ['a\u0001', 'x'],
      ['a b'],
      ['ä'],
    ];
    await store.write(keys.toReversed().map((key) => ({ op: 'put', key, value: bytes('') })));
    t.deepEqual(await keysOf(store.list([])), keys);
    t.deepEqual(await keysOf(store.list([], { reverse: true })), keys.toReversed());
    t.deepEqual(await keysOf(store.list(['a'])), keys.slice(0, 3));
  });

  check('the keys under a prefix are listed in order, without values', async (t, { store }) => {
    const keys = Array.from({ length: 600 }, (_, i) => ['n', `${i}`.padStart(3, '0'), 'x']);
    const others = [['m'], ['n\u0000'], ['o']];
    await store.write(
      [...others, ...keys.toReversed()].map((key) => ({ op: 'put', key, value: bytes('') })),
    );
    t.deepEqual(await Array.fromAsync(store.keys(['n'])), keys);
    t.deepEqual(await Array.fromAsync(store.keys(['n', '007'])), [['n', '007', 'x']]);
    t.deepEqual(await Array.fromAsync(store.keys(['p'])), []);
    t.is((await Array.fromAsync(store.keys([]))).length, 603);
  });

  check('a list goes on behind a key, in both directions', async (t, { store }) => {
    const keys = Array.from({ length: 600 }, (_, i) => ['n', String(i).padStart(4, '0')]);
    await store.write(keys.map((key) => ({ op: 'put', key, value: bytes('') })));
    await store.write([{ op: 'put', key: ['o'], value: bytes('') }]);
    t.deepEqual(await keysOf(store.list(['n'])), keys);
    t.deepEqual(await keysOf(store.list(['n'], { reverse: true })), keys.toReversed());
    const after = ['n', '0299'];
    t.deepEqual(await keysOf(store.list(['n'], { after, limit: 2 })), keys.slice(300, 302));
    t.deepEqual(
      await keysOf(store.list(['n'], { after, limit: 2, reverse: true })),
      keys.slice(297, 299).toReversed(),
    );
    t.deepEqual(await keysOf(store.list(['n'], { after: ['z'] })), []);
    t.deepEqual(await keysOf(store.list(['n'], { limit: 0 })), []);
  });

  check('what cannot be a key is refused before anything is written', async (t, { store }) => {
    const bad = [[], [''], ['a', ''], ['x'.repeat(513)], ['\ud800'], Array(600).fill('xx')];
    for (const key of bad) {
      const operations = [
        { op: 'put' as const, key: ['good'], value: bytes('') },
        { op: 'put' as const, key, value: bytes('') },
      ];
      await t.throwsAsync(store.write(operations), { instanceOf: StoreError, code: 'ERR_KEY' });
    }
    t.is(await store.get(['good']), undefined);
    t.throws(() => store.stream(''), { instanceOf: StoreError, code: 'ERR_KEY' });
    await store.write([{ op: 'put', key: ['\u0000'.repeat(511)], value: bytes('') }]);
    t.deepEqual(await keysOf(store.list([])), [['\u0000'.repeat(511)]]);
  });

  check('a write whose condition fails changes nothing', async (t, { store }) => {
    const first = await store.write([{ op: 'put', key: ['a'], value: bytes('1'), ifRevision: 0 }]);
    const conflicting = [
      { op: 'put' as const, key: ['b'], value: bytes('2') },
      { op: 'append' as const, stream: 's', value: bytes('2') },
      { op: 'put' as const, key: ['a'], value: bytes('2'), ifRevision: 0 },
    ];
    await t.throwsAsync(store.write(conflicting), { instanceOf: StoreError, code: 'ERR_REVISION' });
    await t.throwsAsync(store.write([{ op: 'delete', key: ['a'], ifRevision: first + 1 }]), {
      instanceOf: StoreError,
      code: 'ERR_REVISION',
    });
    t.is(await store.get(['b']), undefined);
    t.is((await store.get(['a']))?.revision, first);
    t.deepEqual(await store.stream('s').read(), []);
    await store.write([{ op: 'delete', key: ['a'], ifRevision: first }]);
    t.is(await store.get(['a']), undefined);
  });

  check(
    'a write may require the revision of an entry that it leaves alone',
    async (t, { store, clock }) => {
      const put = (name: string, expiresAt = Number.POSITIVE_INFINITY): Operation => ({
        op: 'put',
        key: [name],
        value: bytes(''),
        expiresAt,
      });
      const token = await store.write([put('lease', clock.now + 10)]);
      const fence: Operation = { op: 'require', key: ['lease'], ifRevision: token };
      await store.write([fence, put('a')]);
      t.is((await store.get(['lease']))?.revision, token);
      clock.now += 10;
      const refused = { instanceOf: StoreError, code: 'ERR_REVISION' };
      await t.throwsAsync(store.write([fence, put('b')]), refused);
      await store.write([put('lease')]);
      await t.throwsAsync(store.write([put('b'), fence]), refused);
      t.is(await store.get(['b']), undefined);
    },
  );

  check('of many writers with the same condition one wins', async (t, { store }) => {
    const claim = (): Promise<number> =>
      store.write([{ op: 'put', key: ['lock'], value: bytes(''), ifRevision: 0 }]);
    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, claim));
    t.is(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
  });

  check('an entry does not exist from its expiry on', async (t, { store, clock }) => {
    const expiresAt = clock.now + 10;
    await store.write([{ op: 'put', key: ['a'], value: bytes('1'), expiresAt }]);
    clock.now += 9;
    t.is((await store.get(['a']))?.expiresAt, expiresAt);
    clock.now += 1;
    t.is(await store.get(['a']), undefined);
    t.deepEqual(await keysOf(store.list([])), []);
    await t.notThrowsAsync(
      store.write([{ op: 'put', key: ['a'], value: bytes('2'), ifRevision: 0 }]),
    );
    clock.now += 1_000_000;
    t.is(text((await store.get(['a']))?.value ?? bytes('')), '2');
  });

  check(
    'a watch tells changes under its prefix in the order of revisions',
    async (t, { store }) => {
      await store.write([{ op: 'put', key: ['w', 'before'], value: bytes('') }]);
      const ending = new AbortController();
      const watch = store.watch(['w'], ending.signal)[Symbol.asyncIterator]();
      const writes = Array.from({ length: 100 }, (_, i) =>
        store.write([
          { op: 'put', key: ['w', String(i)], value: bytes('') },
          { op: 'put', key: ['ww'], value: bytes('') },
        ]),
      );
      const revisions = await Promise.all(writes);
      await store.write([
        { op: 'delete', key: ['w', 'absent'] },
        { op: 'delete-prefix', prefix: ['w', '5'] },
      ]);
      for (const revision of revisions.toSorted((a, b) => a - b)) {
        const { value } = await watch.next();
        t.is(value.type === 'put' && value.entry.revision, revision);
      }
      t.like((await watch.next()).value, { type: 'delete', key: ['w', '5'] });
      ending.abort();
      t.true((await watch.next()).done);
    },
  );

  check(
    'what a watcher does to a value reaches neither the store nor others',
    async (t, { store }) => {
      const ending = new AbortController();
      const watches = [1, 2].map(() => store.watch(['w'], ending.signal)[Symbol.asyncIterator]());
      await store.write([{ op: 'put', key: ['w', 'a'], value: bytes('kept') }]);
      for (const watch of watches) {
        const { value } = await watch.next();
        if (value.type !== 'put') return t.fail();
        t.is(text(value.entry.value), 'kept');
        value.entry.value.fill(0);
      }
      const entry = await store.get(['w', 'a']);
      t.is(text(entry?.value ?? bytes('')), 'kept');
      ending.abort();
    },
  );

  check('a watch ends with its signal and with the store', async (t, { store }) => {
    t.true((await store.watch([], AbortSignal.abort())[Symbol.asyncIterator]().next()).done);
    const ending = new AbortController();
    const first = store.watch([], ending.signal)[Symbol.asyncIterator]().next();
    ending.abort();
    t.true((await first).done);
    const watch = store.watch([], new AbortController().signal)[Symbol.asyncIterator]();
    await store.write([{ op: 'put', key: ['a'], value: bytes('') }]);
    await store.close();
    t.is((await watch.next()).value.type, 'put');
    t.true((await watch.next()).done);
  });

  check('a watcher that falls 10,000 changes behind is told so', async (t, { store }) => {
    const watch = store.watch([], new AbortController().signal)[Symbol.asyncIterator]();
    const put = { op: 'put' as const, key: ['a'], value: bytes('') };
    await store.write(Array.from({ length: 10_000 }, () => put));
    t.is((await watch.next()).value.type, 'put');
    await store.write([put, put]);
    await t.throwsAsync(() => watch.next(), { instanceOf: StoreError, code: 'ERR_WATCH_OVERRUN' });
    t.true((await watch.next()).done);
  });

  check('a stream numbers its records without gaps', async (t, { store, clock }) => {
    const append = (value: string): Promise<number> =>
      store.write([{ op: 'append', stream: 's', value: bytes(value) }]);
    await Promise.all([append('a'), append('b'), append('c')]);
    const stream = store.stream('s');
    const records = await stream.read();
    t.deepEqual(
      records.map(({ sequence, value }) => [sequence, text(value)]),
      [
        [1, 'a'],
        [2, 'b'],
        [3, 'c'],
      ],
    );
    t.true(records.every(({ appendedAt }) => appendedAt === clock.now));
    t.deepEqual(
      (await stream.read({ after: 1, limit: 1 })).map(({ sequence }) => sequence),
      [2],
    );
    await stream.trim(3);
    await append('d');
    t.deepEqual(
      (await stream.read()).map(({ sequence }) => sequence),
      [4],
    );
    t.deepEqual(await store.stream('s\u0000').read(), []);
  });

  check('a consumer goes on behind what it acknowledged', async (t, { store }) => {
    const append = { op: 'append' as const, stream: 's', value: bytes('') };
    await store.write([append, append, append]);
    const sequences = async (name: string): Promise<number[]> =>
      (await store.stream('s').consumer(name).fetch(2)).map(({ sequence }) => sequence);
    t.deepEqual(await sequences('x'), [1, 2]);
    t.deepEqual(await sequences('x'), [1, 2]);
    const consumer = store.stream('s').consumer('x');
    await consumer.acknowledge(2);
    await consumer.acknowledge(1);
    t.deepEqual(await sequences('x'), [3]);
    t.deepEqual(await sequences('y'), [1, 2]);
    await consumer.acknowledge(99);
    await store.write([append]);
    t.deepEqual(await sequences('x'), [4]);
  });

  check('close waits for writes under way and may be called twice', async (t, { store }) => {
    const written = store.write([{ op: 'put', key: ['a'], value: bytes('') }]);
    await Promise.all([store.close(), store.close()]);
    t.is(await written, 1);
    const closed = { instanceOf: StoreError, code: 'ERR_STORE_CLOSED' };
    await t.throwsAsync(store.get(['a']), closed);
    await t.throwsAsync(store.write([]), closed);
    await t.throwsAsync(store.stream('s').read(), closed);
    await t.throwsAsync(keysOf(store.list([])), closed);
    await t.throwsAsync(Array.fromAsync(store.keys([])), closed);
    t.throws(() => store.watch([], new AbortController().signal), closed);
  });

  test(`${engine}: any sequence of writes leaves what the plain model has`, (t) =>
    agreesWithModel(t, openStore));
}

interface Given {
  readonly store: Store;
  /** Clock of the store. */
  readonly clock: { now: number };
}

async function keysOf(entries: AsyncIterable<Entry>): Promise<(readonly string[])[]> {
  const keys: (readonly string[])[] = [];
  for await (const entry of entries) keys.push(entry.key);
  return keys;
}
