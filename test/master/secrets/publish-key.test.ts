/** The shared key and its serials: none is given twice, wherever the process is killed. */
import { randomBytes } from 'node:crypto';
import test from 'ava';
import fc from 'fast-check';
import { PublishKey } from '../../../master/auth/publish-key.ts';
import { createSeal } from '../../../master/auth/session-keys.ts';
import { createMemoryStore, type Store } from '../../../store/index.ts';

const seal = createSeal(new Uint8Array(randomBytes(32)));

function open(store: Store, serialBlock = 3): Promise<PublishKey> {
  return PublishKey.open({
    store,
    seal,
    sign: async () => new Uint8Array(1),
    serialBlock,
    now: () => 0,
  });
}

/** The same store, for a process that is killed at its `count`th write: before it, or after it. */
function killedAt(store: Store, count: number, isAfter: boolean): Store {
  let writes = 0;
  const write: Store['write'] = async (operations) => {
    writes += 1;
    if (writes > count) throw new Error('killed');
    if (writes < count) return store.write(operations);
    if (isAfter) await store.write(operations);
    throw new Error('killed');
  };
  return new Proxy(store, {
    get: (target, name) => (name === 'write' ? write : Reflect.get(target, name).bind(target)),
  });
}

test('serials rise over any number of kills at any write, and the key stays', async (t) => {
  const lives = fc.array(
    fc.record({ takes: fc.nat(12), killAt: fc.integer({ min: 1, max: 6 }), isAfter: fc.boolean() }),
    { minLength: 1, maxLength: 6 },
  );
  await fc.assert(
    fc.asyncProperty(lives, async (runs) => {
      const store = createMemoryStore();
      const { key } = (await open(store)).current;
      let last = 0;
      for (const { takes, killAt, isAfter } of runs) {
        const publishKey = await open(killedAt(store, killAt, isAfter));
        t.is(publishKey.current.key.text, key.text);
        for (let count = 0; count < takes; count += 1) {
          const taken = await publishKey.take().catch(() => undefined);
          if (taken === undefined) break;
          t.true(taken.serial > last);
          last = taken.serial;
        }
      }
    }),
    { numRuns: 200 },
  );
});

test('serials that are taken at the same time are all different', async (t) => {
  const publishKey = await open(createMemoryStore());
  const taken = await Promise.all(Array.from({ length: 50 }, () => publishKey.take()));
  t.is(new Set(taken.map(({ serial }) => serial)).size, 50);
});

test('a new key begins its serials anew, and outlives a restart', async (t) => {
  const store = createMemoryStore();
  const publishKey = await open(store);
  const old = publishKey.current.key.text;
  await publishKey.take();
  await publishKey.rotate();
  const { key, serial } = await publishKey.take();
  t.not(key.text, old);
  t.is(serial, 1);
  t.is((await open(store)).current.key.text, key.text);
});

test('a retired key serves until the next start, which makes another', async (t) => {
  const store = createMemoryStore();
  const publishKey = await open(store);
  await publishKey.retire();
  t.is((await publishKey.take()).key.text, publishKey.current.key.text);
  const next = await open(store);
  t.not(next.current.key.text, publishKey.current.key.text);
  t.is((await open(store)).current.key.text, next.current.key.text);
});

test('what the store holds of the key is sealed', async (t) => {
  const store = createMemoryStore();
  const { key } = (await open(store)).current;
  const entry = await store.get(['secrets', 'publish-key']);
  t.false(Buffer.from(entry?.value ?? []).includes(key.text));
  const other = createSeal(new Uint8Array(randomBytes(32)));
  t.throws(() => other.open(entry?.value ?? new Uint8Array(0)), { code: 'ERR_SEAL' });
});
