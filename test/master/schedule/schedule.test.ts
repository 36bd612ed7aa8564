/** The schedule of a running master, and the times at which its entries are due. */

import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { readSchedule } from '#config';
import { createLogger, type Master, type MasterApi, type MasterEvent } from '#master';
import { Closers } from '#master/context/closers.ts';
import type { WireMap } from '#minion-protocol';
import { Schedule, scheduleRow } from '#salt/schedule/schedule.ts';
import { isAllowed, nextTime } from '#salt/schedule/schedule-times.ts';
import { createMaster } from '#server';
import { createMemoryStore, type Store } from '#store';
import { until } from '../../helpers/deadline.ts';
import { startFleet } from '../../helpers/fleet.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** Parses a local time, like the schedule. */
function local(text: string): number {
  return new Date(text).getTime();
}

function due(entry: object, now: string, last?: string): string | undefined {
  const [read] = readSchedule({ entry: { function: 'test.ping', ...entry } });
  const at =
    read && nextTime(read.trigger, local(now), last === undefined ? undefined : local(last));
  if (at === undefined) return undefined;
  const date = new Date(at);
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

for (const [entry, now, expected, last] of [
  [{ minutes: 5 }, '2026-03-01T10:00:00', '2026-03-01 10:03:00', '2026-03-01T09:58:00'],
  [{ hours: 1, seconds: 30 }, '2026-03-01T10:00:00', '2026-03-01 10:00:00', '2026-03-01T01:00:00'],
  [{ cron: '*/15 * * * *' }, '2026-03-01T10:15:00', '2026-03-01 10:30:00'],
  [{ cron: '0 3 * * mon-fri' }, '2026-03-06T04:00:00', '2026-03-09 03:00:00'],
  [{ cron: '30 4 1,15 * 5' }, '2026-03-01T05:00:00', '2026-03-06 04:30:00'],
  [{ cron: '0 0 29 2 *' }, '2026-03-01T05:00:00', '2028-02-29 00:00:00'],
  [{ cron: '0 0 31 2 *' }, '2026-03-01T05:00:00', undefined],
  [{ cron: '@daily' }, '2026-12-31T05:00:00', '2027-01-01 00:00:00'],
  [{ when: '5:00pm' }, '2026-03-01T17:00:00', '2026-03-02 17:00:00'],
  [{ when: ['Monday 5:00pm', 'wed 12am'] }, '2026-03-01T05:00:00', '2026-03-02 17:00:00'],
  [{ when: '2026-03-01T06:00:00' }, '2026-03-01T05:00:00', '2026-03-01 06:00:00'],
  [{ once: '2026-03-01T06:00:00' }, '2026-03-01T06:00:00', undefined],
] as const) {
  test(`${JSON.stringify(entry)} is due after ${now} at ${expected}`, (t) => {
    t.is(due(structuredClone<object>(entry), now, last), expected);
  });
}

for (const [entry, message] of [
  [{ function: 'ping', seconds: 1 }, /x: function: expected module.function/],
  [{ function: 'a.b' }, /x: expected one of: an interval/],
  [{ function: 'a.b', seconds: 1, cron: '* * * * *' }, /x: expected one of/],
  [
    { function: 'a.b', cron: '60 * * * *' },
    /x: cron: 60 is not a valid value for a field with 0 to 59/,
  ],
  [{ function: 'a.b', cron: '* * *' }, /x: cron: expected five fields/],
  [{ function: 'a.b', when: 'soon' }, /x: when: expected a time/],
  [{ function: 'a.b', seconds: 1, maxrunning: 0 }, /x: maxrunning: expected/],
  [{ function: 'a.b', seconds: 1, splay: 'x' }, /x: splay: expected/],
] as const) {
  test(`an entry is refused by name: ${message.source}`, (t) => {
    t.throws(() => readSchedule({ x: entry }), { code: 'ERR_OPTION_TYPE', message });
  });
}

for (const [entry, now, expected] of [
  [{ range: { start: '8:00am', end: '5:00pm' } }, '2026-03-01T12:00:00', true],
  [{ range: { start: '8:00am', end: '5:00pm' } }, '2026-03-01T07:59:59', false],
  [{ range: { start: '8:00am', end: '5:00pm', invert: true } }, '2026-03-01T12:00:00', false],
  [{ range: { start: '8:00am', end: '5:00pm', invert: true } }, '2026-03-01T18:00:00', true],
  [{ range: { start: '10:00pm', end: '4:00am' } }, '2026-03-01T23:00:00', true],
  [{ range: { start: '10:00pm', end: '4:00am' } }, '2026-03-01T03:00:00', true],
  [{ range: { start: '10:00pm', end: '4:00am' } }, '2026-03-01T12:00:00', false],
  [{ after: '12:00pm' }, '2026-03-01T12:00:00', false],
  [{ after: '12:00pm' }, '2026-03-01T12:00:01', true],
  [{ after: '2026-03-02T00:00:00' }, '2026-03-01T12:00:00', false],
  [{ until: '12:00pm' }, '2026-03-01T12:00:00', false],
  [{ until: '2026-03-02T00:00:00' }, '2026-03-01T12:00:00', true],
] as const) {
  test(`with ${JSON.stringify(entry)} work ${expected ? 'runs' : 'does not run'} at ${now}`, (t) => {
    const [read] = readSchedule({
      entry: { function: 'a.b', seconds: 1, ...structuredClone(entry) },
    });
    t.is(read && isAllowed(read, local(now)), expected);
  });
}

const noJobs = (): never => {
  throw new Error('no job of minions is scheduled');
};

/** Opens a schedule without a master. Each run of a runner calls `onRun` and ends with it. */
function openSchedule(
  t: ExecutionContext,
  schedule: WireMap,
  {
    store,
    now,
    onRun,
    log = createLogger('quiet'),
    jobs = noJobs,
  }: {
    readonly store: Store;
    readonly now: () => number;
    readonly onRun: () => Promise<void>;
    readonly log?: ReturnType<typeof createLogger>;
    readonly jobs?: MasterApi['jobs']['run'];
  },
): { readonly schedule: Schedule; readonly end: () => void } {
  const closing = new AbortController();
  const run = async () => {
    await onRun();
    return { jid: '1', fun: 'test.arg', success: true, return: true };
  };
  const opened = new Schedule({
    config: { fixed: { schedule, user: null } },
    context: {
      ...{ store, now, log },
      ...{ closing: closing.signal, closers: new Closers() },
    },
    jobs: {
      api: {
        run: jobs,
      },
    },
    functions: { runners: { run } },
  });
  const end = (): void => {
    closing.abort();
    opened.close();
  };
  t.teardown(end);
  return { schedule: opened, end };
}

/** Returns a store with entries that were last due in 1970. */
async function dueStore(...names: readonly string[]): Promise<Store> {
  const store = createMemoryStore();
  const value = Buffer.from('0');
  await store.write(names.map((name) => ({ op: 'put', key: ['schedule', name], value })));
  return store;
}

test('work that ends while the next work begins is not counted as running', async (t) => {
  const store = await dueStore('work');
  const ends: (() => void)[] = [];
  let [clock, begun, writes] = [0, 0, 0];
  const done = new Promise<void>((resolve) => {
    const write = store.write.bind(store);
    store.write = async (steps) => {
      ends.shift()?.();
      await new Promise((turn) => setImmediate(turn));
      writes += 1;
      if (writes === 6) {
        end();
        resolve();
      }
      return write(steps);
    };
  });
  const entry = { function: 'test.arg', seconds: 1, maxrunning: 2 };
  const { schedule, end } = openSchedule(
    t,
    { work: entry },
    {
      store,
      // Each time the clock is read, the next run is due.
      now: () => (clock += 10_000),
      onRun: () => {
        begun += 1;
        return new Promise((resolve) => ends.push(resolve));
      },
    },
  );
  await schedule.start();
  await done;
  t.is(begun, 5);
});

test('splay delays work, and run_on_start begins it at once', async (t) => {
  const store = await dueStore('late');
  const startedAt = Date.now();
  const ran = (schedule: WireMap): Promise<number> =>
    new Promise((resolve) => {
      const onRun = async (): Promise<void> => resolve(Date.now());
      const opened = openSchedule(t, schedule, { store, now: Date.now, onRun });
      void opened.schedule.start();
    });
  const late = { function: 'test.arg', hours: 1, splay: { start: 0.05, end: 0.06 } };
  t.true((await ran({ late })) - startedAt >= 50);
  const first = { function: 'test.arg', hours: 1 };
  await ran({ first: { ...first, run_on_start: true } });
  const kept = await store.get(['schedule', 'first']);
  t.true(kept !== undefined && scheduleRow.decode(kept).at >= startedAt);
});

async function startMaster(
  t: ExecutionContext,
  root: string,
  schedule: WireMap,
): Promise<{ readonly master: Master; readonly events: MasterEvent[] }> {
  const master = createMaster({
    interface: '127.0.0.1',
    publishPort: 0,
    requestPort: 0,
    pkiDir: path.join(root, 'pki'),
    cacheDir: path.join(root, 'cache'),
    socketDir: path.join(root, 's'),
    stateDir: path.join(root, 'state'),
    schedule,
  });
  await master.start();
  t.teardown(() => master.close());
  const events: MasterEvent[] = [];
  const seen = await master.events.subscribe();
  (async () => {
    for await (const event of seen) events.push(event);
  })().catch(() => {});
  return { master, events };
}

function fired(events: readonly MasterEvent[], what: string): number {
  return events.filter(({ tag, data }) => tag.endsWith('/new') && String(data.fun_args) === what)
    .length;
}

test('runners run by the clock, one at a time, and missed runs run once after a restart', async (t) => {
  const root = temporaryDirectory(t);
  const entry = (text: string, more: WireMap): WireMap => ({
    function: 'test.arg',
    args: [text],
    ...more,
  });
  const schedule: WireMap = {
    quick: entry('quick', { seconds: 1 }),
    long: { function: 'test.sleep', args: [30], seconds: 1 },
    later: entry('later', { hours: 1 }),
    off: entry('off', { seconds: 1, enabled: false }),
    closed: entry('closed', { seconds: 1, until: '2020-01-01T00:00:00' }),
    unkept: entry('unkept', { seconds: 1, return_job: false }),
  };
  const first = await startMaster(t, root, schedule);
  await until(
    'the schedule',
    () =>
      fired(first.events, 'quick') >= 3 &&
      fired(first.events, 'unkept') >= 2 &&
      fired(first.events, '30') >= 1,
  );
  t.is(fired(first.events, '30'), 1, 'it still runs');
  t.is(
    fired(first.events, 'off') + fired(first.events, 'closed') + fired(first.events, 'later'),
    0,
  );
  const { return: listed } = await first.master.runners.run({ fun: 'jobs.list_jobs' });
  const kept = [...(listed instanceof Map ? listed.values() : [])].filter(
    (job) => Object(job).Function === 'runner.test.arg',
  );
  const quick = fired(first.events, 'quick');
  // A job is stored before its event is fired.
  const most = quick + 1;
  t.true(kept.length > 0 && kept.length <= most, `${kept.length} of ${most}, and none of unkept`);
  await first.master.close();
  const lastHour = {
    ...schedule,
    later: entry('later', { seconds: 2 }),
    quick: entry('quick', { hours: 9 }),
  };
  await sleep(2000);
  const second = await startMaster(t, root, lastHour);
  await until('the schedule', () => fired(second.events, 'later') >= 1);
  t.is(fired(second.events, 'quick'), 0, 'it was done before the restart');
});

test('with tgt an entry is a job of minions', async (t) => {
  const { master } = await startFleet(t, {
    ids: ['a1', 'b1'],
    config: { schedule: { ping: { function: 'test.ping', tgt: 'a*', seconds: 1 } } },
  });
  const list = async (): Promise<unknown[]> => {
    const { return: jobs } = await master.runners.run({ fun: 'jobs.list_jobs' });
    return [...(jobs instanceof Map ? jobs.values() : [])].filter(
      (job) => Object(job).Function === 'test.ping' && Object(job).Target === 'a*',
    );
  };
  while ((await list()).length === 0) await sleep(50);
  t.pass();
});

test('a job for names without a key is reported in the log', async (t) => {
  const lines: string[] = [];
  const log = createLogger('info', { write: (line: string) => void lines.push(line) });
  const { schedule } = openSchedule(
    t,
    { ping: { function: 'test.ping', tgt: ['m1', 'm9'], tgt_type: 'list', seconds: 1 } },
    {
      store: await dueStore('ping'),
      now: Date.now,
      onRun: async () => {},
      log,
      jobs: async function* () {
        yield { type: 'published', jid: '1', minions: ['m1'], missing: ['m9'], skipped: 0 };
      },
    },
  );
  await schedule.start();
  const isReported = (): boolean => lines.some((line) => line.includes('without an accepted key'));
  await until('the log', isReported);
  t.like(JSON.parse(lines.find((line) => line.includes('without an accepted key')) ?? '{}'), {
    schedule: 'ping',
    jid: '1',
    missing: ['m9'],
  });
});
