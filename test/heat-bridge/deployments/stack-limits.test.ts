/** Limits on the registrations of stacks, which are kept in memory. */
import test from 'ava';
import { parseStackRegistration, StackRegistry } from '#guests/deployments/stacks.ts';
import { listInSlices, requireRegistrationRoom } from '#guests/registrations.ts';
import { maxSliceSteps } from '#runtime/work-budget.ts';
import { slicesOf } from '../../helpers/slices.ts';
import { memoryState } from '../signals/open-signals.ts';

const full = { code: 'ERR_STACK_LIMIT' } as const;
const login = {
  auth_url: 'https://keystone.example.org:5000/v3',
  application_credential_id: 'id-1',
  application_credential_secret: 'a-secret',
};
const subject = { kind: 'service', name: 'x' } as const;

/** Returns a registration with a number of servers. */
function formOf(name: string, servers: number): object {
  return {
    name,
    login,
    servers: Array.from({ length: servers }, (_, at) => ({ server: `server-${at}` })),
  };
}

for (const [what, limits, most] of [
  ['size', { bytes: { perOwner: 4_000, total: 1_000_000 } }, 100],
  ['number of servers', { servers: { perOwner: 150, total: 1_000 } }, 100],
] as const) {
  test(`the ${what} of the stacks of one owner leaves space for those of others`, async (t) => {
    const state = memoryState();
    const open = (): Promise<StackRegistry> =>
      StackRegistry.open({ state, isListed: () => true, now: Date.now, ...limits });
    const stacks = await open();
    const add = (name: string, servers: number, owner: string, replaces = false) =>
      stacks.add(parseStackRegistration(formOf(name, servers)), { owner, subject }, replaces);
    await add('one', most, 'a');
    await t.throwsAsync(add('two', most, 'a'), { ...full, message: new RegExp(what) });
    await add('two', most, 'b');
    await t.throwsAsync(add('one', 3 * most, 'a', true), full);
    await add('one', 10, 'a', true);
    await add('two', 50, 'a');
    await stacks.remove('two', 'a');
    await t.throwsAsync(add('three', 3 * most, 'a'), full);
    await add('three', 50, 'a');
    // Concurrent registrations count as well.
    const [first, second] = await Promise.allSettled([add('four', 60, 'c'), add('five', 100, 'c')]);
    t.is(first.status, 'fulfilled');
    t.is(second.status, 'rejected');
    const again = await open();
    const more = parseStackRegistration(formOf('x', most));
    await t.throwsAsync(again.add(more, { owner: 'b', subject }, false), full);
  });
}

test('the number of registrations of one owner leaves space for those of others', (t) => {
  const of = (owner: string | undefined, count: number) =>
    Array.from({ length: count }, (_, at) => ({ name: `${owner}-${at}`, owner }));
  const add = (all: ReturnType<typeof of>, owner?: string): void =>
    requireRegistrationRoom(all, owner, { ...full, kind: 'stack' });
  const most = of('a', 1_000);
  t.throws(() => add(most, 'a'), { ...full, message: /at most 1000 per owner and 10000 in total/ });
  add(most, 'b');
  add(most);
  t.throws(() => add(of(undefined, 1_000)), full);
  // If few places are free, an owner with more registrations than these gets none.
  const many = Array.from({ length: 12 }, (_, at) => of(`many-${at}`, 800)).flat();
  t.throws(() => add(many, 'many-0'), full);
  add(many, 'b');
});

test('a registration names a limited number of services', (t) => {
  const of = (count: number): object => ({
    name: 'demo',
    servers: Array.from({ length: 1_000 }, (_, at) => ({
      server: `server-${at}`,
      collect: {
        request: { metadata_url: `https://swift-${at % count}.example.org:8080/v1/${at}` },
      },
    })),
  });
  t.is(parseStackRegistration(of(100)).servers?.length, 1_000);
  t.throws(() => parseStackRegistration(of(101)), {
    code: 'ERR_STACK_FORM',
    message: /more than 100 services/,
  });
});

test('a list of stacks is made in slices', async (t) => {
  const parts = Array.from({ length: 50 }, () => 400);
  let infos: readonly number[] = [];
  const slices = await slicesOf(async () => {
    infos = await listInSlices(
      parts,
      (it) => it,
      (it) => it,
    );
  });
  t.deepEqual(infos, parts);
  t.true(slices.length > 20);
  t.true(slices.every((steps) => steps < 2 * maxSliceSteps));
});
