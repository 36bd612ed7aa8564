/** Test suite for all coordinators, which store the values of data spaces. */

import anyTest, { type ExecutionContext, type TestFn } from 'ava';
import type { Coordinator } from '#guests/data-spaces/coordinator.ts';

const test: TestFn = anyTest;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A coordinator; `restart` opens another one with the same data. */
interface OpenedCoordinator {
  readonly coordinator: Coordinator;
  restart(): Promise<Coordinator>;
}

export type OpenCoordinator = (t: ExecutionContext) => Promise<OpenedCoordinator>;

async function textOf(coordinator: Coordinator, key: string, space = 's'): Promise<string> {
  const found = await coordinator.get(space, key);
  if (found === undefined) return 'nothing';
  return `${Buffer.from(found.value).toString()} ${found.version}`;
}

/** Declares the tests for one kind of coordinator. */
export function coordinatorSuite(name: string, open: OpenCoordinator): void {
  test(`${name}: a value can be read after it was written, and after a restart`, async (t) => {
    const { coordinator, restart } = await open(t);
    t.is(await textOf(coordinator, 'db/a'), 'nothing');
    t.true(await coordinator.put('s', 'db/a', { value: bytes('one'), version: 1 }));
    t.is(await textOf(coordinator, 'db/a'), 'one 1');
    t.is(await textOf(await restart(), 'db/a'), 'one 1');
  });

  test(`${name}: of several concurrent writers of one version, one succeeds`, async (t) => {
    const { coordinator } = await open(t);
    const values = ['a', 'b', 'c', 'd'];
    const written = await Promise.all(
      values.map((it) => coordinator.put('s', 'k', { value: bytes(it), version: 1 })),
    );
    t.is(written.filter(Boolean).length, 1);
    t.is(await textOf(coordinator, 'k'), `${values[written.indexOf(true)]} 1`);
    t.false(await coordinator.put('s', 'k', { value: bytes('x'), version: 3 }));
    t.true(await coordinator.put('s', 'k', { value: bytes('y'), version: 2 }));
    t.is(await textOf(coordinator, 'k'), 'y 2');
  });

  test(`${name}: a listener is called for its own key only, until the watch ends`, async (t) => {
    const { coordinator } = await open(t);
    let told = 0;
    let wake: () => void = () => {};
    const first = new Promise<void>((resolve) => {
      wake = resolve;
    });
    const stop = coordinator.watch('s', 'k', () => {
      told += 1;
      wake();
    });
    await coordinator.put('s', 'other', { value: bytes('1'), version: 1 });
    await coordinator.put('t', 'k', { value: bytes('1'), version: 1 });
    t.is(told, 0);
    await coordinator.put('s', 'k', { value: bytes('1'), version: 1 });
    await first;
    stop();
    await coordinator.put('s', 'k', { value: bytes('2'), version: 2 });
    t.is(told, 1);
  });

  test(`${name}: spaces are separate, and the removal of one is reported`, async (t) => {
    const { coordinator } = await open(t);
    for (const space of ['s', 's2']) {
      await coordinator.put(space, 'k', { value: bytes(space), version: 1 });
    }
    t.deepEqual([...(await coordinator.sizes('s'))], [['k', 1]]);
    const ended = new Promise<void>((resolve) => {
      coordinator.watch('s', 'missing', resolve);
    });
    await coordinator.remove('s');
    await ended;
    t.is(await textOf(coordinator, 'k', 's'), 'nothing');
    t.is(await textOf(coordinator, 'k', 's2'), 's2 1');
    t.true(await coordinator.put('s', 'k', { value: bytes('new'), version: 1 }));
  });
}
