/** Functions that minions may request on other minions and on the master [THREATS M-06]. */
import test from 'ava';
import type { MasterOptions } from '#config';
import { returnRow } from '#master/jobs/job-return.ts';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { type ReadingStep, readingSteps } from '#runtime';
import { maxReadingStep } from '#runtime/step-scheduler.ts';
import { otherKey } from '../../helpers/connected-minion.ts';
import {
  type StoredKey,
  startVectorMaster,
  type VectorMaster,
} from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { pem } from '../../helpers/vectors.ts';
import { startWeb } from '../reactions/stage.ts';

const everybody = { '.*': ['.*'] };
const { publicPem } = pem('minion');
const own: StoredKey = { directory: 'minions', id: 'vecminion', publicPem };
const others = ['web1', 'web2', 'db1'].map((id): StoredKey => ({ ...own, id }));

type Load = Record<string, WireValue | undefined>;

function start(
  t: Parameters<typeof startVectorMaster>[0],
  config: Partial<MasterOptions> = {},
): Promise<VectorMaster> {
  const short = { timeout: 0.1, gatherJobTimeout: 0.1 };
  return startVectorMaster(t, { keys: [own, ...others], config: { ...short, ...config } });
}

function requestOf(load: Load, nonce: string): Buffer {
  const base: Load = { fun: 'test.ping', arg: [], tgt: 'web*', ret: '', env_only: undefined };
  const vector = recorded('aes_functions', '_master_opts v3');
  return altered(vector, { load: { ...base, id: 'vecminion', ...load, nonce } });
}

async function ask({ ask }: VectorMaster, load: Load): Promise<WireValue> {
  const nonce = freshNonce();
  const reply = await ask(requestOf(load, nonce));
  return openReply(recorded('aes_functions', '_master_opts v3'), reply, nonce);
}

async function publish(master: VectorMaster, load: Load = {}): Promise<WireMap> {
  const reply = await ask(master, { cmd: 'minion_pub', ...load });
  return isWireMap(reply) ? { ...reply } : { reply };
}

/** Returns the publications that are sent while `work` runs. */
async function published(
  master: VectorMaster,
  work: () => Promise<unknown>,
): Promise<readonly WireMap[]> {
  const events = await master.eventsDuring(work);
  return events.filter(({ tag }) => /^salt\/job\/\d+\/publish$/.test(tag)).map(({ data }) => data);
}

test('a time that is not a number is an empty reply, and not an error', async (t) => {
  const master = await start(t, { peer: everybody });
  for (const tmo of [{}, [null], [{}], 'x', -1, true, 2n ** 63n]) {
    const load: Load = { cmd: 'minion_publish', tmo };
    t.deepEqual(await publish(master, load), {}, JSON.stringify(String(typeof tmo)));
  }
});

test('a minion cannot publish if peer is not set', async (t) => {
  const master = await start(t);
  for (const cmd of ['minion_pub', 'minion_publish']) {
    const jobs = await published(master, async () =>
      t.deepEqual(await publish(master, { cmd }), {}),
    );
    t.deepEqual(jobs, []);
  }
});

test('a permitted job goes by name to the minions of its target', async (t) => {
  const master = await start(t, { peer: { vecminion: ['test.*'] } });
  let reply: WireMap = {};
  const [job] = await published(master, async () => {
    reply = await publish(master, { fun: 'test.arg', arg: ['1', 'a=x y', 'None'] });
  });
  t.deepEqual(reply.minions, ['web1', 'web2']);
  t.is(job?.jid, reply.jid);
  t.like(job, {
    fun: 'test.arg',
    tgt: ['web1', 'web2'],
    tgt_type: 'list',
    id: 'vecminion',
    ret: '',
  });
  t.deepEqual(job?.arg, [1, null, { __kwarg__: true, a: 'x y' }]);
});

/** Returns the steps of parsing on the main thread while `work` runs. */
async function readDuring(work: () => Promise<unknown>): Promise<readonly ReadingStep[]> {
  const steps: ReadingStep[] = [];
  const note = (step: unknown): unknown => steps.push(step as ReadingStep); // as it is published
  readingSteps.subscribe(note);
  await work();
  readingSteps.unsubscribe(note);
  return steps;
}

