/** The dead-letter list, which the owners of handles share. */
import test from 'ava';
import { DeadLetterList } from '#heat-bridge/signals/dead-letters.ts';
import { deadRow, type OutboxRecord, outboxRow } from '#heat-bridge/signals/outbox-records.ts';
import type { OutboxSelection } from '#heat-bridge/signals/signals-api.ts';
import type { SharedArea, StateOperation } from '#master';
import type { LimitValues } from '#runtime';
import { slicesOf } from '../../helpers/slices.ts';
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

function open(
  state: SharedArea,
  total: number,
  now = () => 1,
  byteAmounts: LimitValues = {},
): Promise<DeadLetterList> {
  return DeadLetterList.open({ state, keepMs: 1_000, amounts: { total }, byteAmounts, now });
}

async function put(
  state: SharedArea,
  letters: DeadLetterList,
  record: OutboxRecord & { readonly project?: string },
): Promise<void> {
  await state.write(letters.operations({ ...record, reason: 'refused' }).operations);
}

async function idsOf(
  letters: DeadLetterList,
  selection: OutboxSelection = {},
): Promise<readonly string[]> {
  const ids: string[] = [];
  for await (const { id } of letters.select(selection)) ids.push(id);
  return ids;
}

/** Returns a state area that appends the key of each row that is read to `read`. */
function recordReads(plain: SharedArea, read: string[]): SharedArea {
  return {
    ...plain,
    get: (key) => {
      read.push(key.at(-1) ?? '');
      return plain.get(key);
    },
  };
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
  const rest = Array.from({ length: 8 }, (_, at) => `of-a-${at + 12}`);
  t.deepEqual(await idsOf(letters), ['of-b', 'of-nobody', ...rest]);
  t.is(letters.size, 10);

  const again = await open(state, 10, clock);
  await put(state, again, recordOf('of-a-20', 'a1', 'project:a'));
  t.deepEqual(await idsOf(again), ['of-b', 'of-nobody', ...rest.slice(1), 'of-a-20']);
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
  const kept = Array.from({ length: 7 }, (_, at) => `a-${at + 13}`);
  t.deepEqual(await idsOf(letters), ['b-1', 'b-2', 'b-3', ...kept]);
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
  t.deepEqual(await idsOf(letters), ['b', 'c']);
  t.is(letters.size, 2);
});

