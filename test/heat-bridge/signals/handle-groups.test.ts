/** The work that handles for groups cause for signals and registrations. */
import test from 'ava';
import type { GroupMembership } from '#heat-bridge/signals/handle-groups.ts';
import type { HandleRegistration } from '#heat-bridge/signals/handle-registration.ts';
import { HandleRegistry } from '#heat-bridge/signals/handles.ts';
import type { SharedArea } from '#master';
import { slicesOf } from '../../helpers/slices.ts';
import { memoryState } from './open-signals.ts';

const bytes = { total: 67_108_864, perOwner: 16_777_216 };
const key = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
const signal = { url: 'https://heat.example/hook', key };

/** Returns the registration of a handle for a nodegroup. */
function ofNodegroup(owner: string, nodegroup: string, more: object = {}): HandleRegistration {
  return { alias: 'ready', owner, nodegroups: [nodegroup], signal, ...more };
}

/** Opens a registry in which the minions of the projects p1 and p2 have names such as `p1-web`. */
async function openRegistry(now: () => number, state: SharedArea = memoryState(now)) {
  /** Nodegroups whose membership was tested. */
  const tested: string[] = [];
  /** Minions whose project was looked up. */
  const asked: string[] = [];
  const membership: GroupMembership = {
    hasNodegroup: () => true,
    isInNodegroup: (_minion, nodegroup) => {
      tested.push(nodegroup);
      return true;
    },
    projectOf: (minion) => {
      asked.push(minion);
      return /^(p\d)-/.exec(minion)?.[1];
    },
  };
  const origins: string[] = [];
  const endpoints = { has: (origin: string) => origins.push(origin) > 0 };
  const options = { state, endpoints, membership, handleTtlMs: 1_000, bytes, now };
  return { handles: await HandleRegistry.open(options), tested, asked, origins };
}

test('handles of other projects are not tested for the signal of a guest', async (t) => {
  let now = 1;
  const { handles, tested, asked } = await openRegistry(() => now);
  for (const owner of ['project:p1', 'project:p2', 'user::admin']) {
    await handles.add(ofNodegroup(owner, owner));
    now += 1;
  }
  asked.length = 0;
  t.is(handles.findFor('ready', 'p2-web')?.owner, 'project:p2');
  t.is(asked.length, 1);
  t.is(handles.findFor('ready', 'other')?.owner, 'user::admin');
  t.deepEqual(tested, ['project:p2', 'user::admin']);
});

test('an expired handle is tested only if no valid one matches', async (t) => {
  let now = 1;
  const { handles, tested } = await openRegistry(() => now);
  await handles.add(ofNodegroup('user::a', 'expired', { expiresAt: 2 }));
  now = 2;
  t.is(handles.findFor('ready', 'web1')?.owner, 'user::a');
  await handles.add(ofNodegroup('user::b', 'valid'));
  tested.length = 0;
  t.is(handles.findFor('ready', 'web1')?.owner, 'user::b');
  await t.throwsAsync(handles.add({ alias: 'ready', owner: 'c', minions: ['web1'], signal }), {
    code: 'ERR_HANDLE_EXISTS',
  });
  t.deepEqual(tested, ['valid', 'valid']);
});

test("a new handle for groups removes its owner's expired ones with the same alias", async (t) => {
  let now = 1;
  const state = memoryState(() => now);
  const { handles } = await openRegistry(() => now, state);
  await handles.add(ofNodegroup('project:p1', 'a', { alias: 'other', expiresAt: now + 1 }));
  await handles.add(ofNodegroup('project:p2', 'a', { expiresAt: now + 1 }));
  for (const stack of ['s1', 's2', 's3']) {
    await handles.add(ofNodegroup('project:p1', 'a', { stack, expiresAt: now + 1 }));
    now += 1;
  }
  const left = [
    ['other', 'other'],
    ['ready', 's3'],
  ];
  for (const registry of [handles, (await openRegistry(() => now, state)).handles]) {
    t.deepEqual(
      registry.list('project:p1').map(({ alias, stack }) => [alias, stack]),
      left,
    );
    t.is(registry.list('project:p2').length, 1);
  }
});

test('a registration of many minions gives way to other work', async (t) => {
  const { handles } = await openRegistry(() => 1);
  const globs = Array.from({ length: 64 }, (_, at) => `*[a]?b${at}*`);
  await handles.add({ alias: 'ready', owner: 'user::admin', globs, signal });
  const minions = Array.from({ length: 1_000 }, (_, at) => `${'a'.repeat(100)}-${at}x`);
  const slices = await slicesOf(() =>
    handles.add({ alias: 'ready', owner: 'project:p1', minions, signal }),
  );
  t.true(slices.length > 10, `${slices.length} slices`);
  for (const steps of slices) t.true(steps < 200_000, `${steps} steps in one slice`);
});

test('a list of the handles of one owner does not convert those of others', async (t) => {
  const { handles, origins } = await openRegistry(() => 1);
  for (const owner of ['a', 'b', 'c']) await handles.add(ofNodegroup(owner, 'g'));
  origins.length = 0;
  t.is(handles.list('b').length, 1);
  t.is(origins.length, 1);
  await handles.remove('ready', 'b');
  t.deepEqual(handles.list('b'), []);
});
