/** Runners and wheel functions of a running master. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { resolveMasterConfig } from '#config';
import {
  type AuditRequester,
  createMemoryFiles,
  type FileServerBackend,
  type FunctionCall,
  type Master,
  MasterError,
} from '#master';
import { RunningCalls } from '#master/functions/running-calls.ts';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { openFileRoots } from '#salt';
import { saltRunners, saltWheels } from '#salt/not-served.ts';
import { layOut } from '../../helpers/file-tree.ts';
import { startFleet } from '../../helpers/fleet.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories, type StoredKey, startVectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../../helpers/vector-requests.ts';
import { pem } from '../../helpers/vectors.ts';

async function run(master: Master, fun: string, ...arg: readonly WireValue[]): Promise<unknown> {
  const { return: value } = await master.runners.run({ fun, arg });
  return plain(value);
}

async function wheel(master: Master, fun: string, ...arg: readonly WireValue[]): Promise<unknown> {
  const { return: value } = await master.wheel.run({ fun, arg });
  return plain(value);
}

function plain(value: WireValue): unknown {
  if (value instanceof Map) return Object.fromEntries([...value].map(([k, v]) => [k, plain(v)]));
  if (Array.isArray(value)) return value.map(plain);
  if (isWireMap(value)) {
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)]));
  }
  return value;
}

test('jobs are listed, filtered and looked up', async (t) => {
  const { master } = await startFleet(t, { ids: ['a1', 'b1'] });
  const { jid } = await finish(master, { tgt: '*', fun: 'test.echo', arg: ['x'] });
  const { jid: later } = await finish(master, {
    tgt: 'a*',
    fun: 'test.ping',
    metadata: { ticket: 'X-1' },
  });
  const list = async (kwarg: WireMap): Promise<string[]> => {
    const { return: value } = await master.runners.run({ fun: 'jobs.list_jobs', kwarg });
    return value instanceof Map ? [...value.keys()].map(String) : [];
  };
  t.deepEqual(await list({}), [jid, later]);
  t.deepEqual(await list({ search_function: 'test.e*' }), [jid]);
  t.deepEqual(await list({ search_function: ['cmd.*', 'test.ping'] }), [later]);
  t.deepEqual(await list({ search_target: 'a*,c*' }), [later]);
  t.deepEqual(await list({ search_metadata: { ticket: 'X-1', other: 1 } }), [later]);
  t.deepEqual(await list({ start_time: later, search_function: 'test.*' }), [later]);
  t.deepEqual(await list({ end_time: jid }), [jid]);
  t.deepEqual(await list({ end_time: '2001, Jan 02 03:04' }), []);
  t.deepEqual(await list({ start_time: '2001-01-02', search_function: '*.ping' }), [later]);
  t.deepEqual(await run(master, 'jobs.lookup_jid', jid), { a1: 'x', b1: 'x' });
  t.like(await run(master, 'jobs.list_job', later), {
    jid: later,
    Function: 'test.ping',
    Target: 'a*',
    'Target-type': 'glob',
    Minions: ['a1'],
    Metadata: { ticket: 'X-1' },
    Result: { a1: { return: true, retcode: 0, success: true } },
  });
  t.deepEqual(
    Object.keys((await run(master, 'jobs.last_run', null, null, null, 'test.*')) as object),
    [later],
  );
  t.deepEqual(await run(master, 'jobs.exit_success', jid), { a1: true, b1: true });
  t.is(await run(master, 'jobs.last_run', null, null, null, 'no.such'), false);
});

async function finish(
  master: Master,
  request: Parameters<Master['jobs']['run']>[0],
): Promise<{ readonly jid: string }> {
  let jid = '';
  for await (const update of master.jobs.run(request)) jid = update.jid;
  return { jid };
}

test('a job that is not stored is shown as in Salt', async (t) => {
  const { master } = await startVectorMaster(t);
  const jid = '20200101000000000000';
  t.deepEqual(await run(master, 'jobs.list_job', jid), {
    jid,
    Error: 'Cannot contact returner or no job with this jid',
    StartTime: '2020, Jan 01 00:00:00.000000',
    Result: {},
  });
  t.deepEqual(await run(master, 'jobs.lookup_jid', jid), {});
});

test('minions that did not answer are shown on request', async (t) => {
  const { master } = await startVectorMaster(t);
  const { jid } = await master.jobs.publish({ tgt: '*', fun: 'test.ping' });
  t.deepEqual(await run(master, 'jobs.lookup_jid', jid), {});
  t.deepEqual(await run(master, 'jobs.lookup_jid', jid, null, true, true), {
    vecminion: 'Minion did not return',
  });
  t.deepEqual(await run(master, 'jobs.exit_success', jid), { vecminion: false });
});

test('manage queries minions and lists those present', async (t) => {
  const { master, minions } = await startFleet(t, { ids: ['a1', 'b1'] });
  t.deepEqual(await run(master, 'manage.up'), ['a1', 'b1']);
  t.deepEqual(await run(master, 'manage.status', true, 'a*'), { up: ['a1'], down: [] });
  t.deepEqual(await run(master, 'manage.alived'), ['a1', 'b1']);
  t.deepEqual(await run(master, 'manage.list_not_state'), []);
  t.deepEqual(await wheel(master, 'minions.connected'), ['a1', 'b1']);
  await minions.get('b1')?.stop();
  const short = { tgt: 'b1', timeout: 0.1, gather_job_timeout: 0.1 };
  for (const kwarg of [short, { ...short, removekeys: true }]) {
    const { return: down } = await master.runners.run({ fun: 'manage.down', kwarg });
    t.deepEqual(down, ['b1']);
  }
  t.deepEqual((await wheel(master, 'key.list', 'acc')) as unknown, { minions: ['a1'] });
});

test('the cache shows and removes stored data of minions', async (t) => {
  const { master, ask } = await startVectorMaster(t, {
    pillar: async () => ({ role: 'web' }),
  });
  await ask(altered(recorded('aes_functions', '_mine v3'), { load: { nonce: freshNonce() } }));
  await ask(altered(recorded('pillar', 'v3 OAEP-SHA1 PKCS1v15-SHA1'), {}));
  t.like(await run(master, 'cache.grains', '*'), { vecminion: { id: 'vecminion' } });
  t.deepEqual(await run(master, 'cache.pillar', '*'), { vecminion: { role: 'web' } });
  t.deepEqual(await run(master, 'cache.list', 'minions'), ['vecminion']);
  t.like(await run(master, 'cache.fetch', 'minions/vecminion', 'data'), {
    pillar: { role: 'web' },
  });
  t.is(await run(master, 'cache.clear_pillar', '*'), true);
  t.deepEqual(await run(master, 'cache.pillar', '*'), {});
  t.like(await run(master, 'cache.grains', '*'), { vecminion: { id: 'vecminion' } });
  t.is(await run(master, 'cache.clear_grains', '*'), true);
  t.deepEqual(await run(master, 'cache.list', 'minions'), []);
  t.deepEqual(await run(master, 'cache.mine', '*'), {
    vecminion: { 'network.ip_addrs': ['192.0.2.10'], 'test.ping': true },
  });
  const flag = { clear_mine_func_flag: 'test.ping' };
  await master.runners.run({ fun: 'cache.clear_mine_func', arg: ['*'], kwarg: flag });
  t.deepEqual(await run(master, 'mine.get', '*', 'network.ip_addrs'), {
    vecminion: ['192.0.2.10'],
  });
  t.is(await run(master, 'cache.clear_mine', '*'), true);
  t.deepEqual(await run(master, 'cache.mine', '*'), {});
  t.is(await run(master, 'cache.clear_all'), false);
});

test('pillar is shown as currently compiled', async (t) => {
  const { master } = await startVectorMaster(t, {
    pillar: async ({ id, grains, saltenv = '' }) => ({ id, saltenv, role: grains.role ?? null }),
  });
  const call = { fun: 'pillar.show_pillar', arg: ['web1'], kwarg: { role: 'db', saltenv: 'dev' } };
  const { return: value } = await master.runners.run(call);
  t.deepEqual(plain(value), { id: 'web1', saltenv: 'dev', role: 'db' });
});

test('runs are reported as by Salt, and events are sent', async (t) => {
  const { master, eventsDuring } = await startVectorMaster(t);
  const events = await eventsDuring(() =>
    master.runners.run({ fun: 'event.send', arg: ['my/tag', { a: 1 }], user: 'root' }),
  );
  const [first, sent, last] = events;
  t.regex(first?.tag ?? '', /^salt\/run\/\d{20}\/new$/);
  t.like(first?.data, { fun: 'runner.event.send', user: 'root', fun_args: ['my/tag', { a: 1 }] });
  t.is(sent?.tag, 'my/tag');
  t.like(sent?.data, { a: 1 });
  t.is(last?.tag, first?.tag.replace(/new$/, 'ret'));
  t.like(last?.data, { fun: 'runner.event.send', return: true, success: true });
});

test('wheel functions are reported under their own tags', async (t) => {
  const { master, eventsDuring } = await startVectorMaster(t);
  const events = await eventsDuring(() => master.wheel.run({ fun: 'key.list_all' }));
  t.deepEqual(
    events.map(({ tag }) => tag.replace(/\d{20}/, 'JID')),
    ['salt/wheel/JID/new', 'salt/wheel/JID/ret'],
  );
  for (const { data } of events) t.like(data, { fun: 'wheel.key.list_all', user: 'saltbridge' });
});

test('a runner that was started in the background is stored as a job', async (t) => {
  const { master } = await startVectorMaster(t);
  const events = await master.events.subscribe({ match: 'salt/run/*/ret' });
  const { jid, tag } = await master.runners.start({ fun: 'saltutil.sync_modules' });
  const reader = events[Symbol.asyncIterator]();
  const { value: event } = await reader.next();
  t.is(event?.tag, `${tag}/ret`);
  const kept = async (): Promise<unknown> => run(master, 'jobs.lookup_jid', jid);
  for (let found = await kept(); ; found = await kept()) {
    if (Object.keys(found as object).length === 0) continue;
    t.like(Object.values(found as object)[0], { fun: 'runner.saltutil.sync_modules', return: [] });
    break;
  }
});

