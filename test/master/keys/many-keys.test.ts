/** Functions that list or change many keys let other work run after each slice. */

import test, { type ExecutionContext } from 'ava';
import { KeyStore } from '#master/auth/key-store.ts';
import { createKeysApi } from '#master/auth/keys-api.ts';
import type { KeyFiles } from '#master/auth/pki-directory.ts';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { maxSliceSteps } from '#runtime';
import { keyWheel } from '#salt/wheel/key-wheel.ts';
import { slicesOf } from '../../helpers/slices.ts';
import { pem } from '../../helpers/vectors.ts';

const { publicPem } = pem('other_minion');

/** Key files in memory, whose changes take no turn of the event loop. */
function filesOf(ids: readonly string[]): KeyFiles {
  const files = new Map(ids.map((id) => [id, { pem: publicPem, since: 0 }]));
  return {
    list: async () => [],
    readAll: (place) => (place === 'accepted' ? files : new Map()),
    read: async () => undefined,
    write: async () => {},
    move: async () => {},
    remove: async () => {},
  };
}

interface Wheel {
  readonly keys: KeyStore;
  readonly api: ReturnType<typeof createKeysApi>;
  /** Lists of patterns of the calls that delete or accept keys. */
  readonly calls: (string | readonly string[])[];
  readonly run: (fun: string, kwarg: WireMap) => Promise<WireValue | undefined>;
}

async function openWheel(t: ExecutionContext, count: number): Promise<Wheel> {
  const ids = Array.from({ length: count }, (_, number) => `web${number}`);
  const keys = await KeyStore.open({ files: filesOf(ids), watch: () => () => {} });
  t.teardown(() => keys.close());
  const api = createKeysApi({
    keys,
    hashType: 'sha256',
    protocolOf: () => 0,
    unpin: async () => {},
    ownKeys: async () => [],
    generator: { generateFor: () => Promise.reject(new Error('no key is generated')) },
  });
  const calls: (string | readonly string[])[] = [];
  const functions = keyWheel({
    keys: {
      ...api,
      delete: (selection, by) => {
        calls.push(selection.match);
        return api.delete(selection, by);
      },
    },
    ownKeys: () => [],
  });
  const run = async (fun: string, kwarg: WireMap): Promise<WireValue | undefined> =>
    functions[fun]?.bind(
      [],
      kwarg,
    )({
      ...{ jid: '1', user: 'u', by: undefined, timeoutSeconds: undefined, emit: () => {} },
      closing: new AbortController().signal,
      asked: { fun, arg: [], kwarg },
      continueElsewhere: () => {},
      atEnd: () => {},
    });
  return { keys, api, calls, run };
}

/** Steps by which the last entry of a slice may exceed it. */
const maxExcess = 10_000;

function areShort(slices: readonly number[]): boolean {
  return slices.every((steps) => steps <= maxSliceSteps + maxExcess);
}

test.serial('a list of names deletes keys in one call, and has a maximum length', async (t) => {
  const { keys, calls, run } = await openWheel(t, 10);
  const names = Array.from({ length: 9998 }, (_, number) => `none${number}`);
  t.deepEqual(await run('key.delete', { match: ['web1', 'web2', ...names].join(',') }), {});
  t.is(calls.length, 1);
  t.is(keys.acceptedIds().length, 8);
  for (const fun of ['key.accept', 'key.reject', 'key.delete', 'key.name_match', 'key.finger']) {
    const error = await t.throwsAsync(run(fun, { match: 'x,'.repeat(10_000) }), undefined, fun);
    t.like(error, { code: 'ERR_ARGS' });
  }
  t.deepEqual(await run('key.delete', { match: ',' }), {});
  t.is(calls.length, 1);
});

test.serial('names without wildcards are looked up, whatever the number of keys', async (t) => {
  const { keys } = await openWheel(t, 120_000);
  const names = ['none', 'web3', 'web2'];
  const slices = await slicesOf(async () => {
    const deleted = await keys.eachMatching(names, 'delete');
    t.deepEqual(
      deleted.map(({ id }) => id),
      ['web2', 'web3'],
    );
  });
  t.deepEqual(slices, []);
});

test.serial('many globs are compared with many keys in several slices', async (t) => {
  const { run } = await openWheel(t, 30);
  const match = Array.from({ length: 10_000 }, (_, number) => `x${number}*`).join(',');
  for (const fun of ['key.accept', 'key.delete', 'key.name_match', 'key.print']) {
    const slices = await slicesOf(() => run(fun, { match }));
    t.true(slices.length >= 6 && areShort(slices), `${fun}: ${slices}`);
  }
});

test.serial('keys are listed, hashed and deleted with pauses', async (t) => {
  const { keys, run } = await openWheel(t, 500);
  const listed = await slicesOf(() => run('key.list_all', {}));
  t.true(listed.length >= 9 && areShort(listed), `list_all: ${listed}`);
  const hashed = await slicesOf(() => run('key.finger', { match: '*', hash_type: 'md5' }));
  t.true(hashed.length >= 19 && areShort(hashed), `finger: ${hashed}`);
  const deleted = await slicesOf(() => keys.eachMatching(['*'], 'delete'));
  t.true(deleted.length >= 9 && areShort(deleted), `delete: ${deleted}`);
});

test.serial('a map with many ids deletes the keys of a state in one call', async (t) => {
  const { keys, calls, run } = await openWheel(t, 300);
  const ids = Array.from({ length: 100_000 }, (_, number) => `none${number}`);
  const strange = Object.fromEntries(['constructor', 'toString'].map((name) => [name, ['x']]));
  const match = { minions: ['web[1]', 'web1', 'web2', ...ids], minions_pre: ids, ...strange };
  const slices = await slicesOf(async () =>
    t.deepEqual(await run('key.delete_dict', { match }), {}),
  );
  t.true(slices.length >= 25 && areShort(slices), `${slices}`);
  t.deepEqual(calls, [['web1', 'web2']]);
  t.is(keys.acceptedIds().length, 298);
  const left = await run('key.reject_dict', { match: { minions: ['web3'] } });
  t.deepEqual(isWireMap(left) ? left.minions : left, ['web3']);
});

test.serial('many names of keys are looked up and sorted with pauses', async (t) => {
  const { keys } = await openWheel(t, 10_000);
  const names = Array.from({ length: 10_000 }, (_, number) => `web${number}`);
  // No key is pending, so no key is accepted.
  const slices = await slicesOf(() => keys.eachMatching(names, 'accept'));
  // A part of the list, which is sorted at once, may exceed a slice.
  const isShort = slices.every((steps) => steps <= 1.5 * maxSliceSteps);
  t.true(slices.length >= 9 && isShort, `${slices}`);
});

test.serial('accepted keys are compared with pauses, and again after a change', async (t) => {
  const { keys, api } = await openWheel(t, 10_000);
  await keys.acceptNew('WEB7', publicPem);
  const compare = (): Promise<number[]> => slicesOf(() => api.list({ state: 'pending' }));
  const first = await compare();
  t.true(first.length >= 45 && areShort(first), `${first}`);
  await keys.pend('web7x', publicPem);
  t.deepEqual(await compare(), []);
  await keys.delete('web8');
  t.true((await compare()).length >= 45);
  await keys.pend('Web7', publicPem);
  const [pending] = await api.list({ state: 'pending' });
  t.like(pending, { id: 'Web7', alike: ['WEB7', 'web7'], sharedWithCount: 10_000 });
});
