/**
 * Checks the traces that a master leaves: its files are readable only by its user, and others
 * cannot write lines into its log.
 */

import { createPublicKey } from 'node:crypto';
import { once } from 'node:events';
import { lstatSync, readdirSync, readFileSync, statSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { Writable } from 'node:stream';
import { createServer, type Server } from 'node:tls';
import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import { type EauthOptions, resolveMasterConfig } from '#config';
import { createBridge } from '#guests';
import type { CommandDefinition } from '#heat-bridge';
import { createLogger, type MasterEvent } from '#master';
import { openSeal } from '#master/auth/index.ts';
import { createBackends } from '#master/users/backends.ts';
import { createKeystoneBackend } from '#master/users/keystone.ts';
import {
  isWireMap,
  packWire,
  parseKeyString,
  parsePrivateKey,
  parsePublicKey,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from '#minion-protocol';
import { openCrypticle } from '#minion-protocol/crypt.ts';
import { openPublication } from '#minion-protocol/publication.ts';
import { rsaDecrypt } from '#minion-protocol/rsa.ts';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import { createSaltApi } from '#salt-api';
import { createMaster } from '#server';
import { runDoctor } from '#server/ops.ts';
import { waitMs } from '../helpers/deadline.ts';
import { isHeard } from '../helpers/genuine-minion.ts';
import { mutated, seeded } from '../helpers/mutations.ts';
import {
  type ApiAnswer,
  json,
  password,
  type RunningApi,
  send,
  startApi,
} from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories, startVectorMaster, type VectorMaster } from '../helpers/vector-master.ts';
import { aesKey, altered, freshNonce, recorded, token } from '../helpers/vector-requests.ts';
import { base64, keys, pem } from '../helpers/vectors.ts';
import { listen } from './doors.ts';
import {
  type Actor,
  askAs,
  HOSTILE,
  hostile,
  type Load,
  oldRequest,
  openPillarOf,
  requestBy,
  SECRET,
  type Site,
  startSite,
  VICTIM,
  victim,
} from './site.ts';

const signIn = unpackWire(base64(recorded('auth', 'v3 pending, different key').request_b64));

test('files of a master are readable by its own user only, except for public keys', async (t) => {
  const directory = temporaryDirectory(t);
  const config = resolveMasterConfig(directories(directory));
  const memory = createMemoryTransport();
  const master = createMaster({ config, transports: [memory.master] });
  t.teardown(() => master.close());
  await master.start();
  await memory.dial('x').request(packWire({ ...Object(signIn) }), waitMs);
  const readable: string[] = [];
  for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    const stats = lstatSync(path.join(directory, name));
    if ((stats.mode & 0o077) !== 0 && !stats.isSocket()) readable.push(name);
  }
  t.deepEqual(readable.sort(), ['pki/master.pub', `pki/minions_pre/${HOSTILE}`]);
});

/** Text that would end or begin a log line, or control a terminal, if it were logged unchanged. */
const breaking = '\n{"level":50,"msg":"forged"}\r\n\u001b[2J\u0000\u2028';

