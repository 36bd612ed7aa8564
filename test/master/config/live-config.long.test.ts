/** Tests of reloads: every reloadable option takes effect wherever the master uses it. */

import test, { type ExecutionContext } from 'ava';
import {
  type FixedConfig,
  LiveConfig,
  type MasterOptions,
  type ReloadableConfig,
  resolveMasterConfig,
} from '#config';
import { reloadableLimits, reloadableOptions } from '#config/live-config.ts';
import { isWireMap } from '#minion-protocol';
import { within } from '../../helpers/deadline.ts';
import {
  directories,
  startVectorMaster,
  type VectorMaster,
  type VectorMasterOptions,
} from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { base64, cases, keys, pem, text, vectorFile } from '../../helpers/vectors.ts';

test('reloadable options cannot be read from the fixed ones', (t) => {
  const { fixed } = new LiveConfig(resolveMasterConfig());
  // @ts-expect-error it is reloadable
  t.is(fixed.nodegroups, undefined);
  // @ts-expect-error it is reloadable
  const { keepJobsSeconds, limits } = fixed;
  t.is(keepJobsSeconds, undefined);
  // @ts-expect-error it is reloadable
  t.is(limits.burst, undefined);
  const common: [keyof FixedConfig & Exclude<keyof ReloadableConfig, 'limits'>] extends [never]
    ? 'none'
    : 'some' = 'none';
  t.is(common, 'none');
  t.deepEqual(
    Object.keys(fixed).filter((name) => reloadableOptions.some((one) => one === name)),
    [],
  );
  t.deepEqual(
    Object.keys(limits).filter((name) => reloadableLimits.some((one) => one === name)),
    [],
  );
});

test('a refused configuration changes nothing and notifies no listener', async (t) => {
  const before = resolveMasterConfig();
  const live = new LiveConfig(before);
  const order: string[] = [];
  let isRefused = true;
  live.beforeChange(() => () => void order.push('in force'));
  live.beforeChange(() => {
    if (isRefused) throw new RangeError('no');
    return () => void order.push(`still ${live.current.timeout}`);
  });
  live.onChange(async ({ timeout }) => void order.push(`told ${timeout}`));
  await t.throwsAsync(live.replace({ ...before, timeout: 9 }), { instanceOf: RangeError });
  t.is(live.current.timeout, before.timeout);
  t.deepEqual(order, []);
  isRefused = false;
  await live.replace({ ...before, timeout: 9 });
  t.deepEqual(order, ['in force', 'still 9', 'told 9']);
});

// Tests of each option in a running master.

type Name = (typeof reloadableOptions)[number] | (typeof reloadableLimits)[number];

interface Effect {
  readonly start?: VectorMasterOptions;
  readonly change: Partial<MasterOptions>;
  /** Returns an observation of the master that depends on the option. */
  readonly observe: (master: VectorMaster) => Promise<unknown>;
  readonly before: unknown;
  readonly after: unknown;
}

/**
 * Returns a function that publishes a job without answers, and returns the state of the job some
 * seconds later.
 */
const stateAfter =
  (seconds: number) =>
  async ({ master, clock }: VectorMaster): Promise<unknown> => {
    const { jid } = await master.jobs.publish({ tgt: keys.minionId, fun: 'test.ping' });
    clock.now += seconds * 1000;
    return (await master.jobs.show(jid)).deliveries[0]?.state;
  };

/** Whether a job is still stored after two hours. */
async function isKept({ master, clock }: VectorMaster): Promise<unknown> {
  const { jid } = await master.jobs.publish({ tgt: keys.minionId, fun: 'test.ping' });
  clock.now += 7_200_001;
  return (await master.jobs.list()).some((job) => job.jid === jid);
}

async function createOddId({ master }: VectorMaster): Promise<unknown> {
  return master.keys.create({ id: 'a..b', bits: 2048, force: true }).then(
    () => 'created',
    () => 'refused',
  );
}

