/** The interface of users who have logged in, with a running master, its store and its bus. */

import test, { type ExecutionContext } from 'ava';
import { allow, deny } from '#acl';
import { type MasterOptions, resolveMasterConfig } from '#config';
import {
  type AuditRecord,
  AuthenticationError,
  AuthorizationError,
  createLogger,
  type MasterEvent,
  readAuditLog,
  type UserApi,
} from '#master';
import { Job } from '#master/jobs/job.ts';
import { returnRow } from '#master/jobs/job-return.ts';
import { jobRow } from '#master/jobs/job-row.ts';
import { workSlices } from '#runtime/work-budget.ts';
import { createMemoryStore, type Operation } from '#store';
import { otherKey } from '../../helpers/connected-minion.ts';
import {
  directories,
  type StoredKey,
  startVectorMaster,
  type VectorMaster,
  type VectorMasterOptions,
} from '../../helpers/vector-master.ts';
import { pem } from '../../helpers/vectors.ts';

const denied = { instanceOf: AuthorizationError, code: 'ERR_DENIED' } as const;
const noToken = { instanceOf: AuthenticationError, code: 'ERR_EAUTH_TOKEN' } as const;

const minions: readonly StoredKey[] = ['web1', 'web2', 'db1'].map((id) => ({
  directory: 'minions',
  id,
  publicPem: pem('minion').publicPem,
}));

interface Running extends VectorMaster {
  /** Logs in and returns the user's interface. */
  as(user: string): Promise<UserApi>;
  reload(config: Partial<MasterOptions>): Promise<unknown>;
}

async function start(
  t: ExecutionContext,
  rights: Record<string, unknown>,
  config: Partial<MasterOptions> = {},
  more: Pick<VectorMasterOptions, 'facts' | 'store'> = {},
): Promise<Running> {
  const base: Partial<MasterOptions> = {
    externalAuth: { sharedsecret: rights },
    ...config,
    eauth: { sharedsecret: 'secret', ...config.eauth },
  };
  const running = await startVectorMaster(t, { keys: minions, config: base, ...more });
  const { master, directory } = running;
  return {
    ...running,
    as: async (username) => {
      const credentials = { username, password: 'secret', eauth: 'sharedsecret' };
      return master.asUser((await master.logins.login(credentials)).token);
    },
    reload: (more) =>
      master.reload(resolveMasterConfig({ ...directories(directory), ...base, ...more })),
  };
}

/** Returns the publication of the job that `work` publishes. */
async function published(
  running: Running,
  work: () => Promise<unknown>,
): Promise<MasterEvent['data'] | undefined> {
  const events = await running.eventsDuring(work);
  return events.find(({ tag }) => /^salt\/job\/\d+\/publish$/.test(tag))?.data;
}

test('a user may publish only what external_auth grants', async (t) => {
  const running = await start(t, { fred: ['test.ping'] });
  const fred = await running.as('fred');
  const load = await published(running, () => fred.jobs.publish({ tgt: '*', fun: 'test.ping' }));
  t.is(load?.fun, 'test.ping');
  t.is(load?.user, 'fred');
  for (const fun of ['test.ping_x', 'testXping', 'test.echo', 'cmd.run', 'test.ping\n']) {
    const nothing = await published(running, async () => {
      await t.throwsAsync(fred.jobs.publish({ tgt: '*', fun }), denied);
    });
    t.is(nothing, undefined);
  }
  await t.throwsAsync(fred.runners.run({ fun: 'jobs.list_jobs' }), denied);
  await t.throwsAsync(fred.runners.start({ fun: 'jobs.list_jobs' }), denied);
  await t.throwsAsync(fred.wheel.run({ fun: 'key.list_all' }), denied);
  await t.throwsAsync(fred.wheel.start({ fun: 'key.list_all' }), denied);
});

test('the returns of a job count for the user who started it', async (t) => {
  const running = await start(t, { fred: ['test.ping'] });
  const job = { tgt: 'web1', fun: 'test.ping' };
  const ownerOf = async (jid: string): Promise<string | undefined> => {
    const entry = await running.store.get(['jobs', jid]);
    return entry && new Job(jobRow.decode(entry), { isKept: true }).limitOwner;
  };
  const fred = await running.as('fred');
  t.is(await ownerOf((await fred.jobs.publish(job)).jid), 'user sharedsecret/fred');
  t.is(await ownerOf((await running.master.jobs.publish(job)).jid), undefined);
});

test('the jobs of one user store a limited number of bytes, and those of another user fit', async (t) => {
  const rights = ['test.*', '@test'];
  const running = await start(t, { fred: rights, ann: rights });
  const [fred, ann] = [await running.as('fred'), await running.as('ann')];
  const job = { tgt: 'web1', fun: 'test.echo', arg: ['x'.repeat(50_000_000)] };
  for (let n = 0; n < 3; n += 1) await fred.jobs.publish(job);
  const small = { tgt: 'web1', fun: 'test.ping' };
  await t.throwsAsync(fred.jobs.publish(small), {
    code: 'ERR_LIMIT',
    message: /^jobs\.jobBytes: /,
  });
  t.is((await ann.jobs.publish(small)).minions.length, 1);
  t.is((await running.master.jobs.publish(small)).minions.length, 1);
  await t.throwsAsync(fred.runners.run({ fun: 'test.arg' }), { code: 'ERR_LIMIT' });
  t.true((await ann.runners.run({ fun: 'test.arg' })).success);
});

