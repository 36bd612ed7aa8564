/** Duties that one member of a cluster performs for all members. */
import test, { type ExecutionContext } from 'ava';
import { Duties } from '#cluster/duties.ts';
import type { LogStore } from '#cluster/log/log-store.ts';
import { createSilentLogger } from '#master';
import { Closers } from '#master/context/closers.ts';
import { Schedule } from '#salt/schedule/schedule.ts';
import { createMemoryStore } from '#store';
import { until } from '../../helpers/deadline.ts';
import { TestCluster } from '../../store-suite/cluster.ts';

const log = createSilentLogger();

function dutiesOf(t: ExecutionContext, store: LogStore, member: string): Duties {
  const refusesWrites = () => store.status.refusesWrites;
  const duties = new Duties({ store, member, refusesWrites, now: Date.now, log, lookMs: 10 });
  t.teardown(() => duties.close());
  return duties;
}

test('one member has the duties, and another takes them over when it leaves', async (t) => {
  const cluster = new TestCluster(t);
  await cluster.found();
  const [a, b] = [await cluster.open('a'), await cluster.open('b')];
  const first = dutiesOf(t, a, 'a');
  await until('a to have the duties', () => first.isHeld);
  const second = dutiesOf(t, b, 'b');
  let told = 0;
  second.onHeld(() => {
    told += 1;
  });
  const put = (value: string) => ({ op: 'put', key: ['done'], value: Buffer.from(value) }) as const;
  await t.throwsAsync(second.write([put('b')]), { code: 'ERR_REVISION' });
  await first.write([put('a')]);
  t.false(second.isHeld);
  await first.close();
  t.false(first.isHeld);
  await until('b to have the duties', () => second.isHeld);
  t.is(told, 1);
  await second.write([put('b')]);
  await t.throwsAsync(first.write([put('a')]), { code: 'ERR_REVISION' });
});

test('a drained member hands over its duties, and takes them again only after it resumes', async (t) => {
  const cluster = new TestCluster(t);
  await cluster.found();
  const [a, b] = [await cluster.open('a'), await cluster.open('b')];
  const first = dutiesOf(t, a, 'a');
  await until('a to have the duties', () => first.isHeld);
  await first.handOver();
  t.false(first.isHeld);
  const second = dutiesOf(t, b, 'b');
  await until('b to have the duties', () => second.isHeld);
  await second.close();
  const third = dutiesOf(t, b, 'b');
  await until('b to have them again', () => third.isHeld);
  t.false(first.isHeld);
  await third.close();
  first.resume();
  await until('a to have them again', () => first.isHeld);
});

test('a restarted member continues its duties', async (t) => {
  const cluster = new TestCluster(t);
  await cluster.found();
  const a = await cluster.open('a');
  const killed = dutiesOf(t, a, 'a');
  await until('a to have the duties', () => killed.isHeld);
  const again = dutiesOf(t, a, 'a');
  await until('a to have them again', () => again.isHeld);
  await t.throwsAsync(killed.write([{ op: 'delete', key: ['x'] }]), { code: 'ERR_REVISION' });
});

test('the schedule runs at the member with the duties, including missed runs of the previous member', async (t) => {
  const store = createMemoryStore();
  const clock = { now: Date.parse('2026-03-01T10:00:00Z') };
  const closers = new Closers();
  t.teardown(() => closers.close());
  let begin = (): void => {};
  const runs: string[] = [];
  const member = (name: string, duties: { isHeld: boolean }) => {
    const schedule = new Schedule({
      config: {
        fixed: {
          user: 'root',
          schedule: { one: { function: 'test.ping', run_on_start: true, hours: 1 } },
        },
      },
      context: {
        store,
        now: () => clock.now,
        log,
        closing: new AbortController().signal,
        closers,
        duties: {
          get isHeld() {
            return duties.isHeld;
          },
          onHeld: (listener) => {
            begin = () => listener(new AbortController().signal);
          },
          handOver: async () => {},
          resume: () => {},
          write: async (operations) => {
            await store.write(operations);
          },
        },
      },
      jobs: { api: { run: () => t.fail() as never } },
      functions: {
        runners: {
          run: async () => {
            runs.push(name);
            return { jid: '1', fun: 'test.ping', success: true, return: null };
          },
        },
      },
    });
    t.teardown(() => schedule.close());
    return schedule;
  };
  const [a, b] = [{ isHeld: true }, { isHeld: false }];
  await member('a', a).start();
  clock.now += 1000;
  await member('b', b).start();
  await until('a to run it', () => runs.length > 0);
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  t.deepEqual(runs, ['a']);
  // The former member has stopped, and had not started the work that b left to it.
  b.isHeld = true;
  begin();
  await until('b to run it', () => runs.length > 1);
  t.deepEqual(runs, ['a', 'b']);
  begin();
  await new Promise((resolve) => setImmediate(resolve));
  t.deepEqual(runs, ['a', 'b']);
});
