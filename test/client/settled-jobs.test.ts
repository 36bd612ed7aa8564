/**
 * Tests of calls whose master ends in the meantime, with a stand-in for the masters in each case.
 */
import test from 'ava';
import { type MasterSource, type MethodCaller, type ReachedMaster, RemoteError } from '#client';
import { callOver, subscribeOver } from '#client/fail-over.ts';
import { jobMethods, SettledJobs } from '#client/settled-jobs.ts';

/**
 * Script of a stand-in: the value or the items that it returns for each method. It ends by throwing
 * {@link ended}.
 */
type Script = Readonly<Record<string, (parameters: object) => unknown>>;

const ended = new RemoteError('ERR_SOCKET', 'the master closed the connection');
const jid = '20261122000000000001_p1';

class Source implements MasterSource {
  readonly waitLimitMs = 1000;
  /** Calls, as `<number of the stand-in> <method>`. */
  readonly calls: string[] = [];
  readonly #holders: ReachedMaster[];

  constructor(...scripts: readonly Script[]) {
    this.#holders = scripts.map((script, index) => this.#holderOf(script, index + 1));
  }

  async master(): Promise<ReachedMaster | undefined> {
    return this.#holders.find(({ end }) => !end.aborted);
  }

  #holderOf(script: Script, number: number): ReachedMaster {
    const end = new AbortController();
    const act = (name: string, parameters: object): unknown => {
      this.calls.push(`${number} ${name}`);
      const method = script[name];
      if (method === undefined) throw new Error(`holder ${number} was called: ${name}`);
      return method(parameters);
    };
    const guard = async <T>(work: () => T | Promise<T>): Promise<T> => {
      try {
        return await work();
      } catch (error) {
        if (error === ended) end.abort();
        throw error;
      }
    };
    const caller: MethodCaller = {
      call: ({ name }, parameters) => guard(() => act(name, parameters)),
      open: async ({ name }, parameters) =>
        (async function* () {
          const items = act(name, parameters) as Generator<unknown>;
          for (;;) {
            const { done, value } = await guard(() => items.next());
            if (done) return;
            yield value;
          }
        })(),
    };
    const connection = { name: '', open: unexpected, explain: unexpected };
    const jobs = this.jobsOf(number);
    return {
      caller,
      connection,
      end: end.signal,
      hasOthers: true,
      jobs,
      onBreak: () => end.abort(),
    };
  }

  /** Returns the identifier of the store with a master's jobs. */
  jobsOf(_number: number): string | undefined {
    return 'one';
  }

  refused(): Error {
    return new RemoteError('ERR_SOCKET', 'no connection');
  }
}

/** Masters that do not share a store. */
class Strangers extends Source {
  override jobsOf(number: number): string | undefined {
    return number === 1 ? 'one' : 'other';
  }
}

function unexpected(): never {
  throw new Error('no connection is made');
}

function fail(): never {
  throw ended;
}

function unknownJob(): never {
  throw new RemoteError('ERR_JOB_UNKNOWN', 'no job with this jid is stored');
}

async function collect(items: AsyncIterable<unknown>): Promise<unknown[]> {
  const all: unknown[] = [];
  for await (const item of items) all.push(item);
  return all;
}

const published = { type: 'published', jid, minions: ['a', 'b', 'c'], missing: [], skipped: 0 };
const returnOf = (minion: string): object => ({ type: 'return', jid, minion, retcode: 0 });
const finished = (deliveries: readonly object[]): object => ({ type: 'finished', jid, deliveries });

test('a job that the next holder has stored is not published again', async (t) => {
  const source = new Source(
    { 'jobs.publish': fail },
    {
      *'jobs.follow'() {
        yield published;
      },
    },
  );
  const receipt = await new SettledJobs(source, () => jid).publish({});
  t.deepEqual(receipt, { jid, minions: ['a', 'b', 'c'], missing: [], skipped: 0 });
  t.deepEqual(source.calls, ['1 jobs.publish', '2 jobs.follow']);
});

