/** File requests that Salt's minions would not send, and large numbers of requests. */

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import test, { type ExecutionContext } from 'ava';
import { createMemoryFiles, type FileServerBackend } from '#master';
import {
  type CrypticleKey,
  isWireMap,
  type ProtocolVersion,
  parseKeyString,
  parsePrivateKey,
  parsePublicKey,
  unpackWire,
  type WireMap,
  type WireValue,
  wireBytes,
} from '#minion-protocol';
import { encodeRequest } from '#minion-protocol/encode-request.ts';
import { openPrivateReply, openSendReply } from '#minion-protocol/reply.ts';
import { rsaDecrypt } from '#minion-protocol/rsa.ts';
import { minionToken } from '#minion-protocol/x931.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import {
  RECORDED_AT,
  startVectorMaster,
  type VectorMaster,
  type VectorMasterOptions,
} from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import {
  cases,
  type JsonObject,
  object,
  pem,
  text,
  toWireValue,
  vectorFile,
} from '../../helpers/vectors.ts';

const served = recorded('aes_functions', '_serve_file v3');
const missing = { data: '', dest: '' };

/** Starts a master with a secret file beside its root. */
async function start(
  t: ExecutionContext,
  options: VectorMasterOptions = {},
): Promise<VectorMaster> {
  const directory = temporaryDirectory(t);
  const root = path.join(directory, 'srv');
  mkdirSync(path.join(root, 'sub'), { recursive: true });
  writeFileSync(path.join(directory, 'canary'), 'canary');
  writeFileSync(path.join(root, 'big'), Buffer.alloc(3000, 'abc'));
  writeFileSync(path.join(root, 'sub', 'small'), 'small');
  const config = { fileRoots: { base: [root] }, fileBufferSize: 2000, ...options.config };
  return startVectorMaster(t, { ...options, config });
}

async function ask(
  master: VectorMaster,
  load: Readonly<Record<string, WireValue | undefined>>,
): Promise<WireValue> {
  const nonce = freshNonce();
  const reply = await master.ask(altered(served, { load: { ...load, nonce } }));
  const value = openReply(served, reply, nonce);
  return isWireMap(value) ? { ...value } : value;
}

const strange: readonly WireValue[] = [
  '../canary',
  '/../canary',
  'sub/../../canary',
  '|../canary',
  '../canary?saltenv=base',
  'sub\0/../canary',
  '%2e%2e/canary',
  '..%2fcanary',
  '..\\canary',
  Buffer.from('..\xffcanary', 'latin1'),
  'x'.repeat(100_000),
  `${'sub/'.repeat(5000)}small`,
  '',
  null,
  7,
  true,
  ['sub', 'small'],
  { path: 'big' },
];

test('invalid paths, and paths out of the root, do not exist for any request', async (t) => {
  const master = await start(t);
  for (const path of strange) {
    const what = JSON.stringify(path)?.slice(0, 40);
    t.deepEqual(await ask(master, { path }), missing, what);
    t.is(await ask(master, { cmd: '_file_hash', path }), '', what);
    t.deepEqual(await ask(master, { cmd: '_file_hash_and_stat', path }), ['', null], what);
    t.deepEqual(await ask(master, { cmd: '_file_find', path }), { path: '', rel: '' }, what);
  }
  t.is((await master.counters())['handler-failed'], undefined);
});

test('invalid environments are empty', async (t) => {
  const master = await start(t);
  for (const saltenv of ['..', '../..', '__proto__', '', null, true, ['base'], {}]) {
    t.deepEqual(await ask(master, { path: 'big', saltenv }), missing);
    t.deepEqual(await ask(master, { cmd: '_file_list', saltenv }), []);
    t.deepEqual(await ask(master, { cmd: '_symlink_list', saltenv }), {});
  }
  t.is((await master.counters())['handler-failed'], undefined);
});