test('an id, tag, job id or command cannot write a line into the log', async (t) => {
  const lines: string[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  const site = await startSite(t, 'zeromq', { logger: createLogger('trace', destination) });
  const start = recorded('minion_event', 'start event v3');
  for (const text of [breaking, `web1${breaking}`]) {
    await site.door.ask(altered(start, { envelope: { id: text }, load: { id: text } }));
    await site.door.ask(
      packWire({ ...Object(signIn), load: { ...Object(signIn).load, id: text } }),
    );
    await askAs(hostile, site.door, { cmd: '_minion_event', tag: text, data: {} });
    await askAs(hostile, site.door, {
      cmd: '_return',
      jid: text.slice(0, 60),
      fun: text,
      return: text,
    });
    await askAs(hostile, site.door, { cmd: text });
    await askAs(hostile, site.door, { cmd: '_serve_file', path: text, saltenv: text, loc: 0 });
    await site.door.ask(altered(start, { load: { nonce: freshNonce(), tok: text } }));
  }
  t.true(lines.length > 5, 'the log says something');
  for (const line of lines) {
    t.is(line.indexOf('\n'), line.length - 1);
    t.not(JSON.parse(line).msg, 'forged');
    t.false(line.includes('\u001b'));
  }
  t.true(
    lines.some((line) => line.includes(HOSTILE)),
    'genuine names are there',
  );
});

// These tests use a named command with a secret parameter, and search for it in all places where it
// might appear.

/** Secret that occurs nowhere else, so that it can be found in any encoding. */
const canary = 'CANARY7b1f93e2secret';

const command: CommandDefinition = {
  name: 'demo.user',
  description: 'Makes a user.',
  state: 'user',
  reviewed: 'made for this test alone',
  parameters: {
    type: 'object',
    required: ['name', 'password'],
    properties: {
      name: { type: 'string', maxLength: 10 },
      password: { type: 'string', minLength: 12, maxLength: 40 },
    },
  },
  secret: ['password'],
  returns: { type: 'object' },
};

interface Stage extends Site {
  /** Texts of the log, events and publications. */
  readonly told: string[];
  /** Calls the command over HTTP. */
  call(params: unknown, more?: object): Promise<ApiAnswer>;
}

async function openSecretSite(t: ExecutionContext): Promise<Stage> {
  const told: string[] = [];
  const log = new Writable({
    write(chunk, _encoding, done) {
      told.push(String(chunk));
      done();
    },
  });
  const rule = allow('users', {
    subject: { user: 'trove' },
    action: 'command',
    resource: { fun: 'demo.*', within: VICTIM },
  });
  const bridge = createBridge({ commands: [command] });
  const site = await startSite(t, 'zeromq', {
    logger: createLogger('trace', log),
    extensions: [bridge],
    config: {
      externalAuth: { sharedsecret: { trove: ['test.*'] } },
      eauth: { sharedsecret: password },
      acl: { rules: [rule] },
      keepJobsSeconds: 3600,
    },
  });
  const { master } = site.operator;
  const api = await createSaltApi(master, { host: '127.0.0.1', plugins: [bridge.http] });
  t.teardown(() => api.close());
  const { port } = await api.listen();
  const login = { username: 'trove', password, eauth: 'sharedsecret' };
  const { token } = await master.logins.login(login);
  const call: Stage['call'] = (params, more = {}) =>
    send(port, {
      method: 'POST',
      path: '/bridge/v1/commands/demo.user/run',
      headers: json(token),
      body: { target: [VICTIM], params, ...more },
    });
  return { ...site, told, call };
}

/** Decrypts a publication like any accepted minion, with the key that all minions share. */
function readAsHostile(publication: WireValue): string {
  const job = openPublication(packWire(publication), {
    key: aesKey,
    masterPublic: parsePublicKey(pem('master').publicPem),
    requireSignature: true,
  });
  return JSON.stringify(job);
}

/** Returns everything on the disk and in the store, as bytes. */
async function kept({ directory, store, master }: VectorMaster): Promise<Buffer> {
  await master.audit.flush();
  const parts: Uint8Array[] = [];
  for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    const file = path.join(directory, name);
    if (statSync(file).isFile()) parts.push(readFileSync(file));
  }
  for await (const { key, value } of store.list([])) parts.push(Buffer.from(key.join('/')), value);
  return Buffer.concat(parts);
}

async function pillarOf(actor: typeof hostile, { door }: Site): Promise<string> {
  const nonce = freshNonce();
  const asked = requestBy(actor, { cmd: '_pillar', grains: {}, ver: '2' }, nonce);
  return JSON.stringify(openPillarOf(actor.id, await door.ask(asked), nonce));
}