test('a failed function is a result', async (t) => {
  const { master } = await startVectorMaster(t, {
    pillar: async () => {
      throw new Error('no pillar today');
    },
  });
  const result = await master.runners.run({ fun: 'pillar.show_pillar' });
  t.like(result, { success: false, retcode: 1 });
  t.is(result.return, 'Exception occurred in runner pillar.show_pillar: no pillar today');
});

for (const [what, call, code] of [
  ['a function that nobody has', { fun: 'no.such' }, 'ERR_UNKNOWN_FUN'],
  ['a name on the table itself', { fun: 'constructor' }, 'ERR_UNKNOWN_FUN'],
  ['one that only Salt has', { fun: 'manage.safe_accept' }, 'ERR_NOT_SERVED'],
  ['an argument too many', { fun: 'event.send', arg: ['t', {}, 1] }, 'ERR_ARGS'],
  ['a keyword that it has not', { fun: 'manage.up', kwarg: { expr_form: 'glob' } }, 'ERR_ARGS'],
  ['a value of another type', { fun: 'event.send', arg: ['t', 'text'] }, 'ERR_ARGS'],
  ['a missing argument', { fun: 'jobs.lookup_jid' }, 'ERR_ARGS'],
  [
    'an argument that is given twice',
    { fun: 'jobs.lookup_jid', arg: ['1'], kwarg: { jid: '1' } },
    'ERR_ARGS',
  ],
  ['a jid that is none', { fun: 'manage.alived', jid: 'x' }, 'ERR_ARGS'],
] as const satisfies readonly (readonly [string, FunctionCall, string])[]) {
  test(`${what} is refused before any event is sent`, async (t) => {
    const { master, eventsDuring } = await startVectorMaster(t);
    const events = await eventsDuring(() =>
      t.throwsAsync(master.runners.run(call), { instanceOf: MasterError, code }),
    );
    t.deepEqual(events, []);
  });
}