/** A map of twenty thousand keys. Comparing each pair of keys would take seconds. */
const manyKeys = `{${Array.from({ length: 20_000 }, (_, index) => `k${index}: 1`).join(', ')}}`;

test.serial('arguments of a forbidden function are not parsed', async (t) => {
  const master = await start(t, {
    peer: { vecminion: ['test.*'] },
    peerRun: { vecminion: ['test.*'] },
  });
  for (const cmd of ['minion_pub', 'minion_publish', 'minion_runner']) {
    const steps = await readDuring(async () => {
      t.deepEqual(await publish(master, { cmd, fun: 'cmd.run', arg: ['1', manyKeys] }), {}, cmd);
    });
    t.deepEqual(steps, [], cmd);
  }
});

test.serial('long arguments of a permitted function are parsed in a thread', async (t) => {
  const master = await start(t, { peer: { vecminion: ['test.*'] } });
  const jobs = await published(master, async () => {
    const steps = await readDuring(() => publish(master, { fun: 'test.arg', arg: [manyKeys] }));
    t.true(steps.length > 1);
    for (const { characters, values } of steps) {
      t.true(characters <= maxReadingStep.characters && values <= maxReadingStep.values);
    }
  });
  const [first] = Array.isArray(jobs[0]?.arg) ? jobs[0].arg : [];
  t.is(Object.keys(Object(first)).length, 20_000);
});

for (const [what, load] of Object.entries<Load>({
  'another function': { fun: 'cmd.run', arg: ['id'] },
  'a list with one function that is not permitted': { fun: 'test.ping,cmd.run', arg: ['', 'id'] },
  'publishing of publishing': { fun: 'publish.publish', arg: ['*', 'test.ping'] },
  'a list without arguments for each function': { fun: 'test.ping,test.ping', arg: [''] },
  'a list of functions': { fun: ['test.ping'] },
  'a name that is none': { fun: 'test' },
  'a target that nobody can read': { tgt: '(', tgt_type: 'pcre' },
  'a type of target that there is not': { tgt_type: 'range' },
  'no target': { tgt: undefined },
  'arguments that are a map': { arg: { a: 1 } },
  'a keyword in the place of a positional argument': { fun: 'test.arg', arg: ['"a=b"'] },
  'keywords in a map of the flow form': { fun: 'test.arg', arg: ['{__kwarg__: true, a: 1}'] },
  'keywords in a map with another mark': { fun: 'test.arg', arg: [{ __kwarg__: false, a: 1 }] },
  'keywords that are not last': { fun: 'test.arg', arg: [{ __kwarg__: true, a: 1 }, 'x'] },
  'a mark as a keyword': { fun: 'test.arg', arg: ['a=1', '__kwarg__=False'] },
  "a keyword of Salt's own": { fun: 'test.arg', arg: ['__pub_user=root'] },
  nobody: { tgt: 'none*' },
})) {
  test(`a minion may not publish ${what}`, async (t) => {
    const master = await start(t, { peer: { vecminion: ['test.*', 'publish.*'] } });
    const jobs = await published(master, async () => t.deepEqual(await publish(master, load), {}));
    t.deepEqual(jobs, []);
  });
}

test('each of several functions has its own arguments', async (t) => {
  const master = await start(t, { peer: { '.*': ['test.*'] } });
  const [job] = await published(master, () =>
    publish(master, { fun: 'test.ping,test.arg', arg: ['', '1 a=2'] }),
  );
  t.deepEqual(job?.fun, ['test.ping', 'test.arg']);
  t.deepEqual(job?.arg, [[], [1, { __kwarg__: true, a: 2 }]]);
});

test('conditions on arguments are checked as minions would receive them', async (t) => {
  const condition = [{ 'service.restart': { args: ['nginx'], kwargs: { no_block: 'True' } } }];
  const master = await start(t, { peer: { '.*': [{ 'web*': condition }] } });
  const restart = { fun: 'service.restart' };
  t.deepEqual(await publish(master, { ...restart, arg: ['nginx'] }), {});
  t.deepEqual(await publish(master, { ...restart, arg: ['sshd', 'no_block=True'] }), {});
  t.not((await publish(master, { ...restart, arg: ['nginx', 'no_block=true'] })).jid, undefined);
  const marked = { __kwarg__: true, no_block: true };
  t.not((await publish(master, { ...restart, arg: ['nginx', marked] })).jid, undefined);
});

