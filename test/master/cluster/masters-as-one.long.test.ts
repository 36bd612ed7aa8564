/** Masters of a cluster serve the same minions, with a log in memory. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import type { TransactionLog } from '#cluster';
import { joinCluster } from '#cluster';
import { encodeFrame, frameKinds, parseTicket } from '#cluster/join-frames.ts';
import { type JobReturn, type MasterEvent, readAuditLog, version } from '#master';
import { createJidSource, type Minion } from '#minion-protocol';
import { StoreError } from '#store';
import { type ClusterMaster, ClusterMasters } from '../../helpers/cluster-masters.ts';
import { until, within } from '../../helpers/deadline.ts';
import { eventually } from '../../interop/eventually.ts';

const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-cluster-'));
const masters = new ClusterMasters(directory, {
  keysize: 2048,
  externalAuth: { sharedsecret: { ann: ['.*', '@runner'] } },
  eauth: { sharedsecret: 'of-the-test' },
});
let a: ClusterMaster;
let b: ClusterMaster;

test.before(async () => {
  a = await masters.first('a');
  b = await masters.join('b', a);
});

test.after.always(async () => {
  await b?.master.close();
  await a?.master.close();
  rmSync(directory, { recursive: true, force: true });
});

/** Connects a minion whose key is or becomes accepted. */
async function join(t: ExecutionContext, to: ClusterMaster, id: string): Promise<Minion> {
  let isConnected = false;
  const asked = to.connect(t, id).finally(() => {
    isConnected = true;
  });
  while (!isConnected) {
    await to.master.keys.accept({ match: id });
    await new Promise((resolve) => setImmediate(resolve));
  }
  return asked;
}

function pkiFile({ config }: ClusterMaster, ...name: string[]): string {
  return path.join(config.pkiDir, ...name);
}

test.serial('all members have the keys of the first one', (t) => {
  for (const name of ['master.pem', 'master.pub']) {
    t.is(readFileSync(pkiFile(b, name), 'utf8'), readFileSync(pkiFile(a, name), 'utf8'));
  }
});

test.serial('each member reports the cluster and its members', async (t) => {
  for (const { master, config } of [a, b]) {
    const status = await master.cluster.status();
    t.is(status?.name, 'test');
    t.is(status?.member, config.cluster?.member);
    t.deepEqual(status?.members.map(({ name }) => name).sort(), ['a', 'b']);
    t.false(status?.refusesWrites);
    t.deepEqual((await master.status()).cluster?.member, config.cluster?.member);
  }
});