test('every function exists in Salt, and is documented', async (t) => {
  const { master } = await startVectorMaster(t);
  for (const [api, known] of [
    [master.runners, saltRunners],
    [master.wheel, saltWheels],
  ] as const) {
    const docs = await api.docs();
    for (const [name, text] of Object.entries(docs)) {
      t.true(known.has(name), name);
      t.true(text.length > name.length + 4, name);
    }
  }
  t.deepEqual(Object.keys(await master.runners.docs('event')), ['event.send']);
  t.deepEqual(Object.keys(await master.runners.docs('event.send')), ['event.send']);
});

// The `fileserver` and `saltutil` runners, which show what is served.

async function runFileserver(master: Master, fun: string, kwarg: WireMap = {}): Promise<WireValue> {
  const { return: value, success } = await master.runners.run({ fun, kwarg });
  return success ? JSON.parse(JSON.stringify(value)) : { failed: value };
}

interface Served {
  readonly master: Master;
  readonly root: string;
}

/** Serves `roots` with `base` and `dev`, and `memory` with one file in `base`. */
async function serve(t: ExecutionContext): Promise<Served> {
  const root = temporaryDirectory(t);
  layOut(root, {
    'base/a': '1',
    'base/sub/b': '2',
    'base/empty': null,
    'base/link': { link: 'a' },
    'base/_runners/mine.py': '',
    'base/_runners/mine.txt': '',
    'dev/d': '3',
  });
  const fileRoots = { base: [path.join(root, 'base')], dev: [path.join(root, 'dev')] };
  const roots = await openFileRoots(resolveMasterConfig({ fileRoots }));
  const memory = createMemoryFiles({ base: { 'from/memory': 'm' } });
  const { master } = await startVectorMaster(t, { fileserver: { backends: [roots, memory] } });
  return { master, root };
}

