/**
 * Stored state of earlier versions is opened, upgraded and used; see the README.md of each fixture.
 */
import { chmodSync, cpSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import type { TransactionLog } from '#cluster';
import { initCluster, joinCluster } from '#cluster';
import { openJetStreamLog } from '#cluster/log/jetstream-log.ts';
import {
  type MasterConfig,
  type MasterOptions,
  resolveMasterConfig,
  storeDirectory,
} from '#config';
import { type Bridge, createBridge } from '#guests';
import type { CommandDefinition, PlanDefinition } from '#heat-bridge';
import {
  type KeyState,
  type Master,
  type MasterEvent,
  readAuditLog,
  restoreMasterStore,
  verifyAuditLog,
} from '#master';
import {
  createMinion,
  generateKeyString,
  type MinionKeys,
  parsePrivateKey,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { createMinionIdentity, MinionSession } from '#minion-protocol/minion/session.ts';
import { createMinionHandshake } from '#minion-protocol/minion-handshake.ts';
import {
  createMemoryTransport,
  type MemoryTransport,
} from '#minion-protocol/transport/memory-transport.ts';
import { delay } from '#runtime';
import { createSaltApi } from '#salt-api';
import { createMaster } from '#server';
import { type ContentDigest, digestStore, readBackup } from '#store';
import { always, type Recorder, startRecorder } from '../heat-bridge/signals/recorder.ts';
import { waitMs, within } from '../helpers/deadline.ts';
import { MemoryLog } from '../helpers/memory-log.ts';
import { hasNatsServer, startNatsServer } from '../helpers/nats-server.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories } from '../helpers/vector-master.ts';

const certificate = fileURLToPath(new URL('../../test/fixtures/tls/master.pem', import.meta.url));

/** Content of the earlier version's state. */
interface Known {
  /** Time at which it was created, in milliseconds since 1970. */
  readonly madeAt: number;
  readonly keys: readonly {
    readonly id: string;
    readonly state: KeyState;
    readonly fingerprint: string;
    readonly protocol: number;
  }[];
  readonly minion: {
    readonly id: string;
    readonly privatePem: string;
    readonly publicPem: string;
    /** The publish key. */
    readonly aes: string;
    readonly session: string;
    readonly masterPub: string;
  };
  readonly jobs: { readonly echo: string; readonly fail: string; readonly user: string };
  readonly token: string;
  readonly firstEvent: string;
  readonly handles: { readonly away: string; readonly unlisted: string };
  readonly enrolments: { readonly open: string; readonly ended: string; readonly used: string };
  readonly ticket: string;
  readonly usedTicket: string;
  /** Finished runs with an idempotency key. Absent if there were none. */
  readonly run?: { readonly id: string; readonly key: string };
  readonly plan?: { readonly id: string; readonly key: string };
  readonly reactions?: readonly {
    readonly jid: string;
    readonly reaction: string;
    readonly state: string;
  }[];
}

/** State of an earlier version. */
interface OldState {
  /** Commit that created it. */
  readonly commit: string;
  readonly directory: string;
  readonly known: Known;
  /** Layout version of its store. */
  readonly layout: number;
  /** Arguments of its first job. */
  readonly args: readonly unknown[];
  /** Events of the site after `firstEvent`. */
  readonly events: readonly (readonly [tag: string, data: object])[];
}

function oldState(commit: string, more: Pick<OldState, 'args' | 'events' | 'layout'>): OldState {
  const directory = fileURLToPath(new URL(`../../test/fixtures/state-${commit}`, import.meta.url));
  const known = JSON.parse(readFileSync(path.join(directory, 'known.json'), 'utf8'));
  return { commit, directory, known, ...more };
}

const second = ['site/old', { said: 'second' }] as const;
const states = [
  oldState('b771686', { layout: 1, args: ['old', 7], events: [second] }),
  oldState('2f6d6592', {
    layout: 2,
    args: ['old', 7, '4611686018427387904'],
    events: [second, ['site/seen', { env: 'live' }], ['site/refused', {}]],
  }),
];

const parameters = {
  type: 'object',
  required: ['text'],
  properties: { text: { type: 'string', maxLength: 100 } },
};

const echo: CommandDefinition = {
  name: 'demo.echo',
  description: 'Gives back a text.',
  function: 'test.echo',
  parameters,
};

const twice: PlanDefinition = {
  name: 'demo.twice',
  description: 'Gives back a text, and again.',
  parameters,
  groups: { all: {} },
  steps: {
    one: { command: 'demo.echo', group: 'all' },
    two: { command: 'demo.echo', group: 'all', needs: ['one'] },
  },
};

/** Copies the earlier version's directories. */
function copyFixture(t: ExecutionContext, { directory }: OldState): string {
  const root = temporaryDirectory(t);
  for (const name of ['pki', 'state']) {
    cpSync(path.join(directory, name), path.join(root, name), { recursive: true });
  }
  // The modes are restored, because git does not store them.
  chmodSync(root, 0o700);
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    chmodSync(path.join(entry.parentPath, entry.name), entry.isDirectory() ? 0o700 : 0o600);
  }
  return root;
}

function configOf(
  root: string,
  endpoint: string,
  options: Partial<MasterOptions> = {},
): MasterConfig {
  return resolveMasterConfig({
    ...directories(root),
    ...options,
    // Minions use the system's clock.
    requestServerTtl: 0,
    externalAuth: { sharedsecret: { operator: ['.*', '@runner', '@wheel'] } },
    eauth: { sharedsecret: 'a secret of the fixture alone' },
    eventRing: { entries: 1000, bytes: 1_000_000 },
    acl: {
      signals: [{ tag: 'site/*', minions: '*' }],
      rules: [
        allow('handles', {
          subject: { minion: '*' },
          action: 'signal',
          resource: { tag: 'heat/*' },
        }),
        allow('demo', {
          subject: { service: 'bridge' },
          action: 'command',
          resource: { fun: 'demo.*', within: 'web*' },
        }),
      ],
      mode: 'enforce',
      learnActions: [],
      recordData: false,
    },
    bridge: {
      handles: {
        endpoints: ['http://127.0.0.1:1', endpoint],
        retry_initial_delay: 0.01,
        retry_max_delay: 0.02,
        same_id_wait: 0,
      },
      enroll: { masters: ['127.0.0.1'], url: 'https://127.0.0.1', certificate, prepared_keys: 1 },
    },
  });
}

interface Running {
  readonly state: OldState;
  readonly config: MasterConfig;
  readonly master: Master;
  readonly bridge: Bridge;
  readonly dial: MemoryTransport['dial'];
  /** Service that receives signals in place of the original one. */
  readonly service: Recorder;
}

/** Returns the time one minute after the backup was made. */
const nowOf =
  ({ known }: OldState) =>
  (): number =>
    known.madeAt + 60_000;

/** Membership of a master in a cluster. */
interface Membership {
  readonly cluster: NonNullable<MasterOptions['cluster']>;
  readonly connect: () => Promise<TransactionLog>;
}

/** Starts a master with the state below a directory. */
async function serve(
  t: ExecutionContext,
  root: string,
  state: OldState,
  membership?: Membership,
): Promise<Running> {
  const service = await startRecorder(always(200, 'null'));
  t.teardown(() => service.close());
  const config = configOf(root, service.origin, membership && { cluster: membership.cluster });
  const memory = createMemoryTransport();
  const bridge = createBridge({ commands: [echo], plans: [twice] });
  const master = createMaster({
    config,
    transports: [memory.master],
    extensions: [bridge],
    now: nowOf(state),
    ...(membership && { clusterLog: membership.connect }),
  });
  t.teardown(() => master.close());
  await master.start();
  return {
    state,
    config,
    master,
    bridge,
    service,
    dial: (id, address) => memory.dial(id, address),
  };
}

type SignIn = ReturnType<ReturnType<typeof createMinionHandshake>['step']>;

/** Returns the result of a sign-in by the earlier minion. */
async function signIn({ dial, state }: Running, version: 2 | 3 = 3): Promise<SignIn> {
  const { id, privatePem, publicPem } = state.known.minion;
  const handshake = createMinionHandshake({
    id,
    version,
    privateKey: parsePrivateKey(privatePem),
    publicPem,
    token: generateKeyString(),
  });
  return handshake.step(await dial(id).request(handshake.request(), waitMs));
}

/** Returns the session that the minion had with the earlier version. */
function oldSession({ known }: OldState): MinionSession {
  const { id, privatePem, aes, session, masterPub } = known.minion;
  const identity = createMinionIdentity(id, 3, privatePem);
  return new MinionSession(identity, {
    state: 'accepted',
    aes,
    session,
    masterPub,
    publishPort: 4505,
  });
}

async function ask(
  { dial, state }: Running,
  session: MinionSession,
  load: WireMap,
): Promise<WireValue> {
  const { bytes, nonce } = session.seal(load);
  return session.openReply(await dial(state.known.minion.id).request(bytes, waitMs), nonce);
}

function plain(value: unknown): unknown {
  const bigAsText = (_key: string, part: unknown): unknown =>
    typeof part === 'bigint' ? String(part) : part;
  return JSON.parse(JSON.stringify(value, bigAsText));
}

async function run({ master }: Running, fun: string): Promise<unknown> {
  const { return: value } = await master.runners.run({ fun });
  return plain(value);
}

/** Checks that the earlier data is present. After a restore, earlier tokens must be revoked. */
async function hasAllOfBefore(
  t: ExecutionContext,
  running: Running,
  isRestored = false,
): Promise<void> {
  const { master, bridge, state } = running;
  const { known } = state;
  const keys = await master.keys.list();
  t.deepEqual(
    keys.map(({ id, state, fingerprint, protocol }) => ({ id, state, fingerprint, protocol })),
    [...known.keys],
  );
  await hasJobs(t, running);
  t.deepEqual(await run(running, 'cache.mine'), {
    web1: { 'network.addrs': ['192.0.2.1'] },
  });
  t.like(await run(running, 'cache.grains'), { web1: { os: 'Debian', roles: ['web'] } });
  t.like(await run(running, 'cache.pillar'), { web1: { role: 'web', of: 'web1' } });
  if (isRestored) {
    // It may have been revoked since the backup.
    await t.throwsAsync(master.logins.identify(known.token), { code: 'ERR_EAUTH_TOKEN' });
  } else {
    t.like(await master.logins.identify(known.token), { user: 'operator', eauth: 'sharedsecret' });
    t.is((await master.logins.list()).length, 1);
  }
  t.is((await master.jobs.show(known.jobs.user)).user, 'operator');
  const { open, ended, used } = known.enrolments;
  const enrolments = await bridge.enroll.list();
  t.deepEqual(
    enrolments.map(({ number, id, project, state }) => [id, number, project, state]).sort(),
    [
      ['gone1', ended, 'project-1', 'retired'],
      ['known1', used, 'project-2', 'signed-in'],
      ['new1', open, 'project-1', 'open'],
    ],
  );
}

async function hasJobs(t: ExecutionContext, { master, state }: Running): Promise<void> {
  const { echo, fail, user } = state.known.jobs;
  const jids = (await master.jobs.list()).map(({ jid }) => jid);
  t.deepEqual(
    jids.filter((jid) => [echo, fail, user].includes(jid)),
    [user, fail, echo],
  );
  const done = await master.jobs.show(echo);
  t.like(done, { fun: 'test.arg', tgt: 'web1', tgtType: 'glob', user: 'saltbridge' });
  t.deepEqual(plain(done.returns.map(({ minion, return: value }) => [minion, value])), [
    ['web1', { args: state.args, kwargs: { key: 'value' } }],
  ]);
  const [failed] = (await master.jobs.show(fail)).returns;
  t.like(failed, { minion: 'web1', success: false, retcode: 1 });
  t.regex(String(failed?.return), /as it should/);
}

/** Checks that handles exist, and that waiting and failed signals are delivered. */
async function delivers(t: ExecutionContext, { bridge, service, state }: Running): Promise<void> {
  const { away, unlisted } = state.known.handles;
  const handles = await bridge.handles.list();
  t.deepEqual(
    handles.map(({ alias, id, origin, stack, owner, minions }) => [
      alias,
      id,
      origin,
      stack,
      owner,
      minions,
    ]),
    [
      ['away', away, 'http://127.0.0.1:1', 'stack-1', 'project-1', ['web1']],
      ['unlisted', unlisted, 'http://127.0.0.1:2', 'unlisted', undefined, ['web1']],
    ],
  );
  const [dead, waiting] = await bridge.outbox.list();
  t.like(dead, {
    alias: 'unlisted',
    minion: 'web1',
    state: 'dead',
    status: 'FAILURE',
    reason: 'http://127.0.0.1:2 is not listed under handles: endpoints',
  });
  t.like(waiting, { alias: 'away', stack: 'stack-1', owner: 'project-1', status: 'SUCCESS' });
  const signal = { endpoint: `${service.origin}/signal`, token: 'tOken' };
  const minions = ['web1'];
  const first = { alias: 'away', minions, stack: 'stack-1', owner: 'project-1', signal };
  t.is((await bridge.handles.add(first, { replaces: true })).id, away);
  await within('the signal that waited', service.heard(1));
  await bridge.handles.add({ alias: 'unlisted', minions, signal }, { replaces: true });
  t.is((await bridge.outbox.retry({ alias: 'unlisted' })).length, 1);
  const requests = await within('the dead letter', service.heard(2));
  const bodies = requests.map(({ body }) => JSON.parse(body));
  t.like(bodies[0], { status: 'SUCCESS', data: 'waits' });
  t.like(bodies[1], { status: 'FAILURE', data: 'ended', reason: 'no disk' });
}

/**
 * Checks that a machine with an unused ticket of the earlier version can enrol, and that a used
 * ticket is no longer valid.
 */
async function takesTickets(t: ExecutionContext, running: Running): Promise<void> {
  const { master, bridge, state } = running;
  const { known } = state;
  const api = await createSaltApi(master, { host: '127.0.0.1', plugins: [bridge.http] });
  t.teardown(() => api.close());
  const { port } = await api.listen();
  const fingerprint = known.keys.find(({ id }) => id === 'waiting')?.fingerprint;
  const claim = async (ticket: string, id: string): Promise<number> => {
    const { status } = await fetch(`http://127.0.0.1:${port}/bridge/v1/enroll/claim`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ticket, id, fingerprint, instance: 'i-1' }),
    });
    return status;
  };
  t.not(await claim(known.usedTicket, 'known1'), 200);
  t.is(await claim(known.ticket, 'new1'), 200);
  t.is((await bridge.enroll.show(known.enrolments.open)).state, 'accepted');
}