test.serial(
  'each member reports the policies of the others, and warns if one differs',
  async (t) => {
    const versionsAtA = async () => {
      const { members = [], warnings = [] } = (await a.master.cluster.status()) ?? {};
      const policies = members.map(({ versions }) => versions?.policy ?? '');
      const programs = members.filter(({ versions }) => versions?.program === version);
      return { policies, programs, warning: warnings.find((it) => it.includes('of the policy')) };
    };
    const become = async (isSame: boolean): Promise<string | undefined> => {
      for (;;) {
        const { policies, programs, warning } = await versionsAtA();
        const isThere = programs.length === 2 && !policies.includes('');
        if (isThere && (new Set(policies).size === 1) === isSame) return warning;
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    };
    t.is(await within('one policy', become(true)), undefined);
    const rule = allow('more', {
      subject: { minion: '*' },
      action: 'signal',
      resource: { tag: 'x' },
    });
    const none = { signals: [], mode: 'enforce', learnActions: [], recordData: false } as const;
    await b.master.reload(masters.configOf('b', { acl: { ...none, rules: [rule] } }));
    t.regex(
      (await within('two policies', become(false))) ?? '',
      /policy: a [0-9a-f]{12}, b [0-9a-f]{12}/,
    );
    await b.master.reload(b.config);
    t.is(await within('one policy again', become(true)), undefined);
  },
);

test.serial('a ticket can be used once', async (t) => {
  const { ticket } = await a.master.cluster.ticket();
  const config = masters.configOf('once');
  await joinCluster(config, ticket, { connect: masters.connect });
  const error = await t.throwsAsync(
    joinCluster(masters.configOf('twice'), ticket, { connect: masters.connect }),
    { instanceOf: StoreError, code: 'ERR_CLUSTER_TICKET' },
  );
  t.regex(error.message, /was already used by member once/);
  t.false(existsSync(path.join(masters.configOf('twice').stateDir, 'cluster.secret')));
  t.false(existsSync(path.join(masters.configOf('twice').stateDir, 'store')));
});

test.serial('a forged reply of a member does not end a join', async (t) => {
  const { ticket } = await a.master.cluster.ticket();
  const forged = encodeFrame(frameKinds.reply, parseTicket(ticket).id, Buffer.alloc(100, 1));
  const connect = async (): Promise<TransactionLog> => {
    const log = await masters.connect();
    const hear = log.onAnnouncement.bind(log);
    log.onAnnouncement = (listener, signal) => {
      hear(listener, signal);
      listener(forged);
    };
    return log;
  };
  await t.notThrowsAsync(joinCluster(masters.configOf('pestered'), ticket, { connect }));
});

test.serial('a forged frame that a ticket is unknown does not end a join', async (t) => {
  const { ticket } = await a.master.cluster.ticket();
  const forged = encodeFrame(frameKinds.unknown, parseTicket(ticket).id);
  const connect = async (): Promise<TransactionLog> => {
    const log = await masters.connect();
    const hear = log.onAnnouncement.bind(log);
    log.onAnnouncement = (listener, signal) => {
      // The reply of the member takes longer, as with a large store.
      hear((bytes) => setTimeout(() => listener(bytes), 2500), signal);
      listener(forged);
    };
    return log;
  };
  await t.notThrowsAsync(joinCluster(masters.configOf('delayed'), ticket, { connect }));
});

test.serial(
  'a replayed request for a chunk does not keep the backup for a new member',
  async (t) => {
    const { ticket } = await a.master.cluster.ticket();
    const idleMs = 120_000;
    const ends: (() => void)[] = [];
    const { setTimeout: original } = globalThis;
    const recorded: Uint8Array[] = [];
    const noteTimers = (end: () => void, ms?: number): NodeJS.Timeout => {
      if (ms === idleMs) ends.push(end);
      return original(end, ms);
    };
    globalThis.setTimeout = Object.assign(noteTimers, original);
    t.teardown(() => {
      globalThis.setTimeout = original;
    });
    const connect = async (): Promise<TransactionLog> => {
      const log = await masters.connect();
      const announce = log.announce.bind(log);
      log.announce = (bytes) => {
        recorded.push(bytes);
        announce(bytes);
      };
      return log;
    };
    await joinCluster(masters.configOf('replayed'), ticket, { connect });
    const backups = (): string[] =>
      readdirSync(a.config.stateDir).filter((name) => /^(joining|handover)-/.test(name));
    const timers = ends.length;
    const chunks = recorded.filter((bytes) => bytes[0] === frameKinds.request).length - 1;
    t.is(timers, 1 + chunks);
    const before = backups().length;
    let replies = 0;
    const end = new AbortController();
    masters.log.listen((bytes) => {
      if (bytes[0] === frameKinds.reply) replies += 1;
    }, end.signal);
    // The member sends a chunk again only after a pause.
    const { now: originalNow } = performance;
    performance.now = () => originalNow.call(performance) + 1_000;
    t.teardown(() => {
      performance.now = originalNow;
    });
    for (const bytes of recorded) masters.log.announce(bytes);
    await until('the backup and its last chunk', () => replies > 1);
    end.abort();
    performance.now = originalNow;
    t.is(ends.length, timers, 'a replay starts no timer');
    ends.at(-1)?.();
    await until('the end of the backup', () => backups().length < before);
  },
);

const refusals = [
  {
    title: 'of another cluster',
    make: async () => (await a.master.cluster.ticket()).ticket,
    cluster: 'other',
    expected: /for cluster test, but saltbridge: cluster: name is other/,
  },
  {
    title: 'that is too old',
    make: async () => {
      const { ticket, expiresAt } = await a.master.cluster.ticket({ seconds: 1 });
      while (Date.now() <= expiresAt) await new Promise((resolve) => setTimeout(resolve, 50));
      return ticket;
    },
    cluster: 'test',
    expected: /the ticket expired at/,
  },
  {
    title: 'that no member made',
    make: async () => {
      const [head = '', body = ''] = (await a.master.cluster.ticket()).ticket.split('.');
      const fields = JSON.parse(Buffer.from(body, 'base64url').toString());
      fields[1] = 'ab'.repeat(16);
      return `${head}.${Buffer.from(JSON.stringify(fields)).toString('base64url')}`;
    },
    cluster: 'test',
    expected: /no member of the cluster accepted the ticket, and at least one member does not know/,
  },
  {
    title: 'that is none',
    make: async () => 'saltbridge',
    cluster: 'test',
    expected: /not a cluster ticket/,
  },
] as const;

for (const { title, make, cluster: name, expected } of refusals) {
  test.serial(`a ticket ${title} is refused, and nothing is changed`, async (t) => {
    const config = masters.configOf('refused', {
      cluster: { name, nats: ['nats://127.0.0.1:1'], member: 'refused' },
    });
    const joining = joinCluster(config, await make(), { connect: masters.connect });
    const error = await t.throwsAsync(joining, { code: 'ERR_CLUSTER_TICKET' });
    t.regex(error.message, expected);
    t.false(existsSync(path.join(config.stateDir, 'cluster.secret')));
  });
}

test.serial('a member that is alive cannot be removed', async (t) => {
  await t.throwsAsync(a.master.cluster.remove({ member: 'b' }), { code: 'ERR_ARGS' });
  await t.throwsAsync(a.master.cluster.remove({ member: 'nobody' }), { code: 'ERR_ARGS' });
});

test.serial(
  'a minion that one member accepts is served by the other, in the same session',
  async (t) => {
    const asked = a.connect(t, 'web1');
    const pending = async (): Promise<number> =>
      (await b.master.keys.list({ state: 'pending' })).length;
    while ((await pending()) === 0) await new Promise((resolve) => setImmediate(resolve));
    // Both members have the pending key, and the other one accepts it.
    t.deepEqual(
      (await b.master.keys.accept({ match: 'web1' })).map(({ id, to }) => ({ id, to })),
      [{ id: 'web1', to: 'accepted' }],
    );
    await within('web1 to be served by a', asked);
    await within('web1 to be served by b', b.connect(t, 'web1'));
    t.deepEqual(readdirSync(pkiFile(a, 'minions')), ['web1']);
    t.deepEqual(readdirSync(pkiFile(b, 'minions')), ['web1']);
  },
);

test.serial(
  'a job requested at one member reaches the minions of both once, and returns are streamed',
  async (t) => {
    const calls: string[] = [];
    const functions = (at: string) => ({
      'test.where': async () => {
        calls.push(at);
        return at;
      },
    });
    await a.connect(t, 'web1', functions('web1'));
    const other = b.connect(t, 'web2', functions('web2'));
    while ((await a.master.keys.list({ state: 'pending' })).length === 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    await a.master.keys.accept({ match: 'web2' });
    await within('web2 to be served by b', other);
    const end = new AbortController();
    const seen: MasterEvent[] = [];
    const events = await b.master.events.subscribe({ match: 'salt/job/*/ret/*' }, end.signal);
    const reading = (async () => {
      for await (const event of events) seen.push(event);
    })();
    const returned = new Map<string, unknown>();
    let jid = '';
    for await (const update of a.master.jobs.run({ tgt: '*', fun: 'test.where' })) {
      if (update.type === 'published') jid = update.jid;
      if (update.type === 'return') returned.set(update.minion, update.return);
    }
    t.deepEqual([...returned].sort(), [
      ['web1', 'web1'],
      ['web2', 'web2'],
    ]);
    t.deepEqual(calls.sort(), ['web1', 'web2']);
    for (const { master } of [a, b]) {
      const returns = async (): Promise<readonly JobReturn[]> =>
        (await master.jobs.show(jid)).returns;
      while ((await returns()).length < 2) await new Promise((resolve) => setImmediate(resolve));
      t.deepEqual((await returns()).map(({ minion }) => minion).sort(), ['web1', 'web2']);
    }
    await until('the events of both at b', () => seen.length >= 2);
    t.deepEqual(seen.map(({ data }) => data.id).sort(), ['web1', 'web2']);
    end.abort();
    await reading;
  },
);

test.serial(
  'a return that arrives before the acknowledgement of its job is reported',
  async (t) => {
    const minion = await join(t, b, 'web7');
    const ask = { tgt: 'web7', fun: 'test.ping' };
    // The first job of a process needs these requests in addition.
    for await (const _ of a.master.jobs.run(ask));
    t.teardown(() => {
      masters.log.isQuiet = false;
    });
    // No other member confirms what it has applied.
    masters.log.isQuiet = true;
    const jid = '20260301100000000007';
    const updates = a.master.jobs.run({ ...ask, jid });
    const first = updates[Symbol.asyncIterator]().next();
    const returns = async (): Promise<readonly JobReturn[]> =>
      (await a.master.jobs.show(jid).catch(() => ({ returns: [] }))).returns;
    while ((await returns()).length === 0) await new Promise((resolve) => setImmediate(resolve));
    masters.log.isQuiet = false;
    const types = [(await first).value?.type];
    for await (const { type } of updates) types.push(type);
    t.deepEqual(types, ['published', 'return', 'finished']);
    await minion.stop();
  },
);

test.serial(
  'two members publish jobs with the same jid at once, and one job is published',
  async (t) => {
    await a.master.keys.create({ id: 'web9', force: true });
    const request = { tgt: 'web9', fun: 'test.ping', jid: '20260301100000000001' };
    const asked = await Promise.allSettled(
      [a, b].map(({ master }) => master.jobs.publish(request)),
    );
    const refused = asked.flatMap((it) => (it.status === 'rejected' ? [it.reason] : []));
    t.deepEqual(
      refused.map(({ code }) => code),
      ['ERR_ARGS'],
    );
  },
);

test.serial('a repeated request at another member has no second effect', async (t) => {
  const end = new AbortController();
  const seen: MasterEvent[] = [];
  const events = await b.master.events.subscribe({ match: ['salt/minion/*', 'end'] }, end.signal);
  const reading = (async () => {
    for await (const event of events) seen.push(event);
  })();
  await (await join(t, a, 'web1')).stop();
  await until('its start to be told at b', () => seen.length > 0);
  seen.length = 0;
  a.sent.length = 0;
  await (await a.connect(t, 'web1')).stop();
  // The second member has not yet applied which requests a has answered.
  for (const tag of ['salt/minion/after', 'salt/minion/later']) {
    await a.master.events.fire(tag, {});
    await until('b to tell what a fired', () => seen.some((it) => it.tag === tag));
  }
  const count = seen.length;
  t.deepEqual(
    seen.map(({ tag }) => tag),
    ['salt/minion/web1/start', 'salt/minion/after', 'salt/minion/later'],
  );
  for (const request of a.sent) await b.ask(request).catch(() => {});
  await b.master.events.fire('end', {});
  await until('b to tell what came behind', () => seen.some(({ tag }) => tag === 'end'));
  t.is(seen.length, count + 1);
  end.abort();
  await reading;
});

test.serial(
  'a log-in is valid at both members, and a revoked token is invalid at the other',
  async (t) => {
    const { token } = await a.master.logins.login({
      username: 'ann',
      password: 'of-the-test',
      eauth: 'sharedsecret',
    });
    t.is((await b.master.logins.identify(token)).user, 'ann');
    await a.master.logins.revoke({ user: 'ann' });
    await t.throwsAsync(b.master.logins.identify(token), { code: 'ERR_EAUTH_TOKEN' });
  },
);

test.serial(
  'a key moved by a Salt tool in one PKI directory is moved at both members',
  async (t) => {
    renameSync(pkiFile(b, 'minions', 'web2'), pkiFile(b, 'minions_rejected', 'web2'));
    const rejected = async (): Promise<string[]> =>
      (await a.master.keys.list({ state: 'rejected' })).map(({ id }) => id);
    while ((await rejected()).length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    t.deepEqual(await rejected(), ['web2']);
    await until('the directory of a', () => existsSync(pkiFile(a, 'minions_rejected', 'web2')));
    await until('its former place to be free', () => !existsSync(pkiFile(a, 'minions', 'web2')));
  },
);

test.serial(
  'a key that one member deletes is removed at the other, with its connection',
  async (t) => {
    await (await join(t, b, 'web1')).stop();
    const before = b.disconnected.length;
    await a.master.keys.delete({ match: 'web1' });
    await until('b to end its connections', () => b.disconnected.slice(before).includes('web1'));
    const ids = (await b.master.keys.list({ state: 'accepted' })).map(({ id }) => id);
    t.false(ids.includes('web1'));
    await until('the directory of b', () => !existsSync(pkiFile(b, 'minions', 'web1')));
  },
);

test.serial(
  'after a long disconnection, a master refuses minions and tokens until it has caught up',
  async (t) => {
    const short = masters.configOf('b', {
      cluster: { name: 'test', nats: ['nats://127.0.0.1:1'], member: 'b', staleAfterSeconds: 1 },
    });
    await b.master.close();
    b = await masters.start(short);
    const { token } = await b.master.logins.login({
      username: 'ann',
      password: 'of-the-test',
      eauth: 'sharedsecret',
    });
    await (await join(t, a, 'web1')).stop();
    const [request] = a.sent;
    if (request === undefined) return t.fail();
    await b.ask(request);
    await a.master.close();
    // For some time, the member continues with its last known state.
    t.is((await b.master.logins.identify(token)).user, 'ann');
    const isStale = async (): Promise<boolean> =>
      (await b.master.cluster.status())?.isStale === true;
    while (!(await isStale())) await new Promise((resolve) => setTimeout(resolve, 50));
    await t.throwsAsync(b.ask(request));
    await t.throwsAsync(b.master.logins.identify(token), { code: 'ERR_EAUTH_TOKEN' });
    a = await masters.start(a.config);
    while (await isStale()) await new Promise((resolve) => setTimeout(resolve, 50));
    await b.ask(request);
    t.is((await b.master.logins.identify(token)).user, 'ann');
  },
);

test.serial('a master that receives no entries of the log becomes stale', async (t) => {
  const { log } = masters;
  await b.master.close();
  const cluster = { name: 'test', nats: ['nats://127.0.0.1:1'], member: 'b', staleAfterSeconds: 1 };
  b = await masters.start(masters.configOf('b', { cluster }));
  const login = { username: 'ann', password: 'of-the-test', eauth: 'sharedsecret' };
  const { token } = await b.master.logins.login(login);
  const isStale = async (): Promise<boolean> => (await b.master.cluster.status())?.isStale === true;
  masters.withoutConsumer.add('b');
  t.teardown(() => masters.withoutConsumer.clear());
  const { position } = (await a.master.cluster.status()) ?? {};
  a.master.keys.create({ id: 'web9' }).catch(() => {});
  await until('an entry', () => log.last > (position ?? 0));
  while (!(await isStale())) await new Promise((resolve) => setTimeout(resolve, 50));
  // No other field shows that it lacks entries.
  t.like(await b.master.cluster.status(), { refusesWrites: false, isAlone: false, failingMs: 0 });
  await t.throwsAsync(b.master.logins.identify(token), { code: 'ERR_EAUTH_TOKEN' });
  await t.throwsAsync(b.ask(Buffer.from('any request')));
  masters.withoutConsumer.clear();
  while (await isStale()) await new Promise((resolve) => setTimeout(resolve, 50));
  t.is((await b.master.logins.identify(token)).user, 'ann');
});

test.serial('an unconfirmed job that may have been published is audited', async (t) => {
  const minion = await join(t, a, 'web1');
  t.teardown(() => {
    masters.log.isQuiet = false;
  });
  masters.log.isQuiet = true;
  const jid = `${BigInt(createJidSource()()) + 1_000_000n}`;
  const published = a.master.jobs.publish({ tgt: 'web1', fun: 'test.ping', jid });
  await t.throwsAsync(within('the end', published), { code: 'ERR_CLUSTER_OUTCOME' });
  masters.log.isQuiet = false;
  for (const { master } of [a, b]) {
    while ((await master.cluster.status())?.refusesWrites === true) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
  await a.master.audit.flush();
  const records = [];
  const { stateDir } = a.config;
  for await (const record of readAuditLog({ stateDir }, { action: 'job.publish' })) {
    if (record.jid === jid) records.push(record);
  }
  t.is(records.length, 1);
  t.like(records[0], {
    outcome: 'failed',
    detail: 'the write was not confirmed; the job may have been published',
  });
  await minion.stop();
});

test.serial('a master without a quorum refuses writes with the reason', async (t) => {
  await b.master.close();
  const error = await t.throwsAsync(a.master.keys.create({ id: 'web3' }), {
    code: 'ERR_CLUSTER_ALONE',
  });
  t.regex(error.message, /must be stored by 2 members, but only 1 of 2 are running/);
  t.true((await a.master.cluster.status())?.refusesWrites);
  b = await masters.start(b.config);
  await eventually('a to count b', async () => {
    const status = await a.master.cluster.status();
    return status?.refusesWrites === false;
  });
  await within('a to continue', a.master.keys.create({ id: 'web3' }));
});