test('only the dead letters of the minions in question are read', async (t) => {
  const read: string[] = [];
  const state = recordReads(
    memoryState(() => 1),
    read,
  );
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

/** Text that is not JSON, so that a test fails if it is parsed. */
const unparsable = Buffer.from('{');

/** Returns the key of the row of a pending signal. */
function waitingKey(sequence: number): readonly string[] {
  return ['signals', 'outbox', 'ready', String(sequence).padStart(16, '0')];
}

/** Returns the operation that stores a dead letter whose signal cannot be parsed. */
function deadOf(id: string, owner: string, signal: Uint8Array = unparsable): StateOperation {
  const record = { ...recordOf(id, `${owner} 1`, owner), reason: 'refused', endedAt: 1 };
  const value = deadRow.encode({ ...record, status: 'SUCCESS', signal });
  return { op: 'put', key: ['signals', 'dead', id], value };
}

test('a list of the signals of one handle reads no signal of another owner, and no data', async (t) => {
  const plain = memoryState(() => 1);
  const pending = recordOf('c', 'web1', 'a');
  const value = outboxRow.encode({ ...pending, status: 'FAILURE', signal: unparsable });
  const waiting = { op: 'put', key: waitingKey(1), value } as const;
  await plain.write([deadOf('a', 'a'), deadOf('b', 'b'), waiting]);
  const read: string[] = [];
  const state = recordReads(plain, read);
  const { outbox } = await openTestSignals(t, [], { state, isStarted: false, now: () => 1 });
  const ofA = { alias: 'ready', owner: 'a' };
  read.length = 0;
  t.like(await outbox.list(ofA), [
    { id: 'a', state: 'dead', status: 'SUCCESS' },
    { id: 'c', status: 'FAILURE' },
  ]);
  t.false(read.includes('b'));
  t.is((await outbox.drop(ofA)).length, 2);
  t.false(read.includes('b'));
  t.deepEqual(
    (await outbox.list()).map(({ id }) => id),
    ['b'],
  );
});

test('a retry of the signals of one handle reads no signal of another owner', async (t) => {
  const plain = memoryState(() => 1);
  await plain.write([deadOf('1', 'b'), deadOf('2', 'a')]);
  const read: string[] = [];
  const state = recordReads(plain, read);
  const { outbox } = await openTestSignals(t, [], { state, isStarted: false, now: () => 1 });
  read.length = 0;
  const retried = outbox.retry({ alias: 'ready', owner: 'a' });
  await t.throwsAsync(retried, { code: 'ERR_HANDLE_UNKNOWN' });
  t.deepEqual(read, ['2']);
});

test('a list of signals gives way after each large one', async (t) => {
  const state = memoryState(() => 1);
  const large = Buffer.alloc(131_072, '[');
  await state.write(Array.from({ length: 5 }, (_, at) => deadOf(`a-${at}`, 'a', large)));
  for (let at = 0; at < 5; at += 1) {
    const pending = { ...recordOf(`c-${at}`, 'web1', 'a'), sequence: at };
    const value = outboxRow.encode({ ...pending, status: 'SUCCESS', signal: large });
    await state.write([{ op: 'put', key: waitingKey(at), value }]);
  }
  const { outbox } = await openTestSignals(t, [], { state, isStarted: false, now: () => 1 });
  const dead = await slicesOf(() => outbox.list({ isDead: true }));
  t.is(dead.length, 5);
  const waiting = await slicesOf(() => outbox.list({ isDead: false }));
  t.is(waiting.length, 5);
});

test('a list contains dead letters that an earlier version stored', async (t) => {
  const state = memoryState(() => 1);
  const record = { ...recordOf('a', 'web1'), reason: 'refused', endedAt: 1 };
  const value = deadRow.encode({ ...record, signal: Buffer.from('{"status":"FAILURE"}') });
  await state.write([{ op: 'put', key: ['signals', 'dead', 'a'], value }]);
  const { outbox } = await openTestSignals(t, [], { state, now: () => 1 });
  t.like(await outbox.list(), [{ id: 'a', status: 'FAILURE', state: 'dead', reason: 'refused' }]);
});

test('large dead letters replace the oldest ones of their owner, or of the owner with most bytes', async (t) => {
  const state = memoryState(() => 1);
  const signal = { status: 'SUCCESS', data: 'x'.repeat(1_000) } as const;
  const add = (letters: DeadLetterList, id: string, owner: string): Promise<void> =>
    put(state, letters, { ...recordOf(id, 'm', owner), signal });
  const amounts = { perOwner: 4_000, total: 5_000 };
  const letters = await open(state, 100, () => 1, amounts);
  await put(state, letters, recordOf('small', 'm', 'a'));
  for (const id of ['a-1', 'a-2', 'a-3', 'a-4']) await add(letters, id, 'a');
  t.deepEqual(await idsOf(letters), ['a-2', 'a-3', 'a-4']);
  for (const id of ['b-1', 'b-2']) await add(letters, id, 'b');
  t.deepEqual(await idsOf(letters), ['a-3', 'a-4', 'b-1', 'b-2']);

  const again = await open(state, 100, () => 1, amounts);
  t.is(again.size, 4);
  await letters.remove('a-3');
  await again.remove('a-3');
  await add(again, 'c-1', 'c');
  t.deepEqual(await idsOf(again), ['a-4', 'b-1', 'b-2', 'c-1']);
  await add(again, 'c-2', 'c');
  t.deepEqual(await idsOf(again), ['a-4', 'b-2', 'c-1', 'c-2']);
  t.is(again.size, 4);
});

test('a store with too many bytes of dead letters loses some with each new one', async (t) => {
  const state = memoryState(() => 1);
  await state.write(Array.from({ length: 150 }, (_, at) => deadOf(`a-${at}`, 'a')));
  const letters = await open(state, 1_000, () => 1, { perOwner: 1_000 });
  t.is(letters.size, 150);
  await put(state, letters, recordOf('new', 'm', 'a'));
  t.is(letters.size, 51);
  await put(state, letters, recordOf('newer', 'm', 'a'));
  t.deepEqual((await idsOf(letters)).slice(-2), ['new', 'newer']);
  t.true(letters.size < 10);
});