test('served files are listed by environment and by backend', async (t) => {
  const { master } = await serve(t);
  t.deepEqual(await runFileserver(master, 'fileserver.envs'), ['base', 'dev']);
  t.deepEqual(await runFileserver(master, 'fileserver.envs', { backend: 'memory' }), ['base']);
  t.deepEqual(await runFileserver(master, 'fileserver.envs', { sources: true }), [
    'memory',
    'roots',
  ]);
  t.deepEqual(await runFileserver(master, 'fileserver.file_list', { backend: ['roots'] }), [
    '_runners/mine.py',
    '_runners/mine.txt',
    'a',
    'link',
    'sub/b',
  ]);
  t.deepEqual(await runFileserver(master, 'fileserver.file_list', { backend: '-roots' }), [
    'from/memory',
  ]);
  t.deepEqual(await runFileserver(master, 'fileserver.file_list', { backend: 'git' }), []);
  t.deepEqual(await runFileserver(master, 'fileserver.file_list', { saltenv: 'dev' }), ['d']);
  t.deepEqual(await runFileserver(master, 'fileserver.dir_list'), [
    '_runners',
    'empty',
    'from',
    'sub',
  ]);
  t.deepEqual(await runFileserver(master, 'fileserver.empty_dir_list'), ['empty']);
  t.deepEqual(await runFileserver(master, 'fileserver.symlink_list'), { link: 'a' });
  t.deepEqual(await runFileserver(master, 'fileserver.file_list', { saltenv: 'none' }), []);
});