/** The earlier minion, with its key, is connected and does a job of the user with the token. */
async function works(
  t: ExecutionContext,
  { master, dial, state }: Running,
  token = state.known.token,
): Promise<void> {
  const { known } = state;
  const { id, privatePem, publicPem, masterPub } = known.minion;
  const keys: MinionKeys = {
    privatePem,
    publicPem,
    masterPem: masterPub,
    trustMaster: async () => t.fail('the master has another key'),
  };
  const minion = createMinion({ id, keys, transport: dial(id), version: 3 });
  t.teardown(() => minion.stop());
  await within('the minion', minion.start());
  const returns: unknown[] = [];
  const user = master.asUser(token);
  for await (const update of user.jobs.run({ tgt: id, fun: 'test.ping', timeoutSeconds: 10 })) {
    if (update.type === 'return') returns.push(update.return);
  }
  t.deepEqual(returns, [true]);
}

/** Returns the token of a new log-in. */
async function logIn({ master }: Running): Promise<string> {
  const password = 'a secret of the fixture alone';
  const { token } = await master.logins.login({
    username: 'operator',
    password,
    eauth: 'sharedsecret',
  });
  return token;
}

/** Runs with an idempotency key are repeated and not begun again; ended reactions are listed. */
async function knowsRuns(t: ExecutionContext, { master, bridge, state }: Running): Promise<void> {
  const { run, plan, reactions } = state.known;
  if (run === undefined || plan === undefined) return;
  const params = { text: 'once' };
  const request = { target: 'web1', params, idempotencyKey: run.key };
  const again = await bridge.run('demo.echo', request);
  t.like(again, { id: run.id, isRepeated: true });
  t.like(await again.outcome, { status: 'succeeded', jids: [run.id] });
  t.is((await again.outcome).results[0]?.return, 'once');
  const other = { ...request, params: { text: 'other' } };
  await t.throwsAsync(bridge.run('demo.echo', other), { code: 'ERR_COMMAND_KEY' });
  const groups = { all: ['web1'] };
  const repeated = await bridge.plan('demo.twice', {
    groups,
    params: { text: 'twice' },
    idempotencyKey: plan.key,
  });
  t.like(repeated, { id: plan.id, isRepeated: true });
  t.is((await repeated.outcome).status, 'succeeded');
  const runs = await master.reactions.runs();
  t.deepEqual(
    runs.map((it) => ({ jid: it.jid, reaction: it.reaction, state: it.state })),
    [...(reactions ?? [])],
  );
}