async function logIn({ master }: VectorMaster): Promise<unknown> {
  return master.logins.login({ username: 'ann', password: 'x', eauth: 'auto' }).then(
    ({ user }) => user,
    () => 'refused',
  );
}

async function configured(name: string, { master }: VectorMaster): Promise<unknown> {
  const values = (await master.wheel.run({ fun: 'config.values' })).return;
  return isWireMap(values) ? values[name] : undefined;
}

const showsIn =
  (name: string) =>
  (master: VectorMaster): Promise<unknown> =>
    configured(name, master);

const masterOpts = recorded('aes_functions', '_master_opts v3');
const simpleReturn = recorded('return', 'simple v3');
const event = recorded('minion_event', 'start event v3');
const signIn = cases(vectorFile('auth'), 'cases').find(
  ({ name }) => text(name) === 'v0 accepted, first contact (no token)',
);

/** Returns the nodegroups that a minion receives with `_master_opts`. */
async function nodegroupsOfMinion({ ask }: VectorMaster): Promise<unknown> {
  const nonce = freshNonce();
  const reply = openReply(masterOpts, await ask(altered(masterOpts, { load: { nonce } })), nonce);
  return isWireMap(reply) && isWireMap(reply.nodegroups) ? { ...reply.nodegroups } : undefined;
}

const counted = (name: string, times: number, request: () => Uint8Array): Effect['observe'] => {
  return async ({ ask, counters }) => {
    for (let time = 0; time < times; time += 1) await ask(request());
    return (await counters())[name] !== undefined;
  };
};

/** Effects by option. A text is the file of the test that shows the effect. */
const effects: Readonly<Record<Name, Effect | string>> = {
  autoAccept: 'reload',
  openMode: 'reload',
  confirmOpenMode: 'reload',
  autosignFile: 'reload',
  autorejectFile: {
    change: { autorejectFile: '/none' },
    observe: showsIn('autoreject_file'),
    before: null,
    after: '/none',
  },
  autosignGrainsDir: {
    change: { autosignGrainsDir: '/none' },
    observe: showsIn('autosign_grains_dir'),
    before: null,
    after: '/none',
  },
  autosignTimeout: {
    change: { autosignTimeout: 7 },
    observe: showsIn('autosign_timeout'),
    before: 120,
    after: 7,
  },
  permissivePkiAccess: {
    change: { permissivePkiAccess: true },
    observe: showsIn('permissive_pki_access'),
    before: false,
    after: true,
  },
  authEvents: 'reload',
  maxMinions: 'reload',
  minionIds: {
    change: { minionIds: 'salt' },
    observe: createOddId,
    before: 'refused',
    after: 'created',
  },
  acl: 'reload',
  publisherAcl: 'eauth/user-api',
  publisherAclBlacklist: 'eauth/user-api',
  externalAuth: {
    change: { externalAuth: { auto: { '*': ['.*'] } }, confirmAutoEauth: true },
    observe: logIn,
    before: 'refused',
    after: 'ann',
  },
  permissiveAcl: 'eauth/user-api',
  eauth: 'eauth/user-api',
  confirmAutoEauth: {
    start: { config: { externalAuth: { auto: { '*': ['.*'] } } } },
    change: { externalAuth: { auto: { '*': ['.*'] } }, confirmAutoEauth: true },
    observe: logIn,
    before: 'refused',
    after: 'ann',
  },
  reactions: 'reactions/reactions',
  reactor: 'reactions/reactions',
  allowMinionKeyRevoke: 'reload',
  rotateAesKey: 'below',
  pingOnRotate: 'below',
  nodegroups: {
    change: { nodegroups: { mine: 'L@a,b' } },
    observe: nodegroupsOfMinion,
    before: {},
    after: { mine: 'L@a,b' },
  },
  minionDataCacheEvents: {
    change: { minionDataCacheEvents: false },
    observe: showsIn('minion_data_cache_events'),
    before: true,
    after: false,
  },
  timeout: {
    change: { timeout: 60 },
    observe: stateAfter(20),
    before: 'reconnecting',
    after: 'waiting',
  },
  gatherJobTimeout: {
    change: { gatherJobTimeout: 60 },
    observe: stateAfter(20),
    before: 'reconnecting',
    after: 'waiting',
  },
  keepJobs: { change: { keepJobs: 1 }, observe: isKept, before: true, after: false },
  keepJobsSeconds: { change: { keepJobsSeconds: 60 }, observe: isKept, before: true, after: false },
  logLevel: 'cli/master-process',
  logLevelLogfile: 'cli/master-process',
  output: 'cli/salt',
  color: 'cli/salt',
  stateOutput: 'cli/salt',
  stateVerbose: 'cli/salt',
  stateOutputProfile: 'cli/salt',
  saltCpChunkSize: 'cli/salt-cp',
  requestsPerSecond: 'below',
  eventsPerSecond: 'reload',
  burst: 'reload',
  returnBytes: {
    change: { limits: { returnBytes: 1024 } },
    observe: counted('return-bytes', 1, () =>
      altered(simpleReturn, {
        load: { return: 'x'.repeat(5000), jid: 'req', nonce: freshNonce() },
      }),
    ),
    before: false,
    after: true,
  },
  eventBytes: 'reload',
  authsPerSecond: {
    start: { config: { limits: { authsPerSecond: 0 } } },
    change: { limits: { authsPerSecond: 1 } },
    observe: counted('auth-rate', 5, () => base64(signIn?.request_b64)),
    before: false,
    after: true,
  },
  pendingKeys: 'reload',
  pendingKeysPerAddress: 'reload',
};