test('lists are built again on request', async (t) => {
  const { master, root } = await serve(t);
  t.deepEqual(await runFileserver(master, 'fileserver.clear_file_list_cache'), {
    roots: ['base', 'dev'],
  });
  const dev = { saltenv: 'dev' };
  t.deepEqual(await runFileserver(master, 'fileserver.clear_file_list_cache', dev), {
    roots: ['dev'],
  });
  t.deepEqual(
    await runFileserver(master, 'fileserver.clear_file_list_cache', { backend: 'memory' }),
    {},
  );
  writeFileSync(path.join(root, 'dev', 'new'), '');
  t.is(await runFileserver(master, 'fileserver.update'), true);
  t.deepEqual(await runFileserver(master, 'fileserver.file_list', dev), ['d', 'new']);
});

test('an update reaches exactly the backends that cache lists', async (t) => {
  const refreshed: unknown[] = [];
  const backend = (name: string): FileServerBackend => ({
    ...createMemoryFiles(),
    name,
    envs: () => ['base'],
    close: async () => {},
    refresh: async (saltenvs) => {
      refreshed.push([name, saltenvs]);
      return saltenvs ?? ['base'];
    },
  });
  const { master } = await startVectorMaster(t, {
    fileserver: { backends: [backend('first'), backend('second'), createMemoryFiles()] },
  });
  t.is(await runFileserver(master, 'fileserver.update', { backend: 'second', remotes: 'x' }), true);
  t.deepEqual(refreshed, [['second', undefined]]);
  await runFileserver(master, 'fileserver.clear_file_list_cache', { saltenv: 'base,dev' });
  t.deepEqual(refreshed.slice(1), [
    ['first', ['base', 'dev']],
    ['second', ['base', 'dev']],
  ]);
});

test('version control has no caches and locks', async (t) => {
  const { master } = await serve(t);
  t.is(await runFileserver(master, 'fileserver.clear_cache'), 'No cache was cleared');
  t.is(
    await runFileserver(master, 'fileserver.clear_lock', { remote: 'x' }),
    'No locks were removed',
  );
  t.is(await runFileserver(master, 'fileserver.lock'), 'No locks were set');
});

test('modules for a master are not copied, and the runner names them', async (t) => {
  const { master, root } = await serve(t);
  mkdirSync(path.join(root, 'dev/_runners'));
  writeFileSync(path.join(root, 'dev/_runners/other.py'), '');
  await runFileserver(master, 'fileserver.update');
  t.deepEqual(await runFileserver(master, 'saltutil.sync_modules'), []);
  for (const [fun, kwarg, file] of [
    ['saltutil.sync_runners', {}, '_runners/mine.py'],
    ['saltutil.sync_all', { saltenv: 'dev' }, '_runners/other.py'],
  ] as const) {
    const { failed } = Object(await runFileserver(master, fun, kwarg));
    t.true(String(failed).includes(`runs no Python modules (${file})`), String(failed));
  }
});

// The wheel functions read files only below the file roots.

async function runFileRoots(master: Master, fun: string, kwarg: WireMap = {}): Promise<WireValue> {
  const { return: value, success } = await master.wheel.run({ fun: `file_roots.${fun}`, kwarg });
  return success ? JSON.parse(JSON.stringify(value)) : { failed: value };
}

interface ServedRoots {
  readonly master: Master;
  readonly below: (place: string) => string;
}

/**
 * Serves two roots in `base`, and `all`, whose root contains everything, including the master's own
 * files.
 */
async function serveRoots(t: ExecutionContext): Promise<ServedRoots> {
  const directory = temporaryDirectory(t);
  const below = (place: string): string => path.join(directory, place);
  layOut(directory, {
    'one/a': 'first ä',
    'one/sub/b': new Uint8Array([1, 0, 2]),
    'one/empty': null,
    'one/latin': new Uint8Array([0x61, 0xe4, 0x62]),
    'one/way/out': { link: '../../secret' },
    'one/inside': { link: 'sub' },
    'two/a': 'second',
    secret: 'secret',
    'pki/own': 'key',
  });
  const { master } = await startVectorMaster(t, {
    config: {
      ...directories(temporaryDirectory(t)),
      pkiDir: below('pki'),
      fileRoots: { base: [below('one'), below('two')], all: [directory] },
    },
  });
  return { master, below };
}