test('a minion cannot pass on text that Salt would interpret', async (t) => {
  const master = await start(t, { peer: everybody, peerRun: everybody });
  const pillar = { a: '__slot__:salt:cmd.run(id)' };
  const arg = ['site', { __kwarg__: true, pillar }];
  const jobs = await published(master, async () => {
    t.deepEqual(await publish(master, { fun: 'state.apply', arg }), {});
  });
  t.deepEqual(jobs, []);
  t.deepEqual(await ask(master, { cmd: 'minion_runner', fun: 'state.orchestrate', arg }), {});
  const { counters } = await master.master.status();
  t.is(counters['peer-interpreted'], 2);
});

test('a rule for some minions does not permit jobs for others', async (t) => {
  const master = await start(t, { peer: { '.*': [{ 'web*': ['test.ping'] }] } });
  t.deepEqual((await publish(master, { tgt: 'web1' })).minions, ['web1']);
  t.deepEqual((await publish(master, { tgt: '*' })).minions, ['web1', 'web2']);
  const list = { tgt: 'web1,db1', tgt_type: 'list' };
  t.deepEqual((await publish(master, list)).minions, ['web1']);
  t.deepEqual(await publish(master, { tgt: 'db1' }), {});
});

test('a rule with grains alone reaches no minion', async (t) => {
  const master = await start(t, { peer: { '.*': [{ 'G@role:web': ['test.ping'] }] } });
  t.deepEqual(await publish(master, { tgt: 'web1' }), {});
  const explanation = await master.master.acl.explain({
    subject: { kind: 'minion', id: 'vecminion' },
    action: 'publish',
    resource: 'test.ping',
    target: { tgt: 'web1' },
  });
  t.is(explanation.decision.effect, 'deny');
  t.regex(JSON.stringify(explanation), /grains alone grant nothing/);
});

test('nodegroups are those of the master', async (t) => {
  const master = await start(t, { peer: everybody, nodegroups: { front: 'web1' } });
  t.deepEqual((await publish(master, { tgt: 'front', tgt_type: 'nodegroup' })).minions, ['web1']);
  t.deepEqual(await publish(master, { tgt: 'back', tgt_type: 'nodegroup' }), {});
});

test('only the sender of a job gets its returns', async (t) => {
  const master = await start(t, { peer: everybody });
  const { jid = '' } = await publish(master, { tgt: 'vecminion' });
  const answer = altered(recorded('return', 'simple v3'), { load: { jid, nonce: freshNonce() } });
  await master.ask(answer);
  t.deepEqual({ ...(await returnsOf(master, jid)) }, { vecminion: { ret: true } });
  const { jid: foreign } = await master.master.jobs.publish({ tgt: 'vecminion', fun: 'test.ping' });
  const other = altered(recorded('return', 'simple v3'), {
    load: { jid: foreign, nonce: freshNonce() },
  });
  await master.ask(other);
  t.deepEqual({ ...(await returnsOf(master, foreign)) }, {});
  t.deepEqual({ ...(await returnsOf(master, '../../etc/passwd')) }, {});
});

/** Publishes a job, and stores a return of the given size for each of the minions. */
async function returned(master: VectorMaster, bytes: number, ids: string[]): Promise<string> {
  const { jid } = await publish(master, { tgt: ids, tgt_type: 'list' });
  const common = { fun: 'test.ping', retcode: 0, success: true, receivedAt: 0 } as const;
  for (const minion of ids) {
    const value = returnRow.encode({ minion, return: 'r'.repeat(bytes), ...common });
    await master.store.write([{ op: 'put', key: ['returns', String(jid), minion], value }]);
  }
  return String(jid);
}