test('invalid offsets return no content', async (t) => {
  const master = await start(t);
  for (const loc of [-1, 0.5, Number.POSITIVE_INFINITY, '0', null, undefined, 2n ** 63n]) {
    t.deepEqual(await ask(master, { path: 'big', loc }), missing);
  }
  t.deepEqual(await ask(master, { path: 'big', loc: 2 ** 50 }), { data: '', dest: 'big' });
});

test('a file comes in parts of file_buffer_size', async (t) => {
  const master = await start(t);
  const whole = Buffer.alloc(3000, 'abc').toString();
  t.deepEqual(await ask(master, { path: 'big' }), { data: whole.slice(0, 2000), dest: 'big' });
  const rest = { data: whole.slice(2000), dest: 'big' };
  t.deepEqual(await ask(master, { path: 'big', loc: 2000 }), rest);
});

test('an invalid level of compression is ignored', async (t) => {
  const master = await start(t);
  for (const gzip of [0, -1, 10, 1e9, 0.5, '5', null, true]) {
    const reply = await ask(master, { path: 'sub/small', gzip });
    t.deepEqual(reply, { data: 'small', dest: 'sub/small' });
  }
  const packed = await ask(master, { path: 'sub/small', gzip: 9 });
  if (!isWireMap(packed)) return t.fail();
  t.is(gunzipSync(wireBytes(packed.data) ?? '').toString(), 'small');
});

test('requests for files over file_bytes_per_second are delayed, and all are answered', async (t) => {
  const limits = { fileBytesPerSecond: 400_000, requestsPerSecond: 1, burst: 1 };
  const master = await start(t, { config: { limits } });
  const replies = await Promise.all(
    Array.from({ length: 60 }, () => ask(master, { path: 'sub/small' })),
  );
  for (const reply of replies) t.deepEqual(reply, { data: 'small', dest: 'sub/small' });
  const counters = await master.counters();
  // 800,000 bytes count as 48 requests of 16 KiB. The rate limit of other requests is separate.
  t.true((counters['file-delayed'] ?? 0) >= 1);
  t.true((counters['file-delayed'] ?? 0) <= 12);
});

test('the requests of a highstate with 500 files are not delayed by the default limits', async (t) => {
  const master = await start(t);
  for (let file = 0; file < 500; file += 1) {
    await Promise.all([
      ask(master, { cmd: '_file_hash', path: 'big' }),
      ask(master, { cmd: '_file_hash', path: 'big' }),
      ask(master, { cmd: '_file_find', path: 'big' }),
      ask(master, { path: 'big' }),
      ask(master, { path: 'big', loc: 3000 }),
    ]);
  }
  t.is((await master.counters())['file-delayed'], undefined);
});

test('files in memory are served like others, without file_roots', async (t) => {
  const files = createMemoryFiles({ base: { '_modules/guest.py': 'pass' } });
  const master = await start(t, { fileserver: { backends: [files] } });
  t.deepEqual(await ask(master, { path: '_modules/guest.py' }), {
    data: 'pass',
    dest: '_modules/guest.py',
  });
  t.deepEqual(await ask(master, { path: 'big' }), missing);
  t.deepEqual(await ask(master, { cmd: '_file_list', prefix: '_modules' }), ['_modules/guest.py']);
  t.deepEqual(await ask(master, { cmd: '_file_envs' }), ['base']);
});

test('the work for file lists counts towards file_bytes_per_second', async (t) => {
  const files = createMemoryFiles({ base: { file: '' } });
  const backend: FileServerBackend = {
    name: 'large',
    envs: () => files.envs(),
    find: (path, saltenv) => files.find(path, saltenv),
    close: () => files.close(),
    lists: async (saltenv, requester) => {
      // 256 bytes for each path, which is just above a burst of 2 s.
      await requester?.pay(8_000_000);
      return files.lists(saltenv);
    },
  };
  const master = await start(t, {
    fileserver: { backends: [backend] },
    config: { limits: { fileBytesPerSecond: 1_000_000_000 } },
  });
  t.deepEqual(await ask(master, { cmd: '_file_list', prefix: 'nothing' }), []);
  t.true(((await master.counters())['file-delayed'] ?? 0) >= 1);
});