test('a secret parameter appears only in the pillar of its minion', async (t) => {
  const site = await openSecretSite(t);
  const { operator, told, call, door } = site;
  const next = await listen(t, 'zeromq', site.publishPort);
  const end = new AbortController();
  const events: MasterEvent[] = [];
  const following = (async () => {
    for await (const event of await operator.master.events.subscribe({}, end.signal))
      events.push(event);
  })();

  const running = call({ name: 'fred', password: canary }, { idempotencyKey: 'k' });
  // This closes the request if the test ends early.
  running.catch(() => {});
  const publication = readAsHostile(await next());
  t.regex(publication, /saltbridge_secrets/);
  t.true((await pillarOf(victim, site)).includes(canary), 'whom it is for has it');
  t.false((await pillarOf(hostile, site)).includes(canary));
  const { jid } = JSON.parse(publication);
  const answer = { cmd: '_return', jid, fun: 'state.apply', return: { a: true }, retcode: 0 };
  await askAs(victim, door, answer);
  const outcome = await running;
  t.regex(outcome.text, /"status":"succeeded"/);
  t.false((await pillarOf(victim, site)).includes(canary), 'it is over');

  // The error message must not repeat the secret, regardless of what is wrong with the call.
  const refused = [
    await call({ name: 'fred', password: `${canary}x` }, { idempotencyKey: 'k' }),
    await call({ name: 'fred', password: `-${canary}` }),
    await call({ name: 'fred', password: `${canary}\n` }),
    await call({ name: 'fred', password: canary.repeat(3) }),
    await call({ name: 'fred', password: [canary] }),
    await call({ name: canary, password: canary }),
    await call({ name: 'fred', password: canary, [canary]: 1 }),
    await call({ name: 'fred', password: canary }, { target: [HOSTILE] }),
    await call({ name: 'fred', password: canary }, { [canary]: canary }),
    await call(canary),
  ];
  for (const { status, text } of refused) {
    t.true(status >= 400 && status < 500, text);
    t.false(text.includes(canary), text);
  }
  end.abort();
  await following;

  t.true(events.some(({ tag }) => tag === `salt/job/${jid}/ret/${VICTIM}`));
  const { jobs } = operator.master;
  const history = [await jobs.show(jid), await jobs.list(), await operator.master.status()];
  const places: Readonly<Record<string, string>> = {
    publication,
    outcome: outcome.text,
    log: told.join(''),
    events: JSON.stringify(events),
    jobs: JSON.stringify(history),
    store: (await kept(operator)).toString('latin1'),
  };
  t.true(places.log?.includes('logged in'));
  t.true(places.store?.includes(jid));
  for (const [place, text] of Object.entries(places)) {
    for (const form of [canary, Buffer.from(canary).toString('base64').slice(0, 24)]) {
      t.false(text.includes(form), place);
    }
  }
});

// These tests check the connections that a master opens for log-ins to servers that its operator
// has named.

const credentials = { username: 'fred', password: 'planted-password' };
const unavailable = { code: 'ERR_EAUTH_UNAVAILABLE' } as const;
const signal = (): AbortSignal => AbortSignal.timeout(20_000);

/**
 * Starts a server with an untrusted certificate. It records what it receives and then closes the
 * connection.
 */