test('a keyword argument that a function does not accept meets no condition', async (t) => {
  const matching = { kwargs: { tgt: 'web.*' } };
  const running = await start(t, {
    fred: [{ '@runner': [{ 'manage.versions': matching }, { 'manage.up': matching }] }],
  });
  const fred = await running.as('fred');
  const kwarg = { tgt: 'web1' };
  const versions = { fun: 'manage.versions', kwarg, dropUnknown: true };
  await t.throwsAsync(fred.runners.run(versions), denied);
  const marked = { ...versions, arg: [{ ...kwarg, __kwarg__: true }], kwarg: {} };
  await t.throwsAsync(fred.runners.start(marked), denied);
  const up = { ...versions, fun: 'manage.up', kwarg: { ...kwarg, other: 1 } };
  t.true((await fred.runners.run({ ...up, timeoutSeconds: 1 })).success);
});

test('a call has at most 1,000 keyword arguments', async (t) => {
  const running = await start(t, { fred: ['test.*', '@test'] });
  const fred = await running.as('fred');
  const keywords = (count: number): Record<string, number> =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, n]));
  const tooMany = { code: 'ERR_ARGS', message: /at most 1000 keyword arguments/ };
  const job = { tgt: 'web1', fun: 'test.arg' };
  t.true((await fred.runners.run({ fun: 'test.arg', kwarg: keywords(1_000) })).success);
  const marked = { ...keywords(1_001), __kwarg__: true };
  await t.throwsAsync(fred.runners.run({ fun: 'test.arg', kwarg: keywords(1_001) }), tooMany);
  await t.throwsAsync(fred.runners.run({ fun: 'test.arg', arg: [marked] }), tooMany);
  await t.throwsAsync(fred.jobs.publish({ ...job, kwarg: keywords(1_001) }), tooMany);
  await t.throwsAsync(fred.jobs.publish({ ...job, arg: [marked] }), tooMany);
});

test('a call has at most 10,000 positional arguments, and a job at most 1,000 functions', async (t) => {
  const running = await start(t, { fred: ['test.*', '@test'] });
  const fred = await running.as('fred');
  const listOf = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);
  const tooMany = { code: 'ERR_ARGS', message: /at most 10000 positional arguments/ };
  const call = { fun: 'test.arg' };
  t.true((await fred.runners.run({ ...call, arg: listOf(10_000, 'a') })).success);
  t.true((await fred.runners.run({ ...call, arg: [listOf(10_001, 'a')] })).success);
  await t.throwsAsync(fred.runners.run({ ...call, arg: listOf(10_001, 'a') }), tooMany);
  const job = { tgt: 'web1', tgtType: 'glob' };
  await t.throwsAsync(fred.jobs.publish({ ...job, ...call, arg: listOf(10_001, 'a') }), tooMany);
  const two = { ...job, fun: ['test.arg', 'test.arg'] };
  await t.throwsAsync(fred.jobs.publish({ ...two, arg: listOf(2, listOf(5_001, 'a')) }), tooMany);
  // The rights are not judged for so many functions.
  const many = { ...job, fun: listOf(1_001, 'cmd.run'), arg: listOf(1_001, []) };
  await t.throwsAsync(fred.jobs.publish(many), { code: 'ERR_ARGS', message: /1 to 1000/ });
});

test('a user that external_auth does not name has no rights', async (t) => {
  const running = await start(t, { fred: ['.*', '@runner', '@wheel'] });
  const ann = await running.as('ann');
  await t.throwsAsync(ann.jobs.publish({ tgt: '*', fun: 'test.ping' }), denied);
  await t.throwsAsync(ann.runners.run({ fun: 'jobs.list_jobs' }), denied);
  await t.throwsAsync(ann.wheel.run({ fun: 'key.list_all' }), denied);
});

test('a request of a restricted user is sent by name to the authorised minions', async (t) => {
  const running = await start(t, { fred: [{ 'web*': ['test.ping'] }] });
  const { jobs } = await running.as('fred');
  const load = await published(running, () =>
    jobs.publish({ tgt: 'E@web[12]', tgtType: 'compound', fun: 'test.ping' }),
  );
  t.deepEqual(load?.tgt, ['web1', 'web2']);
  t.is(load?.tgt_type, 'list');
});