test('a job that the next holder does not have is published there, with the same id', async (t) => {
  const source = new Source(
    { 'jobs.publish': fail },
    { 'jobs.follow': unknownJob, 'jobs.publish': (parameters) => parameters },
  );
  const receipt = await new SettledJobs(source, () => jid).publish({});
  t.deepEqual(receipt, { jid });
});

test('a job is not continued at a master that does not store it', async (t) => {
  const source = new Strangers({ 'jobs.publish': fail }, {});
  const publishing = new SettledJobs(source, () => jid).publish({});
  await t.throwsAsync(publishing, { code: 'ERR_OUTCOME_UNKNOWN' });
  t.deepEqual(source.calls, ['1 jobs.publish']);
});

test('a job that the next master receives meanwhile is looked up once more', async (t) => {
  let lookedUp = 0;
  const refuse = (): never => {
    throw new RemoteError('ERR_ARGS', `job ${jid} already exists`);
  };
  const source = new Source(
    { 'jobs.publish': fail },
    {
      *'jobs.follow'() {
        lookedUp += 1;
        if (lookedUp === 1) unknownJob();
        yield published;
      },
      'jobs.publish': refuse,
    },
  );
  t.like(await new SettledJobs(source, () => jid).publish({}), { jid });
  const other = new Source({ 'jobs.publish': refuse });
  await t.throwsAsync(new SettledJobs(other, () => jid).publish({}), { code: 'ERR_ARGS' });
});

test('the outcome of a job is unknown if the next master may not report jobs', async (t) => {
  const denied = (): never => {
    throw new RemoteError('ERR_DENIED', 'not permitted');
  };
  const source = new Source({ 'jobs.publish': fail }, { 'jobs.follow': denied });
  const publishing = new SettledJobs(source, () => jid).publish({});
  await t.throwsAsync(publishing, { code: 'ERR_OUTCOME_UNKNOWN' });
});

test('a job that the next holder has but never sent is published there', async (t) => {
  const stored = { ...published, notSent: ['a', 'b', 'c'] };
  const source = (): Source =>
    new Source(
      {
        'jobs.publish': fail,
        *'jobs.run'() {
          yield fail();
        },
      },
      {
        *'jobs.follow'() {
          yield stored;
        },
        'jobs.publish': (parameters) => parameters,
        *'jobs.run'(parameters) {
          yield { ...published, parameters };
        },
      },
    );
  t.deepEqual(await new SettledJobs(source(), () => jid).publish({}), { jid });
  t.deepEqual(await collect(new SettledJobs(source(), () => jid).run({})), [
    { ...published, parameters: { jid } },
  ]);
});

test("the outcome of a user's job with an id of the master is unknown", async (t) => {
  for (const parameters of [{ token: 't' }, { user: 'sudo_x' }]) {
    const source = new Source(
      {
        'jobs.publish': fail,
        *'jobs.run'() {
          yield fail();
        },
      },
      {},
    );
    const jobs = new SettledJobs(source, () => jid);
    await t.throwsAsync(jobs.publish(parameters), { code: 'ERR_OUTCOME_UNKNOWN' });
  }
});

test('a run is followed further, reports each return once, and leaves silence undecided', async (t) => {
  const silent = { minion: 'c', state: 'silent', reason: 'not-heard-since' };
  const source = new Source(
    {
      *'jobs.run'() {
        yield published;
        yield returnOf('a');
        // A master that is closing ends the stream in this way.
        yield finished([]);
        fail();
      },
    },
    {
      *'jobs.follow'() {
        yield published;
        yield returnOf('a');
        yield returnOf('b');
        yield finished([{ minion: 'a', state: 'answered' }, silent]);
      },
    },
  );
  t.deepEqual(await collect(new SettledJobs(source, () => jid).run({})), [
    published,
    returnOf('a'),
    returnOf('b'),
    finished([
      { minion: 'a', state: 'answered' },
      { ...silent, reason: 'unknown' },
    ]),
  ]);
});