test('the master accepts no files while file_recv is off', async (t) => {
  const master = await start(t);
  t.is(await ask(master, { cmd: '_file_recv', path: ['x'], loc: 0, data: 'x' }), false);
});

test('top data come from the provider, for the verified id', async (t) => {
  const master = await start(t, {
    tops: async ({ id, grains, saltenv }) => ({ base: [id, String(grains.id), String(saltenv)] }),
  });
  const opts = { id: 'other', grains: { id: 'other' }, saltenv: 'dev' };
  for (const cmd of ['_master_tops', '_ext_nodes']) {
    t.deepEqual(await ask(master, { cmd, opts }), { base: ['vecminion', 'vecminion', 'dev'] });
    t.deepEqual(await ask(master, { cmd, opts: 'none' }), {
      base: ['vecminion', 'vecminion', 'undefined'],
    });
  }
});

test('a failing provider of top data adds nothing', async (t) => {
  const master = await start(t, {
    tops: async () => {
      throw new Error('no data base');
    },
  });
  t.deepEqual(await ask(master, { cmd: '_master_tops', opts: {} }), {});
});

test('minions get the state options of the master', async (t) => {
  const config = {
    stateTop: 'site.sls',
    failhard: true,
    stateAggregate: ['pkg'],
    jinjaEnv: { trim_blocks: true },
    envOrder: ['base', 'dev'],
    topFileMergingStrategy: 'same',
    nodegroups: { web: ['web*', 'or', 'L@a'] },
  } as const;
  const master = await start(t, { config });
  const all = await ask(master, { cmd: '_master_opts' });
  t.like(all, {
    state_top: 'site.sls',
    failhard: true,
    state_aggregate: ['pkg'],
    env_order: ['base', 'dev'],
    top_file_merging_strategy: 'same',
    nodegroups: { web: ['web*', 'or', 'L@a'] },
  });
  const envs = await ask(master, { cmd: '_master_opts', env_only: true });
  t.deepEqual(Object.keys(Object(envs)).sort(), [
    'default_top',
    'env_order',
    'file_roots',
    'top_file_merging_strategy',
  ]);
});

// The start of real minions of every release. The recordings contain the order of requests, the
// names of their fields and the structure of the replies. The bytes are created here with new keys.
// Other tests check recorded bytes.

const minionId = 'minion1';
const { privatePem, publicPem } = pem('minion2');
const privateKey = parsePrivateKey(privatePem);
const recordings = object(vectorFile('startup_transcripts').versions);

for (const release of Object.keys(recordings)) {
  test(`a minion of release ${release} gets the replies of Salt, from start to last return`, async (t) => {
    const master = await startVectorMaster(t, {
      keys: [{ directory: 'minions', id: minionId, publicPem }],
    });
    const minion = new RecordedMinion(t, master);
    const steps = cases(recordings, release);
    for (const [index, step] of steps.entries()) {
      if (step.step === 'publication') await minion.publish(step);
      if (step.step === 'request') await minion.request(step, steps[index + 1] ?? {});
    }
    t.true(minion.answers >= 12, 'the whole recording was replayed');
  });
}

/** A minion that sends the recorded requests, with keys and job ids of this test. */
class RecordedMinion {
  readonly #t: ExecutionContext;
  readonly #master: VectorMaster;
  #aes: CrypticleKey | undefined;
  #session: CrypticleKey | undefined;
  #jid = '';
  answers = 0;

  constructor(t: ExecutionContext, master: VectorMaster) {
    this.#t = t;
    this.#master = master;
  }

  /** Makes the master publish the recorded job. No other minion is connected. */
  async publish(step: JsonObject): Promise<void> {
    const load = map(toWireValue(step.load));
    const updates = this.#master.master.jobs.run({ tgt: minionId, fun: String(load.fun) });
    for await (const update of updates) {
      if (update.type === 'published') this.#jid = update.jid;
      break;
    }
  }