test('a target means only the minions that the rules name', async (t) => {
  const running = await start(t, { fred: [{ 'web*': ['test.ping'] }] });
  const { jobs } = await running.as('fred');
  const both = ['web1', 'web2'];
  type Asked = readonly [tgt: string | string[], tgtType: string];
  // A name outside of the rights and a name without a key are reported in the same way.
  const targets: [...Asked, minions: string[], missing: string[], isNarrowed: true | undefined][] =
    [
      ['*', 'glob', both, [], true],
      ['.*', 'pcre', both, [], true],
      [['web1', 'db1', 'gone'], 'list', ['web1'], ['db1', 'gone'], true],
      ['web2,db1', 'list', ['web2'], ['db1'], true],
      ['web* or db1', 'compound', both, [], true],
      ['web* or L@gone,db1', 'compound', both, ['gone', 'db1'], true],
      ['web1 or web2', 'compound', both, [], undefined],
      ['not web1', 'compound', ['web2'], [], true],
      // The rights cover every minion that these targets can match.
      ['web*', 'glob', both, [], undefined],
      ['web*', 'compound', both, [], undefined],
      ['web1', 'glob', ['web1'], [], undefined],
      [['web1', 'web2'], 'list', both, [], undefined],
    ];
  for (const [tgt, tgtType, ...expected] of targets) {
    const receipt = await jobs.publish({ tgt, tgtType, fun: 'test.ping' });
    const { minions, missing, isNarrowed, jid } = receipt;
    t.deepEqual([minions, missing, isNarrowed], expected, String(tgt));
    t.is((await running.master.jobs.show(jid)).isNarrowed, isNarrowed, String(tgt));
  }
});

test('whether rights narrow a target does not depend on other minions', async (t) => {
  const running = await start(t, { fred: [{ 'web*': ['test.ping'] }] });
  const { jobs } = await running.as('fred');
  for (const tgt of [
    'web* or db*',
    'web* or gone*',
    'web* or G@os:Debian',
    'web1 or db1',
    'web1 or gone',
  ]) {
    const receipt = await jobs.publish({ tgt, tgtType: 'compound', fun: 'test.ping' });
    t.is(receipt.isNarrowed, true, tgt);
  }
});

test('the event of a job reports that rights narrowed its target', async (t) => {
  const running = await start(t, { fred: [{ web1: ['test.ping'] }], ann: ['test.ping'] });
  const newJob = async (user: string): Promise<unknown> => {
    const { jobs } = await running.as(user);
    const events = await running.eventsDuring(() => jobs.publish({ tgt: '*', fun: 'test.ping' }));
    return events.find(({ tag }) => tag.endsWith('/new'))?.data;
  };
  t.like(await newJob('fred'), { minions: ['web1'], missing: [], narrowed: true });
  t.like(await newJob('ann'), { narrowed: undefined });
});

/** Returns the value or the error that a caller receives. */
async function answerTo(work: () => Promise<unknown>): Promise<unknown> {
  try {
    return await work();
  } catch (error) {
    const { name, message, code } = error as Error & { code?: string };
    return { name, message, code };
  }
}

test('no target reveals data or existence of minions that the user may not reach', async (t) => {
  const facts = {
    web1: { grains: { os: 'Debian' }, pillar: { key: 'front' } },
    db1: { grains: { os: 'Alpine', ip4: '10.0.0.1' }, pillar: { key: 'hunter2' } },
  };
  const running = await start(t, { fred: [{ 'web*': ['test.ping'] }] }, {}, { facts });
  const { jobs } = await running.as('fred');
  const ask = (tgt: string | string[], tgtType: string, fun = 'test.ping') =>
    answerTo(() => jobs.publish({ tgt, tgtType, fun }));
  const refusal = await ask('web1', 'glob', 'cmd.run');
  const targets: [tgt: string | string[], tgtType: string][] = [
    ['db1', 'glob'],
    ['nobody', 'glob'],
    [['db1'], 'list'],
    [[], 'list'],
    ['db.', 'pcre'],
    ['os:Alpine', 'grain'],
    ['os:NotThere', 'grain'],
    ['10.0.0.0/24', 'ipcidr'],
    ['key:h*', 'pillar'],
    ['key:x*', 'pillar'],
    ['key:hunter2', 'pillar_exact'],
    ['key:h.*', 'pillar_pcre'],
    ['I@key:h* or J@key:x', 'compound'],
    ['db1 and I@key:hunter2', 'compound'],
    ['* and not web*', 'compound'],
    ['broken and', 'compound'],
  ];
  for (const [tgt, tgtType] of targets) t.deepEqual(await ask(tgt, tgtType), refusal, String(tgt));
  for (const tgt of ['web1 or I@key:hunter2', 'web1 or ( db1 and I@key:x )', 'web1 or db1']) {
    const answer = (await ask(tgt, 'compound')) as { readonly minions: readonly string[] };
    t.deepEqual(answer.minions, ['web1'], tgt);
  }
});

test('a user cannot find out about nodegroups of minions beyond its reach', async (t) => {
  const nodegroups = { front: 'web1', back: 'db1', broken: 'E@(', odd: 'db1 and' };
  const running = await start(t, { fred: [{ 'web*': ['test.ping'] }] }, { nodegroups });
  const { jobs } = await running.as('fred');
  const ask = (tgt: string, tgtType: string, fun = 'test.ping') =>
    answerTo(() => jobs.publish({ tgt, tgtType, fun }));
  const refusal = await ask('web1', 'glob', 'cmd.run');
  for (const name of ['nosuch', 'back', 'broken', 'odd', '']) {
    t.deepEqual(await ask(name, 'nodegroup'), refusal, name);
    t.deepEqual(await ask(`web1 and N@${name}`, 'compound'), refusal, name);
    for (const tgt of [`web1 or N@${name}`, `web1 and not N@${name}`]) {
      const answer = (await ask(tgt, 'compound')) as { readonly minions: readonly string[] };
      t.deepEqual(answer.minions, ['web1'], tgt);
    }
  }
  const { minions } = await jobs.publish({ tgt: 'front', tgtType: 'nodegroup', fun: 'test.ping' });
  t.deepEqual(minions, ['web1']);
});