/**
 * Checks that the audit log continues after the last record of the earlier version and is complete.
 */
async function auditGoesOn(t: ExecutionContext, { master, config }: Running): Promise<void> {
  await master.close();
  const { problems, isEndKnown, first, last } = await verifyAuditLog(config);
  t.deepEqual([problems, isEndKnown, first], [[], true, 1]);
  t.true(last > 24);
  const actions: string[] = [];
  for await (const { action } of readAuditLog(config)) actions.push(action);
  t.deepEqual(
    ['login', 'handle.add', 'enroll.retired', 'key.reject'].filter((it) => !actions.includes(it)),
    [],
  );
  t.is(actions.filter((action) => action === 'master.start').length, 2);
}

async function firstEvents(
  { master, state }: Running,
  count: number,
): Promise<readonly MasterEvent[]> {
  const events: MasterEvent[] = [];
  for await (const event of await master.events.subscribe({
    match: ['site/*', 'saltbridge/events/missed'],
    after: state.known.firstEvent,
  })) {
    if (events.push(event) === count) break;
  }
  return events;
}

/** Opens the log of a cluster. Uses a real server if one is installed. */
async function openLogs(t: ExecutionContext): Promise<(member: string) => Membership> {
  const server = hasNatsServer ? await startNatsServer(t) : undefined;
  const memory = new MemoryLog();
  const servers = [`nats://${server?.host ?? '127.0.0.1:1'}`];
  return (member) => ({
    cluster: { name: 'old', nats: servers, member, replicas: 1, whenAlone: 'local' },
    connect: async () =>
      server === undefined
        ? memory.connect()
        : await openJetStreamLog({ servers, cluster: 'old', create: { replicas: 1 } }),
  });
}