  async request(step: JsonObject, reply: JsonObject): Promise<void> {
    this.answers += 1;
    if (step.value !== undefined) await this.#signIn(map(toWireValue(step.value)), reply);
    else await this.#ask(step, reply);
  }

  async #signIn(recorded: WireMap, reply: JsonObject): Promise<void> {
    const version = protocolVersion(recorded.version);
    const load: WireMap = { ...map(recorded.load ?? null), pub: publicPem };
    const answer = map(
      unpackWire(await this.#master.ask(encodeRequest({ enc: 'clear', version, load }))),
    );
    const accepted = version < 2 ? answer : map(unpackWire(bytes(answer.load)));
    const recordedMap = object(version < 2 ? reply.value : reply.signed_load);
    this.#t.deepEqual(Object.keys(accepted).sort(), Object.keys(recordedMap).sort());
    if (version >= 2) this.#t.is(accepted.nonce, load.nonce);
    this.#aes = this.#keyIn(accepted.aes);
    this.#session = this.#keyIn(accepted.session);
  }

  #keyIn(value: WireValue | undefined): CrypticleKey {
    return parseKeyString(rsaDecrypt(privateKey, bytes(value), 'OAEP-SHA1').toString('latin1'));
  }

  async #ask(step: JsonObject, reply: JsonObject): Promise<void> {
    const version = protocolVersion(object(step.envelope).version);
    const key = version === 3 ? this.#session : this.#aes;
    if (key === undefined) throw new Error('the recording does not begin with a sign-in');
    const { nonce: _nonce, ts: _ts, tok, ...recorded } = map(toWireValue(step.load));
    const nonce = freshNonce();
    const token = minionToken(privateKey);
    const load: WireMap = {
      ...recorded,
      ...(typeof recorded.jid === 'string' ? { jid: this.#jid } : {}),
      ...(tok === undefined || version === 3 ? {} : { tok: token }),
    };
    const answer = await this.#master.ask(
      encodeRequest({
        enc: 'aes',
        version,
        key,
        load,
        ...(version < 2 ? {} : { nonce }),
        ...(version < 3 ? {} : { identity: { id: minionId, ts: RECORDED_AT / 1000, tok: token } }),
      }),
    );
    if (reply.private !== undefined) this.#openPillar(answer, version, nonce);
    else this.#compare(openSendReply(answer, { key, version, nonce }), load, reply);
  }

  #openPillar(answer: Uint8Array, version: ProtocolVersion, nonce: string): void {
    const pillar = openPrivateReply(answer, {
      version,
      nonce,
      minionKey: privateKey,
      masterKey: parsePublicKey(pem('master').publicPem),
      encAlgo: 'OAEP-SHA1',
      sigAlgo: 'PKCS1v15-SHA1',
    });
    this.#t.deepEqual(pillar, Object.create(null));
  }

  /** Compares a reply. Recorded file contents are ignored, because this master has no files. */
  #compare(value: WireValue, { cmd }: WireMap, reply: JsonObject): void {
    const recorded = toWireValue(reply.value);
    if (cmd === '_file_hash' || cmd === '_file_hash_and_stat') return;
    const isSame = shapeOf(value) === shapeOf(recorded) || cmd === '_file_find';
    this.#t.true(isSame, `${text(String(cmd))}: ${shapeOf(value)} for ${shapeOf(recorded)}`);
  }
}

/** Returns the types in a value, and the names in a map. */
function shapeOf(value: WireValue): string {
  if (isWireMap(value)) return `{${Object.keys(value).sort().join()}}`;
  if (Array.isArray(value)) return 'list';
  return value === null ? 'null' : typeof value;
}

function protocolVersion(version: unknown): ProtocolVersion {
  if (version === undefined) return 0;
  if (version === 2 || version === 3) return version;
  throw new TypeError('an unknown version');
}

function map(value: WireValue): WireMap {
  if (!isWireMap(value)) throw new TypeError('not a map');
  return value;
}

function bytes(value: WireValue | undefined): Uint8Array {
  const found = wireBytes(value);
  if (found === undefined) throw new TypeError('not bytes');
  return found;
}