async function startImpostor(
  t: ExecutionContext,
): Promise<{ readonly port: number; heard(): string }> {
  let heard = '';
  const server: Server = createServer(
    { cert: fixture('master.pem'), key: fixture('master.key') },
    (socket) => {
      socket.on('error', () => {});
      socket.on('data', (bytes) => {
        heard += bytes.toString('latin1');
        socket.destroy();
      });
    },
  );
  t.teardown(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // it listens on a port
  return { port, heard: () => heard };
}

function fixture(name: string): Buffer {
  return readFileSync(new URL(`../../test/fixtures/tls/${name}`, import.meta.url));
}

test('no password is sent to a directory with an invalid certificate', async (t) => {
  const { port, heard } = await startImpostor(t);
  const logIn = async (options: Partial<EauthOptions>): Promise<unknown> => {
    const config = resolveMasterConfig({
      externalAuth: { ldap: { fred: ['.*'] } },
      eauth: {
        ldapUri: `ldaps://127.0.0.1:${port}`,
        ldapBasedn: 'o=x',
        ldapBinddn: 'uid={{username}},o=x',
        ...options,
      },
    });
    return createBackends(config, Date.now).get('ldap')?.authenticate(credentials, signal());
  };
  await t.throwsAsync(logIn({}), unavailable);
  t.is(heard(), '');
  // The configuration may disable the check of certificates.
  await t.throwsAsync(logIn({ ldapNoVerify: true }), unavailable);
  t.regex(heard(), /planted-password/);
});

test('no password is sent to a Keystone with an invalid certificate', async (t) => {
  const { port, heard } = await startImpostor(t);
  const authUrl = `https://127.0.0.1:${port}/v3`;
  const keystone = createKeystoneBackend({ authUrl, domain: 'Default' });
  await t.throwsAsync(keystone.authenticate(credentials, signal()), unavailable);
  t.is(heard(), '');
});

// These tests show what the holder of one accepted minion's private key can read, write and fire.

const granted = 'infra/puppet/requested';
const config = {
  fileRecv: true,
  acl: { signals: [{ tag: granted, minions: HOSTILE }] },
};

/** All requests that a minion can send, with typical fields. */
const requests: Readonly<Record<string, Load>> = {
  _pillar: { grains: { os: 'Debian' }, ver: '2' },
  _mine_delete: { fun: 'secret' },
  _mine_flush: {},
  _mine: { data: { fun: 'lie' } },
  _mine_get: { tgt: VICTIM, fun: 'secret' },
  _return: { jid: 'req', fun: 'test.ping', return: true, retcode: 0 },
  _minion_event: { tag: 'minion_start', data: {} },
  _file_recv: { path: ['x'], loc: 0, data: 'lie' },
  _serve_file: { path: '../canary', loc: 0, saltenv: 'base' },
  _file_hash: { path: '../canary', saltenv: 'base' },
  _file_hash_and_stat: { path: '../canary', saltenv: 'base' },
  _file_find: { path: '../canary', saltenv: 'base' },
  _file_list: { saltenv: 'base' },
  _file_list_emptydirs: { saltenv: 'base' },
  _dir_list: { saltenv: 'base' },
  _symlink_list: { saltenv: 'base' },
  _file_envs: {},
  _master_opts: {},
  _master_tops: { opts: { id: VICTIM } },
  _ext_nodes: { opts: { id: VICTIM } },
  minion_pub: { fun: 'test.ping', arg: [], tgt: VICTIM, ret: '' },
  minion_publish: { fun: 'test.ping', arg: [], tgt: VICTIM, ret: '' },
  minion_runner: { fun: 'jobs.list_jobs', arg: [] },
  pub_ret: { jid: '20200102030405678901' },
  revoke_auth: {},
  verify_minion: { token: 'x' },
};

/** Fields with which a load could name another minion. */
const claims: readonly Load[] = [
  {},
  { minion_id: VICTIM, master_id: VICTIM, tgt: VICTIM },
  { grains: { id: VICTIM, role: 'database' } },
  { opts: { id: VICTIM }, path: [VICTIM, 'x'] },
];

/** Signs in with only the private key, and receives what is needed for further requests. */
async function signInWithStolenKey(t: ExecutionContext, { door }: Site): Promise<Actor> {
  const vector = recorded('auth', 'v3 OAEP-SHA1 PKCS1v15-SHA1 accepted, first contact (no token)');
  const answer = asMap(unpackWire(await door.ask(base64(vector.request_b64))));
  const load = asMap(unpackWire(wireBytes(answer.load) ?? Buffer.alloc(0)));
  const session = wireBytes(load.session);
  if (session === undefined) return t.fail('no session');
  const minionKey = parsePrivateKey(pem('minion').privatePem);
  const text = rsaDecrypt(minionKey, session, 'OAEP-SHA1').toString('latin1');
  return { id: HOSTILE, key: parseKeyString(text), token };
}

/**
 * Creates the data of a victim: a pillar, a mine that only it may read, and a job that it has not
 * answered yet.
 */
async function liveAsVictim({ door, operator }: Site): Promise<string> {
  await door.ask(requestBy(victim, { cmd: '_pillar', grains: { os: 'Debian' }, ver: '2' }));
  const value = { __saltmine_acl__: 1, __data__: SECRET, allow_tgt: VICTIM };
  await askAs(victim, door, { cmd: '_mine', data: { secret: value, open: 'for all' } });
  for await (const update of operator.master.jobs.run({ tgt: VICTIM, fun: 'test.ping' })) {
    if (update.type === 'published') return update.jid;
  }
  throw new Error('nothing was published');
}

test('with a stolen key an attacker reads the own pillar, published files and permitted mines', async (t) => {
  const site = await startSite(t, 'zeromq', { config });
  await liveAsVictim(site);
  const thief = await signInWithStolenKey(t, site);
  for (const [cmd, load] of Object.entries(requests)) {
    for (const claim of claims) {
      const reply = await site.door.ask(requestBy(thief, { cmd, ...load, ...claim }));
      t.false(opened(reply, thief).includes(SECRET), cmd);
    }
  }
  const nonce = freshNonce();
  const asked = requestBy(thief, { cmd: '_pillar', grains: {}, ver: '2' }, nonce);
  const pillar = openPillarOf(HOSTILE, await site.door.ask(asked), nonce);
  t.deepEqual({ ...Object(pillar) }, { owner: HOSTILE });
  const file = { cmd: '_serve_file', path: 'published.txt', loc: 0, saltenv: 'base' };
  t.like(await askAs(thief, site.door, file), { data: 'for everybody' });
  const mine = { cmd: '_mine_get', tgt: '*', fun: 'open,secret' };
  const read = asMap(await askAs(thief, site.door, mine));
  t.deepEqual({ ...asMap(read.open ?? null) }, { [VICTIM]: 'for all' });
  t.is(read.secret, undefined);
});

test('with a stolen key an attacker writes only under its own id, and fires only permitted events', async (t) => {
  const site = await startSite(t, 'zeromq', { config });
  const jid = await liveAsVictim(site);
  const thief = await signInWithStolenKey(t, site);
  const ofVictim = { cmd: '_minion_event', tag: 'victim/secret', data: { password: SECRET } };
  await askAs(victim, site.door, ofVictim);
  const fired: MasterEvent[] = [];
  const changes = await site.changesBy(async () => {
    const events = await site.operator.eventsDuring(async () => {
      for (const [cmd, load] of Object.entries(requests)) {
        for (const claim of claims) {
          await site.door.ask(requestBy(thief, { cmd, ...load, ...claim }));
          await site.door.ask(requestBy(thief, { cmd, ...load, ...claim, id: VICTIM }));
          await site.door.ask(requestBy({ ...thief, id: VICTIM }, { cmd, ...load, ...claim }));
          await site.door.ask(oldRequest({ cmd, ...load, ...claim, id: VICTIM, tok: undefined }));
          await site.door.ask(oldRequest({ cmd, ...load, ...claim, id: HOSTILE, tok: token }));
        }
      }
      const forged = { cmd: '_return', jid, fun: 'test.ping', return: 'lie' };
      await site.door.ask(requestBy(thief, forged));
    });
    fired.push(...events);
  });
  t.false(changes.some((name) => name.includes(jid)));
  t.true(changes.includes(`mine/${HOSTILE}/fun`));
  for (const { tag, data } of fired) {
    t.is(data.id ?? HOSTILE, HOSTILE, tag);
    t.regex(tag, /^(minion_start|minion\/refresh\/vecminion|salt\/job\/\d{20}\/ret\/vecminion)$/);
  }
  t.true(fired.some(({ tag }) => tag === 'minion_start'));
  const signal = { cmd: '_minion_event', tag: granted, data: {} };
  const [event] = await site.operator.eventsDuring(() => askAs(thief, site.door, signal));
  t.is(event?.tag, granted);
  const stillOpen = await site.operator.master.jobs.show(jid);
  t.deepEqual(stillOpen.returns, []);
  const decisions = await recordedDecisions(t, site);
  t.deepEqual(
    changes.filter((name) => !isOwn(name) && !decisions.has(name)),
    [],
  );
  for (const { minion, texts, content } of decisions.values()) {
    const isOfAttacker = minion === HOSTILE;
    if (!isOfAttacker) t.deepEqual([minion, texts], [VICTIM, [ofVictim.tag]]);
    t.is(content.includes(SECRET), !isOfAttacker, String(texts));
  }
  t.true([...decisions.values()].some(({ minion }) => minion === HOSTILE));
  t.true([...decisions.values()].some(({ minion }) => minion === VICTIM));
});

/** Content of a stored record of decisions. */
interface RecordedDecision {
  readonly minion: WireValue | undefined;
  readonly texts: WireValue | undefined;
  readonly content: Buffer;
}

/**
 * Stops the master, which then stores all records of its decisions. Checks that they are encrypted,
 * and returns their content by the names of their rows.
 */
async function recordedDecisions(
  t: ExecutionContext,
  { operator: { master, directory, store } }: Site,
): Promise<Map<string, RecordedDecision>> {
  await master.close();
  const seal = await openSeal(path.join(directory, 'state'));
  const found = new Map<string, RecordedDecision>();
  for await (const { key, value } of store.list(['decisions'])) {
    t.false(Buffer.from(value).includes(SECRET), key.join('/'));
    const content = Buffer.from(seal.open(value));
    // The first two bytes are the version of the row.
    const { minion, texts } = asMap(unpackWire(content.subarray(2)));
    found.set(key.join('/'), { minion, texts, content });
  }
  return found;
}

test('with a stolen key an attacker reads every job, but cannot publish one', async (t) => {
  const site = await startSite(t, 'tcp', { config });
  const next = await listen(t, 'tcp', site.publishPort);
  const thief = await signInWithStolenKey(t, site);
  for (const cmd of ['minion_pub', 'minion_publish', 'publish']) {
    const load = { fun: 'test.ping', arg: [], tgt: '*', ret: '' };
    await site.door.ask(requestBy(thief, { cmd, ...load }));
  }
  for await (const _update of site.operator.master.jobs.run({ tgt: '*', fun: 'test.echo' })) break;
  const job = openPublication(packWire(await next()), {
    key: aesKey,
    masterPublic: parsePublicKey(pem('master').publicPem),
    requireSignature: true,
  });
  t.is(asMap(job).fun, 'test.echo', 'the first that was published is the one of the operator');
});

test('these requests can be forged until an id has proved protocol 3, and the doctor names it', async (t) => {
  const site = await startSite(t, 'zeromq', { config, pins: { [VICTIM]: 2 } });
  const jid = await liveInOldProtocol(site);
  const forgeable: string[] = [];
  for (const [cmd, load] of Object.entries({
    ...requests,
    _return: { ...requests._return, jid },
  })) {
    let events: MasterEvent[] = [];
    const changes = await site.changesBy(async () => {
      const forged = oldRequest({ cmd, ...load, id: VICTIM, tok: undefined });
      events = await site.operator.eventsDuring(() => site.door.ask(forged));
    });
    if (changes.length > 0 || events.length > 0) forgeable.push(cmd);
  }
  t.deepEqual(forgeable.sort(), ['_pillar', '_return']);
  const directory = temporaryDirectory(t);
  const report = await runDoctor({ directory, openApi: async () => site.operator.master });
  const finding = report.findings.find(({ code }) => code === 'protocol-low');
  t.is(finding?.subject, VICTIM);
});

/** Whether a name belongs to the holder of the key: its rows, its jobs and its folder. */
function isOwn(name: string): boolean {
  const isOwnRow = name.split('/').some((it) => it === HOSTILE || it === `minion ${HOSTILE}`);
  return isOwnRow || ownNames.has(name) || /^jobs\/\d{20}$/.test(name);
}

/** Parents of the folder with the files that it pushed. */
const ownNames: ReadonlySet<string> = new Set(['cache', 'cache/minions']);

/** Creates a victim with an old protocol version. It has a job to answer. */
async function liveInOldProtocol({ operator }: Site): Promise<string> {
  for await (const update of operator.master.jobs.run({ tgt: VICTIM, fun: 'test.ping' })) {
    if (update.type === 'published') return update.jid;
  }
  throw new Error('nothing was published');
}

/**
 * Decrypts a reply with the session key. Returns nothing for a reply that is encrypted with another
 * key.
 */
function opened(reply: Uint8Array, { key }: Actor): Buffer {
  const value = unpackWire(reply);
  const blob = wireBytes(value) ?? (isWireMap(value) ? wireBytes(value.pillar) : undefined);
  if (blob === undefined) return Buffer.from(reply);
  try {
    return openCrypticle(key, blob);
  } catch {
    return Buffer.from(reply);
  }
}

function asMap(value: WireValue): WireMap {
  if (!isWireMap(value)) throw new TypeError('not a map');
  return value;
}

// These texts must not appear in the log even at its lowest level [THREATS C-11, G-12].

const planted = 'planted-secret-7f3a';

test('no secret is logged at level trace, for any request', async (t) => {
  const lines: string[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  const master = await startVectorMaster(t, {
    logger: createLogger('trace', destination),
    pillar: async () => ({ password: planted }),
    config: { limits: { requestsPerSecond: 0 } },
  });
  const { master: running, ask } = master;
  const kwarg = { password: planted };
  for await (const { type, jid } of running.jobs.run({
    tgt: '*',
    fun: 'a.b',
    arg: [planted],
    kwarg,
  })) {
    if (type !== 'published') continue;
    const load = { jid, fun: 'a.b', return: planted, nonce: freshNonce() };
    await ask(altered(recorded('return', 'simple v3'), { load }));
  }
  const asked = [
    altered(recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1'), {
      load: { grains: { id: planted } },
    }),
    altered(recorded('minion_event', 'start event v3'), { load: { data: planted, tag: 'my/tag' } }),
    altered(recorded('minion_event', 'start event v3'), { load: { tok: planted } }),
    altered(recorded('minion_event', 'start event v3'), { load: { nonce: planted } }),
    altered(recorded('minion_event', 'start event v3'), { load: { cmd: planted } }),
    altered(recorded('minion_event', 'start event v3'), { envelope: { enc_algo: planted } }),
    altered(recorded('return', 'simple v3'), { load: { jid: planted, return: planted } }),
    base64(recorded('auth', 'v3 pending, different key').request_b64),
  ];
  for (const request of asked) await ask(request);
  const random = seeded(7);
  for (let count = 0; count < 300; count += 1) await ask(mutated(random));
  await isHeard(t, master);
  const log = lines.join('');
  t.true(lines.length > 50, 'the log says something');
  t.true(lines.every((line) => line.endsWith('\n') && JSON.parse(line) !== null));
  const privateLine = pem('master').privatePem.split('\n')[1] ?? 'no key';
  for (const secret of [planted, keys.aes, keys.session, privateLine, token.toString('base64')]) {
    t.false(log.includes(secret), `${secret.slice(0, 10)}…`);
  }
});

test('fields with secrets are redacted if code logs them nevertheless', (t) => {
  const lines: string[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  const log = createLogger('trace', destination);
  log.info({ token: planted, load: { tok: planted, pillar: { a: planted }, arg: [planted] } }, 'x');
  t.false(lines.join('').includes(planted));
  t.true(lines.join('').includes('[redacted]'));
});

// The arguments or values of these functions are secret. Only the caller may see them.

const adminCredentials = { username: 'limited', password, eauth: 'sharedsecret' };

/** Creates the body of `mk_token`. Fields beside the command's own would identify the caller. */
function mkToken(more: WireMap = {}): object {
  return { client: 'runner', fun: 'auth.mk_token', kwarg: { ...adminCredentials, ...more } };
}

/** Returns the only element of a response. */
function returned({ json: body }: { readonly json: unknown }): WireMap {
  return (body as { return: [WireMap] }).return[0];
}

/** Returns the result of a wheel function. */
function wheelReturned(answer: { readonly json: unknown }): WireMap {
  return (returned(answer).data as { return: WireMap }).return;
}

/** Returns everything that others may see: events while a task runs, and stored jobs. */
async function seenDuring(
  { eventsDuring, run }: RunningApi,
  token: string,
  work: () => Promise<void>,
): Promise<string> {
  const events = await eventsDuring(work);
  const { text } = await run(token, { client: 'runner', fun: 'jobs.list_jobs' });
  return JSON.stringify(events) + text;
}

async function start(
  t: ExecutionContext,
  setup?: Parameters<typeof startApi>[1],
): Promise<readonly [RunningApi, string]> {
  const api = await startApi(t, { minions: [], ...setup });
  return [api, await api.login()];
}

test('auth.mk_token creates a token for credentials, and auth.del_token revokes it', async (t) => {
  const [api, token] = await start(t, { minions: ['web1'] });
  let made: WireMap = {};
  const seen = await seenDuring(api, token, async () => {
    made = returned(await api.run(token, mkToken()));
    await api.run(token, { ...mkToken(), client: 'runner_async' });
  });
  t.like(made, { name: 'limited', eauth: 'sharedsecret' });
  t.is(typeof made.start, 'number');
  t.false(seen.includes(password));
  t.false(seen.includes(String(made.token)));
  t.regex(seen, /runner\.auth\.mk_token/);
  const ping = { client: 'local', tgt: 'web1', fun: 'test.ping', token: made.token };
  const byToken = { method: 'POST', path: '/run', headers: json(), body: ping };
  t.is((await api.ask(byToken)).status, 200);
  const ended = { client: 'runner', fun: 'auth.del_token', arg: [made.token] };
  t.deepEqual((await api.run(token, ended)).json, { return: [true] });
  t.deepEqual((await api.run(token, ended)).json, { return: [false] });
  t.is((await api.ask(byToken)).status, 401);
});

test('auth.mk_token rejects wrong credentials, and addresses that api_acl forbids', async (t) => {
  const users = { admin: ['*'], limited: ['127.0.0.1'] };
  const [api, token] = await start(t, { config: { restCherrypy: { apiAcl: { users } } } });
  t.deepEqual(returned(await api.run(token, mkToken({ password: 'wrong' }))), {});
  t.deepEqual(returned(await api.run(token, mkToken())), {});
  t.like(returned(await api.run(token, mkToken({ username: 'admin' }))), { name: 'admin' });
  t.is((await api.run(await api.login('limited'), mkToken())).status, 401);
});

test('key.gen creates a pair without storing it, and key.gen_accept accepts the created key', async (t) => {
  const [api, token] = await start(t);
  let made: WireMap = {};
  const seen = await seenDuring(api, token, async () => {
    made = wheelReturned(await api.run(token, { client: 'wheel', fun: 'key.gen', id_: 'x' }));
    await api.run(token, { client: 'wheel_async', fun: 'key.gen' });
  });
  const ofPrivate = createPublicKey(String(made.priv)).export({ type: 'spki', format: 'pem' });
  t.is(String(ofPrivate), String(made.pub));
  t.notRegex(seen, /PRIVATE KEY/);
  t.deepEqual(await api.master.keys.list(), []);
  const accepting = { client: 'wheel', fun: 'key.gen_accept', id_: 'box' };
  const { pub, priv } = wheelReturned(await api.run(token, accepting));
  t.like(await api.master.keys.list(), [{ id: 'box', state: 'accepted' }]);
  t.is((await api.master.keys.list())[0]?.publicKey.trim(), String(pub).trim());
  t.regex(String(priv), /PRIVATE KEY/);
  t.deepEqual({ ...wheelReturned(await api.run(token, accepting)) }, {});
});

test('doc.execution returns the documentation that minions report', async (t) => {
  const docs = { 'test.ping': 'Is it there?', 'test.arg': 'Gives back.' };
  const [api, token] = await start(t, {
    minions: ['web1', 'db1'],
    functions: { 'sys.doc': () => docs },
  });
  t.deepEqual(returned(await api.run(token, { client: 'runner', fun: 'doc.execution' })), docs);
});
