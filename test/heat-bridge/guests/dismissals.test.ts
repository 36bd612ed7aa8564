/** Minions that are dismissed from data spaces. */
import test from 'ava';
import { DataSpaces } from '#guests/data-spaces/data-spaces.ts';
import type { SharedArea, StateOperation } from '#master';
import { twoMembers } from '../cluster.ts';
import { memoryState } from '../signals/open-signals.ts';

const closing = new AbortController().signal;

function openSpaces(state: SharedArea): Promise<DataSpaces> {
  return DataSpaces.open({ state, forget: async () => {}, closing, now: () => 1 });
}

function minionsOf(count: number): string[] {
  return Array.from({ length: count }, (_, at) => `web-${at}`);
}

/** Registers a space of which several minions read a value. */
function register(spaces: DataSpaces, name: string, minions: readonly string[]): Promise<unknown> {
  const db = { minions: [`${name}-db`], writes: { x: {} } };
  const web = { minions, reads: { x: 'db/x' } };
  return spaces.add({ name, roles: { db, web } }, 'p', true);
}

function rolesOf(spaces: DataSpaces, name: string): Record<string, readonly string[]> {
  const { roles } = spaces.find(name, 'p');
  return Object.fromEntries(Object.entries(roles).map(([role, it]) => [role, it.minions]));
}

async function keysBelow(state: SharedArea, ...prefix: string[]): Promise<readonly string[]> {
  const keys: string[] = [];
  for await (const { key } of state.list(prefix)) keys.push(key.join('/'));
  return keys;
}

/** Returns the number of bytes that are written when all minions of a space are dismissed. */
async function bytesOfDismissals(count: number): Promise<number> {
  let bytes = 0;
  const add = (operation: StateOperation): void => {
    if (operation.op === 'put' || operation.op === 'delete') bytes += operation.key.join().length;
    if (operation.op === 'put') bytes += operation.value.length;
  };
  const state = memoryState();
  const counted: SharedArea = {
    ...state,
    write: (operations) => {
      operations.forEach(add);
      return state.write(operations);
    },
  };
  const spaces = await openSpaces(counted);
  const minions = minionsOf(count);
  await register(spaces, 's', minions);
  bytes = 0;
  for (const minion of [...minions, 's-db']) await spaces.dismiss(minion);
  return bytes;
}

test('dismissing all minions of a large data space writes a linear number of bytes', async (t) => {
  const [small, large] = [await bytesOfDismissals(100), await bytesOfDismissals(1600)];
  t.true(large < 32 * small, `${small}, ${large}`);
});

test('dismissed minions leave their data space for good, and the last one removes it', async (t) => {
  const state = memoryState();
  let spaces = await openSpaces(state);
  const minions = minionsOf(20);
  await register(spaces, 's', minions);
  for (const [at, minion] of minions.entries()) {
    await spaces.dismiss(minion);
    t.is(spaces.membershipOf(minion), undefined);
    const left = { db: ['s-db'], web: minions.slice(at + 1) };
    t.deepEqual(rolesOf(spaces, 's'), left);
    spaces = await openSpaces(state);
    t.is(spaces.membershipOf(minion), undefined);
    t.deepEqual(rolesOf(spaces, 's'), left);
    t.deepEqual(
      spaces.all.map((space) => spaces.minionsOf(space, 'web')),
      [left.web],
    );
  }
  t.is(spaces.membershipOf('s-db')?.role, 'db');
  await spaces.dismiss('s-db');
  t.deepEqual(spaces.all, []);
  t.deepEqual(await keysBelow(state), []);
});

test('a dismissed minion may join another data space, and its own one again', async (t) => {
  const state = memoryState();
  const spaces = await openSpaces(state);
  const minions = minionsOf(10);
  await register(spaces, 's', minions);
  await spaces.dismiss('web-3');
  await register(spaces, 'other', ['web-3']);
  const exists = { code: 'ERR_DATA_EXISTS' };
  await t.throwsAsync(register(spaces, 's', minions), exists);
  await spaces.remove('s', 'p');
  t.is(spaces.membershipOf('web-3')?.space.name, 'other');
  await spaces.remove('other', 'p');
  await register(spaces, 's', minions);
  await spaces.dismiss('web-3');
  await register(spaces, 's', minions);
  t.is(spaces.membershipOf('web-3')?.space.name, 's');
  const again = await openSpaces(state);
  t.is(again.membershipOf('web-3')?.space.name, 's');
  t.deepEqual(await keysBelow(state, 'guests', 'dismissed'), []);
});

test('a registration that a crash interrupts is not changed by earlier dismissals', async (t) => {
  const state = memoryState();
  let isCrashed = false;
  const crashing: SharedArea = {
    ...state,
    write: (operations) =>
      isCrashed && operations.some(({ op }) => op === 'delete')
        ? new Promise(() => {})
        : state.write(operations),
  };
  const spaces = await openSpaces(crashing);
  const minions = minionsOf(10);
  await register(spaces, 's', minions);
  await spaces.dismiss('web-3');
  isCrashed = true;
  void register(spaces, 's', minions);
  while (spaces.membershipOf('web-3') === undefined) await new Promise(setImmediate);
  t.is((await keysBelow(state, 'guests', 'dismissed')).length, 1);
  const after = await openSpaces(state);
  t.is(after.membershipOf('web-3')?.role, 'web');
  t.deepEqual(await keysBelow(state, 'guests', 'dismissed'), []);
});

test('each member of a cluster knows the dismissed minions', async (t) => {
  const [one, two] = await twoMembers(t);
  const [a, b] = [await openSpaces(one.area), await openSpaces(two.area)];
  const minions = minionsOf(8);
  await register(a, 's', minions);
  await two.applied();
  for (const minion of minions.slice(0, 6)) {
    await b.dismiss(minion);
    await one.applied();
    t.is(a.membershipOf(minion), undefined);
  }
  t.deepEqual(rolesOf(a, 's'), { db: ['s-db'], web: ['web-6', 'web-7'] });
  const late = await openSpaces(one.area);
  t.deepEqual(rolesOf(late, 's'), rolesOf(a, 's'));
  await a.remove('s', 'p');
  t.deepEqual(await keysBelow(one.area, 'guests'), []);
});