test('a file is found in each root that contains it', async (t) => {
  const { master, below } = await serveRoots(t);
  t.deepEqual(await runFileRoots(master, 'find', { path: 'a' }), [
    { [below('one/a')]: 'txt' },
    { [below('two/a')]: 'txt' },
  ]);
  t.deepEqual(await runFileRoots(master, 'find', { path: 'sub/b' }), [
    { [below('one/sub/b')]: 'bin' },
  ]);
  t.deepEqual(await runFileRoots(master, 'find', { path: 'sub' }), []);
  t.deepEqual(await runFileRoots(master, 'find', { path: 'a', saltenv: 'none' }), []);
  t.deepEqual(await runFileRoots(master, 'find', { path: 'a', saltenv: 'constructor' }), []);
});

test('only text is read', async (t) => {
  const { master, below } = await serveRoots(t);
  t.deepEqual(await runFileRoots(master, 'read', { path: 'a' }), [
    { [below('one/a')]: 'first ä' },
    { [below('two/a')]: 'second' },
  ]);
  t.deepEqual(await runFileRoots(master, 'read', { path: 'sub/b' }), []);
  t.deepEqual(await runFileRoots(master, 'read', { path: 'latin' }), []);
});

for (const [what, call] of [
  ['a path that leads out', { path: '../secret' }],
  ['a path that leads out on its way', { path: 'sub/../../secret' }],
  ['an absolute path', { path: '/etc/hostname' }],
  ['a link that leads out', { path: 'way/out' }],
  ["the master's own keys below a root", { path: 'pki/own', saltenv: 'all' }],
] as const) {
  test(`${what} finds and reads nothing`, async (t) => {
    const { master } = await serveRoots(t);
    t.deepEqual(await runFileRoots(master, 'find', call), []);
    t.deepEqual(await runFileRoots(master, 'read', call), []);
  });
}

test('environments are listed as trees, without hidden files', async (t) => {
  const { master, below } = await serveRoots(t);
  const base = {
    [below('one')]: {
      a: 'f',
      empty: {},
      inside: {},
      latin: 'f',
      sub: { b: 'f' },
      way: { out: 'f' },
    },
    [below('two')]: { a: 'f' },
  };
  t.deepEqual(await runFileRoots(master, 'list_env'), base);
  t.deepEqual(await runFileRoots(master, 'list_env', { saltenv: 'none' }), {});
  const roots = await runFileRoots(master, 'list_roots');
  t.like(roots, { base: [base] });
  t.false(JSON.stringify(roots).includes('own'));
});

// Keys through wheel functions, with Salt's names.

const { publicPem } = pem('minion');
const keys: readonly StoredKey[] = (
  [
    ['minions', 'web1'],
    ['minions_pre', 'web2'],
    ['minions_pre', 'db1'],
    ['minions_rejected', 'old1'],
  ] as const
).map(([directory, id]) => ({ directory, id, publicPem }));

async function runKeyWheel(master: Master, fun: string, kwarg: WireMap = {}): Promise<WireValue> {
  const { return: value, success } = await master.wheel.run({ fun, kwarg });
  return success ? JSON.parse(JSON.stringify(value)) : { failed: value };
}