for (const [name, effect] of Object.entries(effects)) {
  if (typeof effect === 'string') continue;
  test(`a reload applies another ${name} to a running master`, async (t) => {
    const running = await startVectorMaster(t, effect.start);
    t.deepEqual(await effect.observe(running), effect.before);
    await reload(running, { ...effect.start?.config, ...effect.change });
    t.deepEqual(await effect.observe(running), effect.after);
  });
}

async function reload(
  { master, directory }: VectorMaster,
  options: Partial<MasterOptions>,
): Promise<void> {
  await master.reload(resolveMasterConfig({ ...directories(directory), ...options }));
}

test('requests_per_second applies to the next request', async (t) => {
  const running = await startVectorMaster(t);
  await reload(running, { limits: { requestsPerSecond: 1, burst: 1 } });
  const ask = (): Promise<Buffer> => running.ask(altered(event, { load: { nonce: freshNonce() } }));
  await ask();
  const begun = performance.now();
  await ask();
  await ask();
  t.true(performance.now() - begun > 1000);
});

test('rotate_aes_key and ping_on_rotate apply to the next deletion of a key', async (t) => {
  const running = await startTwo(t, { rotateAesKey: false });
  const { master } = running;
  await reload(running, { rotateAesKey: true, pingOnRotate: true });
  const events = await master.events.subscribe({ match: ['key', 'salt/job/*/new'] });
  await master.keys.delete({ match: 'other' });
  const tags: string[] = [];
  const collect = async (): Promise<void> => {
    for await (const { tag } of events) if (tags.push(tag.replace(/\d{20}/, 'JID')) === 2) return;
  };
  await within('a rotation and a job', collect());
  t.deepEqual(tags, ['key', 'salt/job/JID/new']);
});

function startTwo(t: ExecutionContext, config: Partial<MasterOptions>): Promise<VectorMaster> {
  const directory = 'minions' as const;
  return startVectorMaster(t, {
    config,
    keys: [
      { directory, id: keys.minionId, publicPem: pem('minion').publicPem },
      { directory, id: 'other', publicPem: pem('other_minion').publicPem },
    ],
  });
}
