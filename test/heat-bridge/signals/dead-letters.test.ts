/** The dead-letter list, which the owners of handles share. */
import test from 'ava';
import { DeadLetterList } from '#heat-bridge/signals/dead-letters.ts';
import { deadRow, type OutboxRecord } from '#heat-bridge/signals/outbox-records.ts';
import type { SharedArea } from '#master';
import { memoryState, openTestSignals } from './open-signals.ts';

/** Returns a signal for the handle of an owner. Without an owner, it has no handle. */
function recordOf(id: string, minion: string, owner?: string): OutboxRecord {
  return {
    id,
    alias: 'ready',
    minion,
    sequence: 1,
    signal: { status: 'SUCCESS' },
    acceptedAt: 1,
    ...(owner === undefined ? {} : { owner, handle: `handle of ${owner}`, stack: 's' }),
  };
}

function open(state: SharedArea, total: number, now = () => 1): Promise<DeadLetterList> {
  return DeadLetterList.open({ state, keepMs: 1_000, amounts: { total }, now });
}

async function put(
  state: SharedArea,
  letters: DeadLetterList,
  record: OutboxRecord & { readonly project?: string },
): Promise<void> {
  await state.write(letters.operations({ ...record, reason: 'refused' }).operations);
}

test('the dead letters of one owner do not replace those of others', async (t) => {
  const state = memoryState(() => 1);
  let now = 1;
  const clock = (): number => {
    now += 1;
    return now;
  };
  const letters = await open(state, 10, clock);
  await put(state, letters, recordOf('of-b', 'b1', 'project:b'));
  await put(state, letters, recordOf('of-nobody', 'c1'));
  for (let at = 0; at < 20; at += 1) {
    await put(state, letters, recordOf(`of-a-${at}`, 'a1', 'project:a'));
  }
  const ids = async (): Promise<readonly string[]> => (await letters.list()).map(({ id }) => id);
  const rest = Array.from({ length: 8 }, (_, at) => `of-a-${at + 12}`);
  t.deepEqual(await ids(), ['of-b', 'of-nobody', ...rest]);
  t.is(letters.size, 10);

  const again = await open(state, 10, clock);
  await put(state, again, recordOf('of-a-20', 'a1', 'project:a'));
  t.deepEqual(await ids(), ['of-b', 'of-nobody', ...rest.slice(1), 'of-a-20']);
});

test('the minions of a project share its part of the dead-letter list', async (t) => {
  const state = memoryState(() => 1);
  let now = 1;
  const clock = (): number => {
    now += 1;
    return now;
  };
  let letters = await open(state, 10, clock);
  for (const id of ['b-1', 'b-2', 'b-3'])
    await put(state, letters, recordOf(id, 'b1', 'project:b'));
  for (let at = 0; at < 20; at += 1) {
    const held = { ...recordOf(`a-${at}`, `a${at}`), project: 'a' };
    await put(state, letters, at % 5 === 0 ? recordOf(held.id, 'a1', 'project:a') : held);
    if (at === 12) letters = await open(state, 10, clock);
  }
  t.deepEqual(
    (await letters.list()).map(({ id }) => id),
    ['b-1', 'b-2', 'b-3', ...Array.from({ length: 7 }, (_, at) => `a-${at + 13}`)],
  );
});

test('a failed signal without a handle counts for the project that its minion had', async (t) => {
  const state = memoryState();
  const projects: Record<string, string> = { m1: 'a' };
  const { signal, dismiss, outbox } = await openTestSignals(t, [], { state, projects });
  await signal('m1', 'heat/ready', { data: 1 });
  await signal('m2', 'heat/ready', { data: 1 });
  delete projects.m1;
  await dismiss('m1');
  await dismiss('m2');
  const stored: Record<string, unknown> = {};
  for await (const entry of state.list(['signals', 'dead'])) {
    const { minion, project } = deadRow.decode(entry);
    stored[minion] = project;
  }
  t.is((await outbox.list({ isDead: true })).length, 2);
  t.deepEqual(stored, { m1: 'a', m2: undefined });
});

test('if each dead letter has another owner, the oldest is replaced', async (t) => {
  const state = memoryState(() => 1);
  const letters = await open(state, 2);
  for (const owner of ['a', 'b', 'c']) await put(state, letters, recordOf(owner, 'm', owner));
  t.deepEqual(
    (await letters.list()).map(({ id }) => id),
    ['b', 'c'],
  );
  t.is(letters.size, 2);
});

test('only the dead letters of the minions in question are read', async (t) => {
  const plain = memoryState(() => 1);
  const read: string[] = [];
  const state: SharedArea = {
    ...plain,
    get: (key) => {
      read.push(key.at(-1) ?? '');
      return plain.get(key);
    },
  };
  const letters = await open(state, 100);
  for (let at = 0; at < 10; at += 1) {
    await put(state, letters, recordOf(`claimed-${at}`, 'web1', 'project:a'));
    await put(state, letters, recordOf(`other-${at}`, 'db1'));
    await put(state, letters, recordOf(`own-${at}`, 'web1'));
  }
  for (const opened of [letters, await open(state, 100)]) {
    read.length = 0;
    const found = await opened.unclaimedOf(new Set(['web1']), 3);
    t.deepEqual(
      found.map(({ id, state: of, minion }) => [id, of, minion]),
      [7, 8, 9].map((at) => [`own-${at}`, 'dead', 'web1']),
    );
    t.deepEqual(read, ['own-7', 'own-8', 'own-9']);
  }
});