test('keys are listed by state', async (t) => {
  const { master } = await startVectorMaster(t, { keys });
  t.deepEqual(await runKeyWheel(master, 'key.list_all'), {
    minions: ['web1'],
    minions_pre: ['db1', 'web2'],
    minions_rejected: ['old1'],
    minions_denied: [],
    local: ['master.pem', 'master.pub'],
  });
  t.deepEqual(await runKeyWheel(master, 'key.list', { match: 'un' }), {
    minions_pre: ['db1', 'web2'],
  });
  t.deepEqual(await runKeyWheel(master, 'key.list', { match: 'nothing' }), {});
  t.deepEqual(await runKeyWheel(master, 'key.name_match', { match: 'web*,old?' }), {
    minions: ['web1'],
    minions_pre: ['web2'],
    minions_rejected: ['old1'],
  });
});

test('keys are accepted, rejected and deleted by glob', async (t) => {
  const { master } = await startVectorMaster(t, { keys });
  t.deepEqual(await runKeyWheel(master, 'key.accept', { match: 'web*' }), {
    minions: ['web1', 'web2'],
  });
  t.deepEqual(await runKeyWheel(master, 'key.reject', { match: 'db1' }), {
    minions_rejected: ['db1'],
  });
  const all = { match: '*1', include_rejected: true };
  t.deepEqual(await runKeyWheel(master, 'key.accept', all), { minions: ['db1', 'old1', 'web1'] });
  t.deepEqual(await runKeyWheel(master, 'key.delete', { match: 'web*,db*' }), {});
  t.deepEqual(await runKeyWheel(master, 'key.list', { match: 'acc' }), { minions: ['old1'] });
});

test('a map names keys by state, and skips keys in another state', async (t) => {
  const { master } = await startVectorMaster(t, { keys });
  const match = { minions_pre: ['web2', 'web1'], minions_rejected: ['old1'] };
  t.deepEqual(await runKeyWheel(master, 'key.accept_dict', { match }), {
    minions: ['web2'],
    minions_rejected: ['old1'],
  });
  const doomed = { minions: ['web1'], minions_pre: ['web2'] };
  t.deepEqual(await runKeyWheel(master, 'key.delete_dict', { match: doomed }), {});
  t.deepEqual(await runKeyWheel(master, 'key.list', { match: 'acc' }), { minions: ['web2'] });
  const strange = { match: { minions_pre: 'db1' } };
  t.like(await runKeyWheel(master, 'key.reject_dict', strange), {
    failed:
      'Exception occurred in wheel key.reject_dict: match: the value of minions_pre must be a list of ids',
  });
});

test('a map acts on the named folder, even if the id has a key in another', async (t) => {
  const other = pem('other_minion').publicPem;
  const denied: StoredKey = { directory: 'minions_denied', id: 'web1', publicPem: other };
  const waiting: StoredKey = { directory: 'minions_denied', id: 'web2', publicPem: other };
  const { master } = await startVectorMaster(t, { keys: [...keys, denied, waiting] });
  const dropped = { match: { minions_denied: ['web1'] } };
  t.deepEqual(await runKeyWheel(master, 'key.delete_dict', dropped), { minions: ['web1'] });
  t.deepEqual(await runKeyWheel(master, 'key.delete_dict', dropped), {});
  const accepted = { match: { minions_denied: ['web2'] }, include_denied: true };
  t.deepEqual(await runKeyWheel(master, 'key.accept_dict', accepted), { minions: ['web2'] });
  t.is((await master.keys.list()).find(({ id }) => id === 'web2')?.publicKey, other);
});

test('a map deletes or rejects the named key if an id has two', async (t) => {
  const other = pem('other_minion').publicPem;
  const denied = ['web1', 'web2'].map((id) => ({
    directory: 'minions_denied' as const,
    id,
    publicPem: other,
  }));
  const { master } = await startVectorMaster(t, { keys: [...keys, ...denied] });
  const deleted = { match: { minions: ['web1'] } };
  t.deepEqual(await runKeyWheel(master, 'key.delete_dict', deleted), { minions_denied: ['web1'] });
  const rejected = { match: { minions_pre: ['web2'] }, include_denied: true };
  t.deepEqual(await runKeyWheel(master, 'key.reject_dict', rejected), {
    minions_rejected: ['web2'],
    minions_denied: ['web2'],
  });
});