function digestOf({ config }: Running): Promise<ContentDigest> {
  return digestStore(storeDirectory(config.stateDir), { without: [], at: 0 });
}

for (const state of states) {
  const { commit, directory, layout, events: oldEvents } = state;

  test(`a state directory of commit ${commit} is served unchanged`, async (t) => {
    const root = copyFixture(t, state);
    const running = await serve(t, root, state);
    const kept = path.join(root, 'state', 'store-layout-1.mdb');
    if (layout === 1) t.true((await readBackup(kept)) > 0);
    await hasAllOfBefore(t, running);
    await knowsRuns(t, running);
    const session = oldSession(state);
    const event = { cmd: '_minion_event', tag: 'site/new', data: { said: 'after' } };
    t.is(await ask(running, session, event), null);
    const events = await within(
      'events of before and after',
      firstEvents(running, oldEvents.length + 1),
    );
    t.deepEqual(
      events.map(({ tag, data }) => [tag, plain(data.data)]),
      [...oldEvents, ['site/new', { said: 'after' }]],
    );
    const { aes, session: key, masterPub } = state.known.minion;
    t.like(await signIn(running), { state: 'accepted', aes, session: key, masterPub });
    t.not((await signIn(running, 2)).state, 'accepted');
    await works(t, running);
    await delivers(t, running);
    await takesTickets(t, running);
    await auditGoesOn(t, running);
  });

  test(`a backup of commit ${commit} is restored and served, and minions sign in again`, async (t) => {
    const root = copyFixture(t, state);
    const file = path.join(directory, 'backup.mdb');
    await readBackup(file);
    rmSync(path.join(root, 'state', 'store'), { recursive: true });
    const { restored, old } = await restoreMasterStore(configOf(root, 'http://127.0.0.1:2'), file);
    t.deepEqual([restored.layout, restored.problems, old], [layout, [], undefined]);
    const running = await serve(t, root, state);
    t.is(readdirSync(path.join(root, 'state')).includes('store-layout-1.mdb'), layout === 1);
    await hasAllOfBefore(t, running, true);
    await knowsRuns(t, running);
    const event = { cmd: '_minion_event', tag: 'site/new', data: { said: 'after' } };
    await t.throwsAsync(ask(running, oldSession(state), event));
    const signedIn = await signIn(running);
    if (signedIn.state !== 'accepted') throw new Error(`signed in: ${signedIn.state}`);
    t.not(signedIn.aes, state.known.minion.aes);
    t.is(signedIn.masterPub, state.known.minion.masterPub);
    t.not((await signIn(running, 2)).state, 'accepted');
    const { id, privatePem } = state.known.minion;
    const session = new MinionSession(createMinionIdentity(id, 3, privatePem), signedIn);
    t.is(await ask(running, session, event), null);
    await works(t, running, await logIn(running));
    await delivers(t, running);
    await takesTickets(t, running);
    await auditGoesOn(t, running);
  });

  test(`a backup of commit ${commit} becomes a cluster that another master joins`, async (t) => {
    const root = copyFixture(t, state);
    rmSync(path.join(root, 'state', 'store'), { recursive: true });
    await restoreMasterStore(configOf(root, ''), path.join(directory, 'backup.mdb'));
    const memberOf = await openLogs(t);
    const [first, second] = [memberOf('a'), memberOf('b')];
    const config = configOf(root, '', { cluster: first.cluster });
    await initCluster(config, { connect: first.connect, now: nowOf(state) });
    const a = await serve(t, root, state, first);
    const { ticket } = await a.master.cluster.ticket();
    const other = temporaryDirectory(t);
    const { connect } = second;
    await joinCluster(configOf(other, '', { cluster: second.cluster }), ticket, {
      connect,
      now: nowOf(state),
    });
    const b = await serve(t, other, state, second);
    // At the one that never had its files.
    await hasAllOfBefore(t, b, true);
    await works(t, b, await logIn(b));
    await delivers(t, a);
    const isSame = async () => (await digestOf(a)).sha256 === (await digestOf(b)).sha256;
    const deadline = AbortSignal.timeout(20_000);
    while (!deadline.aborted && !(await isSame())) await delay(50);
    t.false(deadline.aborted);
    t.true((await digestOf(a)).entries > 0);
    const { fingerprint } = (await a.master.keys.local())[0] ?? {};
    t.is((await b.master.keys.local())[0]?.fingerprint, fingerprint);
    await auditGoesOn(t, a);
  });
}