test('returns that do not fit into a reply are replaced by an error text', async (t) => {
  const master = await start(t, { peer: everybody });
  const jid = await returned(master, 6_000_000, ['db1', 'web1', 'web2']);
  for (const _repetition of [1, 2]) {
    const reply = await ask(master, { cmd: 'pub_ret', jid });
    const texts = Object.values(Object(reply)).map((entry) => String(Object(entry).ret));
    const lengths = texts.map((text) => text.length);
    t.deepEqual(lengths.slice(0, 2), [6_000_000, 6_000_000]);
    t.regex(texts[2] ?? '', new RegExp(`salt-run jobs.lookup_jid ${jid}`));
  }
  t.is((await master.counters())['peer-reply-bytes'], 2);
});

test('one reply with returns is read at a time for each minion, and few requests wait', async (t) => {
  const master = await start(t, { peer: everybody });
  const jid = await returned(master, 300_000, ['db1', 'web1', 'web2']);
  const load = { cmd: 'pub_ret', jid };
  const replies = await Promise.all(Array.from({ length: 20 }, () => ask(master, load)));
  t.is(replies.filter((reply) => Object.keys(Object(reply)).length === 3).length, 17);
  t.is((await master.counters())['peer-busy'], 3);
});

async function returnsOf(master: VectorMaster, jid: WireValue): Promise<WireMap> {
  const reply = await ask(master, { cmd: 'pub_ret', jid });
  return isWireMap(reply) ? JSON.parse(JSON.stringify(reply)) : { reply };
}

test('a repeated request publishes once and gets the same reply', async (t) => {
  const master = await start(t, { peer: everybody });
  const nonce = freshNonce();
  const request = requestOf({ cmd: 'minion_pub' }, nonce);
  const replies: WireValue[] = [];
  const jobs = await published(master, async () => {
    for (const _turn of [1, 2]) {
      const reply = await master.ask(request);
      replies.push(openReply(recorded('aes_functions', '_master_opts v3'), reply, nonce));
    }
  });
  t.is(jobs.length, 1);
  t.deepEqual(replies[0], replies[1]);
});

test('a request from before a restart publishes nothing', async (t) => {
  const first = await start(t, { peer: everybody });
  const request = requestOf({ cmd: 'minion_pub' }, freshNonce());
  await first.ask(request);
  await first.master.close();
  const { store, directory } = first;
  const second = await startVectorMaster(t, { store, directory, config: { peer: everybody } });
  t.deepEqual(await published(second, () => second.ask(request)), []);
});

test('minion_publish returns all results at the end', async (t) => {
  const master = await start(t, { peer: everybody });
  const events = await master.master.events.subscribe({ match: 'salt/job/*/new' });
  const reader = events[Symbol.asyncIterator]();
  const reply = ask(master, { cmd: 'minion_publish', tgt: 'vecminion', tmo: 30, form: 'full' });
  const { value } = await reader.next();
  const jid: WireValue = value?.data.jid ?? '';
  await master.ask(
    altered(recorded('return', 'simple v3'), { load: { jid, nonce: freshNonce() } }),
  );
  t.like(await reply, { __jid__: jid, vecminion: { id: 'vecminion', ret: true } });
});

test('a minion runs only runners that peer_run names, and none by default', async (t) => {
  const off = await start(t);
  const run = (master: VectorMaster, fun: string, arg: WireValue[] = []): Promise<WireValue> =>
    ask(master, { cmd: 'minion_runner', fun, arg, tgt: undefined });
  t.deepEqual({ ...asMap(await run(off, 'cache.list', ['minions'])) }, {});
  const master = await start(t, {
    peerRun: { vecminion: [{ 'cache.list': { args: ['minions'] } }] },
  });
  t.deepEqual(await run(master, 'cache.list', ['minions']), []);
  t.deepEqual({ ...asMap(await run(master, 'cache.list', ['minions/web1'])) }, {});
  t.deepEqual({ ...asMap(await run(master, 'event.send', ['salt/auth'])) }, {});
});

test('a right to salt.execute gives a minion no right to publish jobs', async (t) => {
  const ask1 = { cmd: 'minion_runner', fun: 'salt.execute', tgt: undefined };
  const call = { ...ask1, arg: ['vecminion', 'test.ping', 'timeout=1'] };
  const peerRun = { vecminion: ['salt.execute'] };
  const jobsOf = async (peer: MasterOptions['peer']): Promise<number> => {
    const master = await start(t, { peerRun, peer: peer ?? {} });
    return (await published(master, () => ask(master, call))).length;
  };
  t.is(await jobsOf({ vecminion: ['test.echo'] }), 0);
  t.is(await jobsOf({ vecminion: ['test.ping'] }), 1);
});