test('keys and fingerprints are shown', async (t) => {
  const { master } = await startVectorMaster(t, { keys });
  const listed = (await master.keys.list()).find(({ id }) => id === 'web1');
  t.deepEqual(await runKeyWheel(master, 'key.print', { match: 'web1' }), {
    minions: { web1: listed?.publicKey },
  });
  t.deepEqual(await runKeyWheel(master, 'key.finger', { match: 'web1' }), {
    minions: { web1: listed?.fingerprint },
  });
  const short = await runKeyWheel(master, 'key.finger', { match: 'web1', hash_type: 'md5' });
  t.regex(JSON.stringify(short), /"([0-9a-f]{2}:){15}[0-9a-f]{2}"/);
  const [own] = await master.keys.local();
  t.deepEqual(await runKeyWheel(master, 'key.finger_master'), {
    local: { 'master.pub': own?.fingerprint },
  });
  t.regex(JSON.stringify(await runKeyWheel(master, 'key.master_key_str')), /BEGIN PUBLIC KEY/);
});

test("options are shown under Salt's names, without secrets", async (t) => {
  const peer = { '.*': [{ 'web*': ['test.ping'] }] };
  const { master } = await startVectorMaster(t, { keys, config: { peer, timeout: 7 } });
  const values = await runKeyWheel(master, 'config.values');
  t.like(values, { timeout: 7, peer, minion_data_cache: true });
  t.like(values, { token_expire: 43_200, state_output: 'full', user: userInfo().username });
  t.false(Object.hasOwn(values as object, 'key_pass'));
});

test('with a fingerprint, only the matching key is accepted or rejected', async (t) => {
  const { master } = await startVectorMaster(t, { keys });
  const [key] = await master.keys.list({ state: 'pending' });
  const fingerprint = key?.fingerprint ?? '';
  const another = fingerprint.replace(/^../, (first) => (first === '00' ? '11' : '00'));
  for (const fun of ['key.accept', 'key.reject']) {
    const refused = await runKeyWheel(master, fun, { match: 'db1', fingerprint: another });
    t.regex(JSON.stringify(refused), /failed/);
    t.deepEqual(await runKeyWheel(master, 'key.name_match', { match: 'db1' }), {
      minions_pre: ['db1'],
    });
  }
  await runKeyWheel(master, 'key.reject', { match: 'db1', fingerprint });
  t.deepEqual(await runKeyWheel(master, 'key.name_match', { match: 'db1' }), {
    minions_rejected: ['db1'],
  });
});

test('the running calls of one user are limited, and leave room for others', async (t) => {
  const { master } = await startVectorMaster(t);
  const byUser = (name: string): { by: AuditRequester } => ({
    by: { who: { kind: 'user', name }, rule: 'test' },
  });
  const sleep = { fun: 'test.sleep', kwarg: { s_time: 3600 } };
  for (let i = 0; i < 1000; i++) await master.runners.start({ ...sleep, ...byUser('a') });
  const limited = { code: 'ERR_LIMIT', message: /^functions.runningCalls: / };
  await t.throwsAsync(master.runners.start({ ...sleep, ...byUser('a') }), limited);
  await master.runners.start({ ...sleep, ...byUser('b') });
  await master.runners.start(sleep);
});

test('the memory for the arguments of running calls is limited for each user', (t) => {
  const calls = new RunningCalls();
  const by = { who: { kind: 'user', name: 'a' }, rule: 'test' } as const;
  const large = ['x'.repeat(50_000_000), { key: new Uint8Array(10_000_000) }];
  const leave = calls.enter(by, large);
  calls.enter(by, large);
  t.throws(() => calls.enter(by, large), { code: 'ERR_LIMIT', message: /argumentBytes/ });
  calls.enter({ ...by, who: { kind: 'user', name: 'b' } }, large);
  leave();
  calls.enter(by, large);
});