test('a batch continues with the remaining minions', async (t) => {
  const asked: object[] = [];
  const one = { ...published, minions: ['a'] };
  const source = new Source(
    {
      *'jobs.batch'() {
        yield { type: 'gathered', minions: ['a', 'b', 'c'], silent: [] };
        yield one;
        fail();
      },
    },
    {
      *'jobs.follow'() {
        yield one;
        yield returnOf('a');
        yield finished([{ minion: 'a', state: 'answered' }]);
      },
      *'jobs.batch'(parameters) {
        asked.push(parameters);
        yield { type: 'gathered', minions: ['b', 'c'], silent: [] };
        yield returnOf('b');
        yield returnOf('c');
        yield { type: 'ended', left: [] };
      },
    },
  );
  const items = await collect(new SettledJobs(source, () => jid).batch({ size: '50%' }));
  t.deepEqual(
    items.map((item) => Object.values(item as object)[0]),
    ['gathered', 'published', 'return', 'finished', 'return', 'return', 'ended'],
  );
  t.deepEqual(asked, [{ tgt: ['b', 'c'], tgtType: 'list', size: 1, jid }]);
});

test('a runner call is looked up by its id, and its result is unknown if it is not stored', async (t) => {
  const method = { ...jobMethods.publish, name: 'runners.run' };
  const kept = { fun: 'runner.x', jid, return: 5, success: true };
  const source = new Source(
    { 'runners.run': fail },
    { 'jobs.show': () => ({ jid, returns: [{ return: kept, retcode: 0 }] }) },
  );
  const jobs = new SettledJobs(source, () => jid);
  t.deepEqual(await jobs.runFunction(method, {}), {
    jid,
    fun: 'runner.x',
    return: 5,
    success: true,
  });
  const other = new SettledJobs(
    new Source({ 'runners.run': fail }, { 'jobs.show': unknownJob }),
    () => jid,
  );
  await t.throwsAsync(other.runFunction(method, {}), { code: 'ERR_OUTCOME_UNKNOWN' });
});

test('read-only calls are repeated, and calls with possible effects are not', async (t) => {
  const method = { ...jobMethods.publish, name: 'x' };
  const reading = { ...method, row: { ...method.row, isIdempotent: true } };
  const source = (): Source => new Source({ x: fail }, { x: () => 'there' });
  t.is(await callOver(source(), reading, {}), 'there');
  await t.throwsAsync(callOver(source(), method, {}), { code: 'ERR_OUTCOME_UNKNOWN' });
});

test('a call refused for now goes to the next master, unless it had begun', async (t) => {
  const method = { ...jobMethods.publish, name: 'x' };
  const alone = (): never => {
    throw new RemoteError('ERR_CLUSTER_ALONE', 'too few members');
  };
  const source = new Source({ x: alone }, { x: () => 'done' });
  t.is(await callOver(source, method, {}), 'done');
  const begun = new Source({
    *'jobs.batch'() {
      yield { type: 'gathered', minions: ['a'], silent: [] };
      alone();
    },
  });
  const batch = new SettledJobs(begun, () => jid).batch({});
  await t.throwsAsync(collect(batch), { code: 'ERR_CLUSTER_ALONE' });
});

test('a stream of events continues after the last event that was read', async (t) => {
  const asked: object[] = [];
  const source = new Source(
    {
      *x() {
        yield { tag: 'a', id: '1' };
        yield { tag: 'b', id: '2' };
        fail();
      },
    },
    {
      *x(parameters) {
        asked.push(parameters);
        yield { tag: 'c', id: '3' };
      },
    },
  );
  const method = { ...jobMethods.follow, name: 'x' };
  const events = await subscribeOver(source, method, {});
  t.deepEqual(
    (await collect(events)).map((event) => (event as { readonly tag: string }).tag),
    ['a', 'b', 'c'],
  );
  t.deepEqual(asked, [{ after: '2' }]);
});