test('a repeated request to wait is one request, and is not repeated afterwards', async (t) => {
  const master = await start(t, { peer: everybody });
  const nonce = freshNonce();
  const load = { cmd: 'minion_publish', tgt: 'vecminion', tmo: 30 };
  const request = requestOf(load, nonce);
  const news = await master.master.events.subscribe({ match: 'salt/job/*/new' });
  const both = [master.ask(request), master.ask(request)];
  const { value } = await news[Symbol.asyncIterator]().next();
  const jid: WireValue = value?.data.jid ?? '';
  await master.ask(
    altered(recorded('return', 'simple v3'), { load: { jid, nonce: freshNonce() } }),
  );
  const open = (reply: Uint8Array): WireMap =>
    asMap(openReply(recorded('aes_functions', '_master_opts v3'), reply, nonce));
  const replies = (await Promise.all(both)).map(open);
  t.deepEqual(
    replies.map((reply) => ({ ...reply })),
    [{ vecminion: true }, { vecminion: true }],
  );
  const jobs = await published(master, async () => {
    t.deepEqual({ ...open(await master.ask(request)) }, {});
  });
  t.deepEqual(jobs, []);
});

test('a runner reports on whose behalf it runs', async (t) => {
  const master = await start(t, { peerRun: everybody });
  const events = await master.eventsDuring(() =>
    ask(master, { cmd: 'minion_runner', fun: 'manage.alived', arg: [], tgt: undefined }),
  );
  const reported = events.filter(({ tag }) => tag.startsWith('salt/run/'));
  t.deepEqual(
    reported.map(({ tag }) => tag.split('/').at(-1)),
    ['new', 'ret'],
  );
  for (const { data } of reported) t.like(data, { fun: 'runner.manage.alived', user: 'vecminion' });
});

function asMap(value: WireValue): WireMap {
  return isWireMap(value) ? value : { value };
}

test('replies of minion_publish to one minion share the bytes of returns', async (t) => {
  const master = await startVectorMaster(t, {
    keys: [own, otherKey('web1')],
    // Recorded requests and those of the embedded minion have different times.
    config: { peer: everybody, requestServerTtl: 0 },
  });
  // The replies stay open until web1 returns.
  let isDone = (): void => {};
  const done = new Promise<void>((resolve) => {
    isDone = resolve;
  });
  await startWeb(t, master, { 'test.ping': () => done.then(() => true) });
  const events = await master.master.events.subscribe({ match: 'salt/job/*/new' });
  const reader = events[Symbol.asyncIterator]();
  const load = { cmd: 'minion_publish', tgt: ['vecminion', 'web1'], tgt_type: 'list', tmo: 300 };
  const replies = [1, 2, 3].map(() => ask(master, load));
  for (const _job of replies) {
    const jid: WireValue = (await reader.next()).value?.data.jid ?? '';
    const result = { jid, return: 'r'.repeat(6_000_000), nonce: freshNonce() };
    await master.ask(altered(recorded('return', 'simple v3'), { load: result }));
  }
  isDone();
  const texts = (await Promise.all(replies)).map((reply) => String(Object(reply).vecminion));
  const fitting = texts.filter((text) => text.length === 6_000_000);
  t.is(fitting.length, 2);
  t.is(texts.filter((text) => text.includes('jobs.lookup_jid')).length, 1);
  t.is((await master.counters())['peer-reply-bytes'], 1);
});

test('jobs of one minion are judged one at a time, and a limited number waits', async (t) => {
  const master = await start(t, { peer: everybody });
  await publish(master);
  const tgt = ['E@x{1000}', 'E@y{1000}', 'web1'].join(' or ');
  const jobs = await published(master, async () => {
    await Promise.all(
      Array.from({ length: 60 }, () => publish(master, { tgt, tgt_type: 'compound' })),
    );
  });
  const { 'peer-busy': refused = 0 } = await master.counters();
  t.true(refused > 0, `${refused} jobs were refused`);
  t.is(jobs.length + refused, 60);
});
