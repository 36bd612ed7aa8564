/** Orchestrations in a cluster: another member resumes those of a member that has stopped. */

import { rmSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { LogStore } from '#cluster/log/log-store.ts';
import { createSilentLogger, type MasterEvent } from '#master';
import { isWireMap, type WireMap } from '#minion-protocol';
import { OrchestrationJournal } from '#salt/orchestrate/journal.ts';
import type { Store } from '#store';
import { type ClusterMaster, ClusterMasters } from '../../helpers/cluster-masters.ts';
import { until, within } from '../../helpers/deadline.ts';
import { layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { eventually } from '../../interop/eventually.ts';
import { TestCluster } from '../../store-suite/cluster.ts';

const echo = (text: string, more = ''): string => `
${text}:
  salt.function: [{ name: test.echo }, { tgt: web1 }, { kwarg: { text: ${text} } }${more}]
`;
const files = {
  'srv/whole.sls': `
${echo('before')}
part:
  salt.runner: [{ name: state.orchestrate }, { mods: part }, { require: [{ salt: before }] }]
beside:
  salt.parallel_runners:
    - runners:
        other: [{ name: state.orchestrate }, { kwarg: { mods: other } }]
    - require: [{ salt: part }]
${echo('after', ', { require: [{ salt: beside }] }')}
`,
  'srv/part.sls': `${echo('one')}${echo('held', ', { require: [{ salt: one }] }')}`,
  'srv/other.sls': echo('other'),
  'srv/wait.sls': `
site/heard/*:
  salt.wait_for_event: [{ id_list: [one, two] }, { timeout: 600 }]
`,
  'srv/runner.sls': 'slow: { salt.runner: [{ name: test.sleep }, { s_time: 600 }] }\n',
  'srv/batch.sls': echo('held', ", { batch: '1' }"),
};

interface Stage {
  readonly masters: { readonly a: ClusterMaster; readonly b: ClusterMaster };
  /** Texts that the minion of b was asked to say. The test answers `held`. */
  readonly asked: string[];
  readonly answer: () => void;
}

async function start(t: ExecutionContext): Promise<Stage> {
  const directory = temporaryDirectory(t);
  layOut(directory, files);
  const cluster = new ClusterMasters(directory, {
    keysize: 2048,
    autoAccept: true,
    eventRing: { entries: 1000, bytes: 1_000_000 },
    id: 'master',
    fileRoots: { base: [path.join(directory, 'srv')] },
  });
  const a = await cluster.first('a');
  const b = await cluster.join('b', a);
  // This member stores what b writes after a has stopped.
  const c = await cluster.join('c', a);
  t.teardown(async () => {
    // With only one member, b would wait for another one to acknowledge that it has the lease.
    await c.master.cluster.drain();
    for (const { master } of [b, c]) await master.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const asked: string[] = [];
  let answer = (): void => {};
  const held = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await b.connect(t, 'web1', {
    'test.echo': async ({ kwargs: { text } }) => {
      asked.push(String(text));
      if (text === 'held') await held;
      return String(text);
    },
  });
  return { masters: { a, b }, asked, answer };
}

/** Returns what is stored about an orchestration after its end. */
async function keptOf({ master }: ClusterMaster, jid: string): Promise<WireMap> {
  let kept: WireMap | undefined;
  await eventually('the end', async () => {
    const found = await master.jobs.show(jid).catch(() => undefined);
    const value = found?.returns[0]?.return;
    kept = isWireMap(value) ? value : undefined;
    return kept !== undefined;
  });
  return kept ?? {};
}

function resultsOf({ return: value }: WireMap): Record<string, unknown> {
  const data = isWireMap(value) && isWireMap(value.data) ? value.data.master : undefined;
  return Object.fromEntries(
    Object.entries(isWireMap(data) ? data : {}).map(([tag, state]) => [
      tag.split('_|-')[1],
      isWireMap(state) ? (state.result === true ? true : String(state.comment)) : state,
    ]),
  );
}

test('an orchestration continues at another member when its own leaves, and repeats no step', async (t) => {
  const { masters, asked, answer } = await start(t);
  const { a, b } = masters;
  const told: MasterEvent[] = [];
  // This jid is later than all others, and belongs to no job.
  const own = `${BigInt((await a.master.jobs.publish({ tgt: 'nobody', fun: 'test.ping' })).jid) + 1n}`;
  const end = new AbortController();
  const match = `salt/run/${own}/*`;
  const events = await b.master.events.subscribe({ match }, end.signal);
  const reading = (async () => {
    for await (const event of events) told.push(event);
  })();
  const call = { fun: 'state.orch', arg: ['whole'], user: 'ann', jid: own };
  const running = a.master.runners.run(call);
  await until('the part to be held', () => asked.includes('held'));
  await a.master.close();
  t.regex(String((await within('the end here', running)).return), /another member|closing/);
  answer();
  const kept = await keptOf(b, own);
  t.deepEqual(asked, ['before', 'one', 'held', 'other', 'after']);
  t.like(kept, { fun: 'runner.state.orch', user: 'ann', success: true, fun_args: ['whole'] });
  t.deepEqual(resultsOf(kept), { before: true, part: true, beside: true, after: true });
  t.is((await b.master.jobs.show(own)).returns.length, 1);
  await b.master.events.fire(`salt/run/${own}/last`, {});
  await until('what was told', () => told.at(-1)?.tag.endsWith('/last') === true);
  end.abort();
  await reading;
  t.is(told.filter(({ tag }) => tag.endsWith('/ret')).length, 1);
});

test('a step without a job ends as interrupted after its member is gone, and the rest continues', async (t) => {
  const { masters, asked, answer } = await start(t);
  const { a, b } = masters;
  const started = [];
  for (const mods of ['runner', 'batch']) {
    started.push(await a.master.runners.start({ fun: 'state.orchestrate', arg: [mods] }));
  }
  await until('the batch to be held', () => asked.includes('held'));
  await a.master.close();
  answer();
  const [runner, batch] = started.map(({ jid }) => keptOf(b, jid));
  t.regex(String(resultsOf((await runner) ?? {}).slow), /stopped while running test\.sleep/);
  t.regex(
    String(resultsOf((await batch) ?? {}).held),
    /stopped while running a batch of test\.echo/,
  );
  t.deepEqual(asked, ['held']);
});

test('an awaited result arrives, even if any member is gone by then', async (t) => {
  const { masters } = await start(t);
  const { a, b } = masters;
  const call = { fun: 'state.orchestrate', arg: ['wait'] };
  const readers = async (): Promise<number> => {
    const families = await a.master.metrics();
    const own = families.find(({ name }) => name === 'saltbridge_event_readers');
    return own?.type === 'gauge' ? (own.samples[0]?.value ?? 0) : 0;
  };
  const before = await readers();
  const { jid } = await a.master.runners.start(call);
  await eventually('the state to wait', async () => (await readers()) > before);
  // No caller waits for the orchestration at this time.
  await a.master.events.fire('site/heard/one', { id: 'one' });
  await a.master.close();
  await b.master.events.fire('site/heard/two', { id: 'two' });
  const kept = await keptOf(b, jid);
  t.deepEqual(resultsOf(kept), { 'site/heard/*': true });
});

/** Returns the journal of orchestrations on a member. */
function journalOf(
  store: LogStore,
  member: string,
  duties: { isHeld: boolean },
): OrchestrationJournal {
  let number = 0;
  return new OrchestrationJournal({
    store: store satisfies Store,
    nextJid: () => {
      number += 1;
      return `${member}${number}`;
    },
    log: createSilentLogger(),
    duties: {
      get isHeld() {
        return duties.isHeld;
      },
      onHeld: () => {},
    },
    cluster: {
      member,
      isGone: () => true,
      follow: (prefix, listener) =>
        void store.onChange(prefix, listener, new AbortController().signal),
    },
  });
}

const call = { fun: 'state.orch', arg: ['x'], kwarg: {}, user: 'ann', by: undefined };
const settled = {
  outcome: { result: true, changes: { ret: 'x'.repeat(10) }, comment: 'done' },
  attempts: 1,
  startedAt: 1,
  endedAt: 2,
};

test('a member that has lost an orchestration to another begins no further steps', async (t) => {
  const cluster = new TestCluster(t);
  await cluster.found();
  const [a, b] = [await cluster.open('a'), await cluster.open('b')];
  const first = journalOf(a, 'a', { isHeld: false });
  await first.start(async () => {});
  const journal = await first.begin('1', call);
  if (journal === undefined) return t.fail();
  const [one, two] = [journal.next('one'), journal.next('two')];
  const begun = await one.begin();
  await one.settle(settled);
  t.deepEqual(await two.begin(), { jid: 'a2', wasBegun: false });

  const second = journalOf(b, 'b', { isHeld: true });
  const resumed = new Promise<unknown>((resolve) => {
    void second.start(async (jid, given) => resolve([jid, given]));
  });
  t.deepEqual(await within('the next member', resumed), ['1', call]);
  await until('a to hear of it', () => journal.lost.aborted);
  await t.throwsAsync(journal.next('three').begin(), { code: 'ERR_REVISION' });

  const again = await second.begin('1', call);
  if (again === undefined) return t.fail();
  const [oneAgain, twoAgain] = [again.next('one'), again.next('two')];
  t.deepEqual(oneAgain.settled, settled);
  t.is(twoAgain.settled, undefined);
  t.deepEqual(await twoAgain.begin(), { jid: 'a2', wasBegun: true });
  t.deepEqual(await twoAgain.begin(), { jid: 'b1', wasBegun: false });
  t.not(again.ofPart(begun.jid), undefined);
  t.is(again.ofPart('c1'), undefined);
  await again.end();
  const left = [];
  for await (const { key } of b.list(['orchestrations'])) left.push(key);
  t.deepEqual(left, []);
  await first.close();
  await second.close();
});

test('an orchestration ends if the SLS differ at the next member', async (t) => {
  const cluster = new TestCluster(t);
  await cluster.found();
  const store = await cluster.open('a');
  const journal = journalOf(store, 'a', { isHeld: false });
  await journal.start(async () => {});
  const large = 'x'.repeat(2_000_000);
  t.is(await journal.begin('2', { ...call, kwarg: { pillar: { large } } }), undefined);
  const steps = await journal.begin('1', call);
  const step = steps?.next('one');
  // Not every change of a state can be stored.
  const { outcome } = settled;
  await step?.settle({ ...settled, outcome: { ...outcome, changes: { ret: large } } });
  const again = await journal.begin('1', call);
  t.throws(() => again?.next('two'), {
    code: 'ERR_ORCHESTRATION',
    message: /the next state is two, but one had started/,
  });
  const third = await journal.begin('1', call);
  const kept = third?.next('one').settled;
  t.like(kept, { outcome: { result: true, comment: 'done' } });
  t.deepEqual(Object.keys(kept?.outcome.changes ?? {}), ['trimmed']);
  await journal.close();
});