test('pillar is compared only by equality, and only if a rule shows it', async (t) => {
  const facts = { web1: { pillar: { key: 'front' } }, db1: { pillar: { key: 'front' } } };
  const rule = allow('fred', {
    subject: { user: 'fred' },
    action: 'publish',
    resource: { fun: 'test.*', within: 'web*', facts: 'pillar' },
  });
  const acl = { rules: [rule] };
  const running = await start(t, { fred: ['test.echo'] }, { acl }, { facts });
  const { jobs } = await running.as('fred');
  const ask = (tgt: string, fun = 'test.ping') => jobs.publish({ tgt, tgtType: 'compound', fun });
  t.deepEqual((await ask('I@key:front')).minions, ['web1']);
  for (const tgt of ['I@key:f*', 'J@key:f.*', 'I@key:back', 'db1']) {
    await t.throwsAsync(ask(tgt), denied, tgt);
  }
  // The rule of external_auth also names db1, and reveals no pillar.
  t.deepEqual((await ask('I@key:front', 'test.echo')).minions, ['web1']);
  t.deepEqual((await ask('*', 'test.echo')).minions, ['db1', 'web1', 'web2']);
});

test('rules permit together what each permits, and a rule that denies takes its own part away', async (t) => {
  const rights = { fred: [{ web1: ['test.*'] }, { db1: ['test.ping'] }, { web2: ['test.ping'] }] };
  const rule = deny('not web2', {
    subject: { user: 'fred' },
    action: 'publish',
    resource: { fun: 'test.*', within: 'web2' },
  });
  const acl = { rules: [rule] };
  const running = await start(t, rights, { acl });
  const { jobs } = await running.as('fred');
  t.deepEqual((await jobs.publish({ tgt: '*', fun: 'test.ping' })).minions, ['db1', 'web1']);
  const two = { fun: ['test.ping', 'test.echo'], arg: [[], ['x']] };
  t.deepEqual((await jobs.publish({ tgt: '*', ...two })).minions, ['web1']);
  await t.throwsAsync(jobs.publish({ tgt: 'web2', fun: 'test.ping' }), denied);
});

test('the cost of a target does not depend on minions that the user may not reach', async (t) => {
  let reads = 0;
  const store = new Proxy(createMemoryStore(), {
    get: (target, name) => {
      if (name === 'get' || name === 'list') reads += 1;
      const member: unknown = Reflect.get(target, name);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
  const facts = { web1: { pillar: { key: 'front' } }, db1: { pillar: { key: 'hunter2' } } };
  const running = await start(t, { fred: [{ web1: ['test.ping'] }] }, {}, { facts, store });
  const { jobs } = await running.as('fred');
  const costOf = async (tgt: string, fun = 'test.ping'): Promise<number> => {
    const before = reads;
    await t.throwsAsync(jobs.publish({ tgt, tgtType: 'compound', fun }), denied);
    return reads - before;
  };
  const cost = await costOf('web1', 'cmd.run');
  for (const tgt of ['I@key:hunter2', 'I@key:x', 'I@key:h*', 'db1', 'none', 'G@os:x', 'db*']) {
    t.is(await costOf(tgt), cost, tgt);
  }
});

test('run and batch are authorised before any job is published', async (t) => {
  const running = await start(t, { fred: [{ 'web*': ['test.ping'] }] });
  const { jobs } = await running.as('fred');
  const events = await running.eventsDuring(async () => {
    const request = { tgt: 'db*', fun: 'test.ping' };
    await t.throwsAsync(jobs.run(request)[Symbol.asyncIterator]().next(), denied);
    await t.throwsAsync(
      jobs
        .batch({ ...request, size: 1 })
        [Symbol.asyncIterator]()
        .next(),
      denied,
    );
    const subset = { ...request, subset: 1 };
    await t.throwsAsync(jobs.run(subset)[Symbol.asyncIterator]().next(), denied);
  });
  t.deepEqual(
    events.filter(({ tag }) => tag.startsWith('salt/job/')),
    [],
  );
});

test('each of several functions must be permitted', async (t) => {
  const running = await start(t, { fred: ['test.ping', 'test.version'] });
  const { jobs } = await running.as('fred');
  const both = { tgt: '*', arg: [[], []] };
  await t.notThrowsAsync(jobs.publish({ ...both, fun: ['test.ping', 'test.version'] }));
  await t.throwsAsync(jobs.publish({ ...both, fun: ['test.ping', 'cmd.run'] }), denied);
  await t.throwsAsync(jobs.publish({ tgt: '*', fun: 'test.ping,cmd.run' }), denied);
});

test('arguments are checked as the minion receives them', async (t) => {
  const rights = { fred: [{ 'web*': [{ 'service.restart': { kwargs: { name: 'nginx' } } }] }] };
  const running = await start(t, rights);
  const { jobs } = await running.as('fred');
  const request = { tgt: 'web1', fun: 'service.restart' };
  await t.notThrowsAsync(jobs.publish({ ...request, kwarg: { name: 'nginx' } }));
  const marked = { __kwarg__: true, name: 'nginx' };
  await t.notThrowsAsync(jobs.publish({ ...request, arg: [marked] }));
  await t.throwsAsync(jobs.publish({ ...request, kwarg: { name: 'sshd' } }), denied);
  await t.throwsAsync(jobs.publish({ ...request, arg: ['nginx'] }), denied);
  await t.throwsAsync(jobs.publish({ ...request, arg: [{ ...marked, name: 'x' }] }), denied);
  const twice = { ...request, arg: [marked], kwarg: { name: 'sshd' } };
  await t.throwsAsync(jobs.publish(twice), denied);
  const hidden = { ...request, kwarg: { name: 'nginx' }, arg: ['name=sshd'] };
  await t.throwsAsync(jobs.publish(hidden), { code: 'ERR_ARGS' });
  for (const odd of [
    { kwarg: { name: 'nginx', __kwarg__: false } },
    { kwarg: { name: 'nginx' }, arg: [{ __kwarg__: 1, name: 'sshd' }] },
    { arg: [marked, { ...marked, name: 'x' }] },
    { kwarg: { name: 'nginx', __pub_user: 'root' } },
  ]) {
    await t.throwsAsync(jobs.publish({ ...request, ...odd }), { code: 'ERR_ARGS' });
  }
});

test('a user with full rights keeps the target and fields of a request, and others do not', async (t) => {
  const running = await start(t, { root: ['.*'], fred: ['test.*'] });
  const request = {
    tgt: 'G@os:Debian or web*',
    tgtType: 'compound',
    fun: 'test.ping',
    ret: 'mysql',
    metadata: { a: 1 },
    startEvent: true,
    jid: '20300101000000000000',
    user: 'somebody else',
  };
  const root = await running.as('root');
  const open = await published(running, () => root.jobs.publish(request));
  t.is(open?.tgt, request.tgt);
  t.is(open?.ret, 'mysql');
  t.true(open?.start_event);
  t.is(open?.jid, request.jid);
  t.is(open?.user, 'root');
  const fred = await running.as('fred');
  const limited = await published(running, () => fred.jobs.publish(request));
  t.deepEqual(limited?.tgt, ['web1', 'web2']);
  t.is(limited?.ret, '');
  t.false('metadata' in (limited ?? {}));
  t.false('start_event' in (limited ?? {}));
  t.not(limited?.jid, request.jid);
  t.is(limited?.user, 'fred');
});

test.serial('many users that follow jobs take turns, and one user has one turn', async (t) => {
  const jid = '20200102030405000001';
  const ids = Array.from({ length: 100 }, (_, number) => `web${number}`);
  const job = jobRow.encode({
    ...{ jid, fun: 'test.echo', arg: [], tgt: '*', tgtType: 'glob', user: 'root' },
    ...{ minions: ids, missing: [], publishedAt: 0, selfMade: false },
  });
  const returns = ids.map((minion): Operation => {
    const result = { minion, fun: 'test.echo', return: 'x'.repeat(20_000), retcode: 0 };
    const value = returnRow.encode({ ...result, success: true, receivedAt: 0 });
    return { op: 'put', key: ['returns', jid, minion], value };
  });
  const store = createMemoryStore();
  await store.write([{ op: 'put', key: ['jobs', jid], value: job }, ...returns]);
  const all = ['.*', '@runner', '@wheel'];
  const running = await start(t, { alice: all, bob: all }, {}, { store });
  const [alice, bob] = [await running.as('alice'), await running.as('bob')];
  const follow = async ({ jobs }: UserApi): Promise<void> => {
    let count = 0;
    for await (const { type } of jobs.follow(jid)) count += type === 'return' ? 1 : 0;
    t.is(count, ids.length);
  };
  let slices = 0;
  const count = (): void => {
    slices += 1;
  };
  workSlices.subscribe(count);
  t.teardown(() => workSlices.unsubscribe(count));
  await follow(bob);
  const own = slices;
  const others = Array.from({ length: 20 }, () => follow(alice));
  slices = 0;
  await follow(bob);
  t.true(own >= 4 && slices <= others.length + 3 * own, `${slices} slices, ${own} alone`);
  await Promise.all(others);
});

test('a restricted user can choose and follow only its own job ids', async (t) => {
  const running = await start(t, {
    root: ['.*', '@runner', '@wheel'],
    fred: ['test.*'],
    jane: ['test.*'],
  });
  const [root, fred, jane] = [
    await running.as('root'),
    await running.as('fred'),
    await running.as('jane'),
  ];
  t.is((await root.describeMaster()).ownJobs, undefined);
  const [{ ownJobs }, ofJane] = [await fred.describeMaster(), await jane.describeMaster()];
  t.not(ownJobs, ofJane.ownJobs);
  const request = { tgt: 'web1', fun: 'test.ping' };
  const other = await jane.jobs.publish(request);
  const digits = other.jid.slice(0, 20);
  const jid = `${digits}_c0123456789${ownJobs}`;
  t.is((await fred.jobs.publish({ ...request, jid })).jid, jid);
  const first = async ({ jobs }: UserApi, of: string) => {
    for await (const update of jobs.follow(of)) return update;
    return undefined;
  };
  t.like(await first(fred, jid), { type: 'published', jid, minions: ['web1'] });
  t.like(await first(root, jid), { jid });
  // The error does not reveal whether another user's object exists.
  for (const hidden of [other.jid, `${digits}_c0123456789${ofJane.ownJobs}`, digits]) {
    await t.throwsAsync(first(fred, hidden), denied);
  }
  await t.throwsAsync(first(jane, jid), denied);
  t.not((await jane.jobs.publish({ ...request, jid })).jid, jid);
  const missing = `${digits}_c9876543210${ownJobs}`;
  await t.throwsAsync(first(fred, missing), { code: 'ERR_JOB_UNKNOWN' });
  await t.throwsAsync(fred.jobs.publish({ ...request, jid }), { code: 'ERR_ARGS' });
  const early = `20010101000000000000_c0123456789${ownJobs}`;
  await t.throwsAsync(fred.jobs.publish({ ...request, jid: early }), { code: 'ERR_ARGS' });
});

test('a user with a rule that denies is not unrestricted', async (t) => {
  const running = await start(
    t,
    { root: ['.*'] },
    { publisherAclBlacklist: { modules: ['cmd.*'] } },
  );
  const { jobs } = await running.as('root');
  await t.throwsAsync(jobs.publish({ tgt: '*', fun: 'cmd.run', arg: ['id'] }), denied);
  const load = await published(running, () => jobs.publish({ tgt: '*', fun: 'test.ping' }));
  t.deepEqual(load?.tgt, ['db1', 'web1', 'web2']);
});

test('runners and wheel functions have their own rights', async (t) => {
  const running = await start(t, { fred: ['@jobs', { '@wheel': ['key.list_all'] }] });
  const fred = await running.as('fred');
  const events = await running.eventsDuring(async () => {
    const { success } = await fred.runners.run({ fun: 'jobs.list_jobs', user: 'root' });
    t.true(success);
  });
  t.is(events.find(({ tag }) => tag.endsWith('/new'))?.data.user, 'fred');
  t.true((await fred.wheel.run({ fun: 'key.list_all' })).success);
  await t.throwsAsync(fred.wheel.run({ fun: 'key.delete', arg: ['*'] }), denied);
  await t.throwsAsync(fred.runners.run({ fun: 'manage.up' }), denied);
});

test('a limited user cannot send text that Salt would interpret', async (t) => {
  const slot = '__slot__:salt:cmd.run(id)';
  const rights = { fred: ['state.*', 'test.arg', '@runner'], root: ['.*', '@runner', '@wheel'] };
  const running = await start(t, rights);
  const [fred, root] = [await running.as('fred'), await running.as('root')];
  const job = { tgt: 'web1', fun: 'state.apply', arg: ['site'] };
  const refused = { code: 'ERR_ARGS', message: /^pillar\.a\.0 must not contain __slot__:/ };
  const pillar = { a: [slot] };
  await t.throwsAsync(fred.jobs.publish({ ...job, kwarg: { pillar } }), refused);
  const marked = { ...job, arg: ['site', { __kwarg__: true, pillar }] };
  await t.throwsAsync(fred.jobs.publish(marked), refused);
  const two = { ...job, fun: ['test.arg', 'state.apply'], arg: [[], marked.arg] };
  await t.throwsAsync(fred.jobs.publish(two), refused);
  const single = { ...job, fun: 'state.single', arg: ['test.nop'], kwarg: { name: slot } };
  await t.throwsAsync(fred.jobs.publish(single), {
    code: 'ERR_ARGS',
    message: /^kwarg\.name must not begin with __slot__:/,
  });
  const orchestrate = { fun: 'state.orchestrate', arg: ['site'], kwarg: { pillar } };
  await t.throwsAsync(fred.runners.run(orchestrate), refused);
  const echo = { ...job, fun: 'test.arg', arg: [slot] };
  t.truthy(await published(running, () => fred.jobs.publish(echo)));
  t.truthy(await published(running, () => root.jobs.publish({ ...job, kwarg: { pillar } })));
});

test('each call checks the token', async (t) => {
  const running = await start(t, { fred: ['test.*'] });
  const { token } = await running.master.logins.login({
    username: 'fred',
    password: 'secret',
    eauth: 'sharedsecret',
  });
  const { jobs } = running.master.asUser(token);
  await jobs.publish({ tgt: '*', fun: 'test.ping' });
  t.is((await running.master.logins.identify(token)).user, 'fred');
  await running.master.logins.logout(token);
  await t.throwsAsync(jobs.publish({ tgt: '*', fun: 'test.ping' }), noToken);
  await t.throwsAsync(
    running.master.asUser('').jobs.publish({ tgt: '*', fun: 'test.ping' }),
    noToken,
  );
});

test('following a job ends with the token', async (t) => {
  const running = await start(t, { fred: ['test.*'] });
  const credentials = { username: 'fred', password: 'secret', eauth: 'sharedsecret' };
  const { token } = await running.master.logins.login(credentials);
  const updates = running.master.asUser(token).jobs.run({ tgt: '*', fun: 'test.ping' });
  const reading = (async () => {
    const types: string[] = [];
    for await (const update of updates) {
      types.push(update.type);
      if (update.type === 'published') await running.master.logins.logout(token);
    }
    return types;
  })();
  await t.throwsAsync(reading, noToken);
});

test('the holder of a token can read its user and expiry', async (t) => {
  const { logins } = (await start(t, { fred: ['test.*'] })).master;
  const credentials = { username: 'fred', password: 'secret', eauth: 'sharedsecret' };
  const following = logins.follow((await logins.login(credentials)).token)[Symbol.asyncIterator]();
  t.is((await following.next()).value.user, 'fred');
  const end = following.next();
  t.is((await logins.revoke({ user: 'fred' })).length, 1);
  t.true((await end).done);
});

test('a reload changes rights and back ends at once', async (t) => {
  const running = await start(t, { fred: ['test.*'] });
  const { jobs } = await running.as('fred');
  const ping = { tgt: '*', fun: 'test.ping' };
  await t.notThrowsAsync(jobs.publish(ping));
  await running.reload({ externalAuth: { sharedsecret: { fred: ['test.echo'] } } });
  await t.throwsAsync(jobs.publish(ping), denied);
  await running.reload({ externalAuth: {} });
  await t.throwsAsync(jobs.publish(ping), noToken);
  await t.throwsAsync(running.as('fred'), { code: 'ERR_EAUTH' });
});

test('with keep_acl_in_token a token keeps its granted rights, but not forbidden ones', async (t) => {
  const running = await start(t, { fred: ['test.*'] }, { eauth: { keepAclInToken: true } });
  const { jobs } = await running.as('fred');
  const ping = { tgt: '*', fun: 'test.ping' };
  await running.reload({
    externalAuth: { sharedsecret: { fred: ['cmd.*'] } },
    eauth: { keepAclInToken: true, sharedsecret: 'secret' },
  });
  await t.notThrowsAsync(jobs.publish(ping));
  await t.throwsAsync(jobs.publish({ tgt: '*', fun: 'cmd.run' }), denied);
  await running.reload({
    publisherAclBlacklist: { modules: ['test.ping'] },
    eauth: { keepAclInToken: true, sharedsecret: 'secret' },
  });
  await t.throwsAsync(jobs.publish(ping), denied);
});

test("perms are the entries of the user, of its groups and of *, in Salt's form", async (t) => {
  const { master } = await start(t, {
    fred: ['test.*', '@jobs', { 'web*': ['pkg.*'] }],
    'f.*': ['grains.items', 'test.*'],
    'admins%': ['.*'],
    '*': ['test.ping'],
  });
  const login = (username: string) =>
    master.logins.login({ username, password: 'secret', eauth: 'sharedsecret' });
  t.deepEqual((await login('fred')).perms, [
    '@jobs',
    'grains.items',
    'test.*',
    { 'web*': ['pkg.*'] },
  ]);
  t.deepEqual((await login('ann')).perms, ['test.ping']);
});

test('a user of sudo is bound by publisher_acl if sudo_acl is set', async (t) => {
  const publisherAcl = { fred: ['test.*'] };
  const jobsOf = async (sudoAcl: boolean, acl = publisherAcl) =>
    (await start(t, {}, { publisherAcl: acl, eauth: { sudoAcl } })).master.jobs;
  const request = { tgt: '*', fun: 'cmd.run', user: 'sudo_fred' };
  const held = await jobsOf(true);
  await t.throwsAsync(held.publish(request), denied);
  await t.throwsAsync(held.run(request)[Symbol.asyncIterator]().next(), denied);
  await t.notThrowsAsync(held.publish({ ...request, fun: 'test.ping' }));
  await t.throwsAsync(held.publish({ ...request, fun: 'test.ping', user: 'sudo_ann' }), denied);
  await t.notThrowsAsync(held.publish({ ...request, user: 'root' }));
  await t.notThrowsAsync((await jobsOf(false)).publish(request));
  await t.notThrowsAsync((await jobsOf(true, {} as typeof publisherAcl)).publish(request));
});

test('passwords and tokens do not appear in the log', async (t) => {
  let text = '';
  const destination = {
    write: (line: string) => {
      text += line;
    },
  };
  const { master } = await startVectorMaster(t, {
    keys: minions,
    logger: createLogger('trace', destination),
    config: {
      externalAuth: { sharedsecret: { fred: ['test.*'] } },
      eauth: { sharedsecret: 'planted-secret' },
    },
  });
  const credentials = { username: 'fred', password: 'planted-secret', eauth: 'sharedsecret' };
  const { token } = await master.logins.login(credentials);
  await master.asUser(token).jobs.publish({ tgt: '*', fun: 'test.ping' });
  await t.throwsAsync(master.logins.login({ ...credentials, password: 'planted-wrong' }));
  t.regex(text, /"logged in"/);
  t.regex(text, /"log-in failed"/);
  t.notRegex(text, new RegExp(`planted|${token}`));
});

test('the audit log names the user of each log-in, its actions with their rules, and refusals', async (t) => {
  const running = await start(t, { fred: ['test.ping'] });
  const { master, directory } = running;
  const fred = await running.as('fred');
  await fred.jobs.publish({ tgt: 'web1', fun: 'test.ping' });
  await t.throwsAsync(fred.runners.run({ fun: 'jobs.list_jobs' }), denied);
  const wrong = {
    username: 'fred',
    password: 'passw0rd',
    eauth: 'sharedsecret',
    source: '192.0.2.1',
  };
  await t.throwsAsync(master.logins.login(wrong));
  await master.logins.revoke({ user: 'fred' });
  await master.audit.flush();
  const records: AuditRecord[] = [];
  for await (const record of readAuditLog(directories(directory))) records.push(record);
  const ofUsers = records.filter(({ who }) => who.kind === 'user');
  t.deepEqual(
    ofUsers.map(({ who, action, outcome }) => `${who.eauth}:${who.name} ${action} ${outcome}`),
    [
      'sharedsecret:fred login done',
      'sharedsecret:fred job.publish done',
      'sharedsecret:fred runner denied',
      'sharedsecret: login denied',
      'sharedsecret:fred token.end done',
    ],
  );
  const [, job, , failed] = ofUsers;
  t.deepEqual(job?.on, ['web1']);
  t.true((job?.rule ?? '').length > 0);
  t.is(failed?.what, '192.0.2.1');
  t.false(JSON.stringify(records).includes('passw0rd'));
});

// Events of users: which they may read, and which they may fire.

interface UserEventsMaster extends VectorMaster {
  as(user: string): Promise<UserApi>;
}

async function startUserEvents(t: ExecutionContext): Promise<UserEventsMaster> {
  const running = await startVectorMaster(t, {
    keys: [otherKey('web1')],
    config: {
      eauth: { sharedsecret: 'secret' },
      externalAuth: {
        sharedsecret: {
          admin: ['.*'],
          fred: ['test.*', { '@runner': ['event.send'] }],
          ann: ['test.*'],
        },
      },
    },
  });
  return {
    ...running,
    as: async (username) => {
      const credentials = { username, password: 'secret', eauth: 'sharedsecret' };
      return running.master.asUser((await running.master.logins.login(credentials)).token);
    },
  };
}

const ping = { tgt: 'web1', fun: 'test.ping' };

test('a user who may publish everything reads all jobs, and others only their own', async (t) => {
  const { master, as } = await startUserEvents(t);
  const [admin, fred, ann] = [await as('admin'), await as('fred'), await as('ann')];
  const end = new AbortController();
  const readers = await Promise.all(
    [admin, fred, ann].map((user) => user.events.subscribe({}, end.signal)),
  );
  const { jid } = await ann.jobs.publish(ping);
  await master.events.fire('secret/thing', {});
  // Events are read in order. The last event of each reader is about its own job.
  const lasts = [(await admin.jobs.publish(ping)).jid];
  lasts.push((await fred.jobs.publish(ping)).jid, (await ann.jobs.publish(ping)).jid);
  const read = await Promise.all(
    readers.map(async (events, index) => {
      const tags: string[] = [];
      for await (const { tag } of events) {
        tags.push(tag);
        if (tag === `salt/job/${lasts[index]}/publish`) break;
      }
      return tags;
    }),
  );
  t.true(read[0]?.includes('secret/thing'));
  t.true(read[0]?.includes(`salt/job/${jid}/new`));
  t.deepEqual(read[1], [`salt/job/${lasts[1]}/new`, `salt/job/${lasts[1]}/publish`]);
  t.deepEqual(
    read[2],
    [jid, lasts[2]].flatMap((own) => [`salt/job/${own}/new`, `salt/job/${own}/publish`]),
  );
  end.abort();
});

test('a user who may run event.send may fire events', async (t) => {
  const { as, eventsDuring } = await startUserEvents(t);
  const [fred, ann] = [await as('fred'), await as('ann')];
  const events = await eventsDuring(async () => {
    await fred.events.fire('my/tag', { a: 1 });
    await t.throwsAsync(ann.events.fire('my/tag', {}), { instanceOf: AuthorizationError });
  });
  t.deepEqual(
    events.map(({ tag, data }) => [tag, data.a]),
    [['my/tag', 1]],
  );
});

test('an event stream ends with the token', async (t) => {
  const { master, as } = await startUserEvents(t);
  const admin = await as('admin');
  const events = await admin.events.subscribe();
  await master.logins.revoke({ user: 'admin' });
  await master.events.fire('after', {});
  for await (const { tag } of events) t.fail(tag);
  await t.throwsAsync(admin.events.subscribe(), { instanceOf: AuthenticationError });
});
