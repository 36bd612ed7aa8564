/** Runners that call minions or store data, and messages about runners that are not served. */
import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import type { Master } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import {
  compatibilityPages,
  compatibilityRows,
  withCompatibilityTables,
} from '#salt/compatibility.ts';
import { askRunners } from '#salt/runners/ask-runners.ts';
import { CacheBanks } from '#salt/runners/cache-banks.ts';
import { Queues } from '#salt/runners/queues.ts';
import { createMemoryStore, type Store } from '#store';
import { layOut } from '../../helpers/file-tree.ts';
import { startFleet } from '../../helpers/fleet.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';

async function run(master: Master, fun: string, ...arg: readonly WireValue[]): Promise<unknown> {
  const { return: value } = await master.runners.run({ fun, arg });
  return value;
}

test('a runner queries minions, and groups those with the same return', async (t) => {
  const { master } = await startFleet(t, { ids: ['a1', 'b1', 'c1'] });
  t.deepEqual(await run(master, 'salt.execute', 'a*', 'test.echo', ['x']), { a1: 'x' });
  t.deepEqual(await run(master, 'salt.execute', 'nobody', 'test.ping'), {});
  t.deepEqual(await run(master, 'survey.hash', '*', 'test.echo', 'x'), [
    { pool: ['a1', 'b1', 'c1'], result: 'x' },
  ]);
  t.deepEqual(await run(master, 'survey.hash', 'a1', 'test.echo', { k: true }), [
    { pool: ['a1'], result: "{'k': True}" },
  ]);
});

test('survey.diff compares each differing return with the most frequent one', async (t) => {
  const texts = [
    'a\nb\nc',
    'a\nb\nc',
    'b\nx\nc',
    '',
    ...Array.from({ length: 50 }, (_, i) => `${i}`),
  ];
  const runners = askRunners({
    api: {
      run: async function* () {
        for (const [index, text] of texts.entries()) {
          const minion = `m${String(index).padStart(2, '0')}`;
          const told = { fun: 'x.y', return: text, retcode: 0, success: true, receivedAt: 0 };
          yield { type: 'return', jid: '1', minion, ...told };
        }
      },
    },
    targets: { resolveWithin: async () => ({ minions: [], missing: [], isNarrowed: false }) },
  });
  let turns = 0;
  const ended = new AbortController();
  const count = (): void => {
    turns += 1;
    if (!ended.signal.aborted) setImmediate(count);
  };
  count();
  const pools = await runners['survey.diff']?.bind(
    ['*', 'x.y'],
    {},
  )({
    ...{ jid: '1', user: 'u', by: undefined, timeoutSeconds: undefined, emit: () => {} },
    closing: ended.signal,
    asked: { fun: 'survey.diff', arg: [], kwarg: {} },
    continueElsewhere: () => {},
    atEnd: () => {},
  });
  ended.abort();
  const [first, ...others] = Array.isArray(pools) ? pools : [];
  t.deepEqual(first, { pool: ['m00', 'm01'], result: 'a\nb\nc' });
  t.is(others.length, 52);
  t.deepEqual(others.slice(0, 2), [
    { pool: ['m02'], result: 'b\nx\nc', diff: '-a\n+x' },
    { pool: ['m03'], result: '', diff: '-a\n-b\n-c' },
  ]);
  t.true(turns >= 52, `${turns}`);
});

test('a compound target is evaluated for one minion, and unknown facts match nothing', async (t) => {
  const { master } = await startVectorMaster(t);
  const matches = (expr: string, id: string): Promise<unknown> =>
    run(master, 'match.compound_matches', expr, id);
  t.deepEqual(await matches('vec*', 'vecminion'), { res: 'vecminion' });
  t.deepEqual(await matches('not vec*', 'vecminion'), { res: false });
  t.deepEqual(await matches('vec*', 'other'), { res: false });
  t.deepEqual(await matches('I@a:b', 'vecminion'), { res: false });
});

test('options of the master are read by their path, without secrets', async (t) => {
  const { master } = await startVectorMaster(t, {
    config: { nodegroups: { web: 'L@a,b' }, keyPass: 'secret' },
  });
  t.is(await run(master, 'config.get', 'nodegroups:web'), 'L@a,b');
  t.is(await run(master, 'config.get', 'nodegroups/web', '', '/'), 'L@a,b');
  t.is(await run(master, 'config.get', 'nowhere', 'fallback'), 'fallback');
  t.is(await run(master, 'config.get', 'key_pass'), '');
});

test('values are stored in banks, and only a minion has access to its own bank', async (t) => {
  const { master } = await startVectorMaster(t);
  await run(master, 'cache.store', 'site/a', 'one', { deep: [1] });
  await run(master, 'cache.store', 'site/a', 'two', 2);
  t.deepEqual(await run(master, 'cache.list', 'site/a'), ['one', 'two']);
  t.deepEqual(await run(master, 'cache.fetch', 'site/a', 'one'), { deep: [1] });
  await run(master, 'cache.flush', 'site/a', 'one');
  t.deepEqual(await run(master, 'cache.fetch', 'site/a', 'one'), {});
  await run(master, 'cache.flush', 'site');
  t.deepEqual(await run(master, 'cache.list', 'site/a'), []);
  t.regex(
    String(await run(master, 'cache.store', 'minions/vecminion', 'data', {})),
    /this bank is read-only/,
  );
  t.regex(String(await run(master, 'cache.store', 'b', 'k', 'x'.repeat(1_048_577))), /exceeds/);
});

test('queues hold each item once, in order, and are processed by an event', async (t) => {
  const { master } = await startVectorMaster(t);
  t.true(await run(master, 'queue.insert', 'q', ['b', 'a', { k: 1 }]));
  await run(master, 'queue.insert', 'q', 'a');
  t.deepEqual(await run(master, 'queue.list_queues'), ['q']);
  t.deepEqual(await run(master, 'queue.list_items', 'q'), ['b', 'a', { k: 1 }]);
  t.is(await run(master, 'queue.list_length', 'q'), 3);
  t.deepEqual(await run(master, 'queue.pop', 'q'), ['b']);
  const ended = new AbortController();
  t.teardown(() => ended.abort());
  const events = await master.events.subscribe({ match: 'salt/queue/*' }, ended.signal);
  const processed = { items: ['a'], backend: 'saltbridge', queue: 'q' };
  t.like(await run(master, 'queue.process_queue', 'q', 1), processed);
  for await (const event of events) {
    t.like(event, { tag: 'salt/queue/q/process', data: processed });
    break;
  }
  await run(master, 'queue.delete', 'q', { k: 1 });
  t.deepEqual(await run(master, 'queue.list_queues'), []);
  t.regex(String(await run(master, 'queue.insert', '../q', 'x')), /must be a name/);
  t.regex(String(await run(master, 'queue.pop', 'q', 0)), /quantity/);
});

/** Returns a store in memory that counts the entries that are read from its lists. */
function countingStore(): { readonly store: Store; readonly read: () => number } {
  const store = createMemoryStore();
  const list = store.list.bind(store);
  let entries = 0;
  store.list = async function* (...given) {
    for await (const entry of list(...given)) {
      entries += 1;
      yield entry;
    }
  };
  return { store, read: () => entries };
}

test('a change of a queue reads only the items that it removes', async (t) => {
  const { store, read } = countingStore();
  const queues = new Queues(store);
  for (let i = 0; i < 200; i++) await queues.insert('q', [i, i]);
  await queues.insert('other', ['x']);
  t.is(read(), 0);
  t.deepEqual(await queues.pop('q', 2), [0, 1]);
  t.is(read(), 2);
  await queues.delete('q', [2, 'none']);
  t.is(await queues.length('q'), 197);
  t.deepEqual(await queues.names(), ['other', 'q']);
  t.is(read(), 2);
  const again = new Queues(store);
  await again.insert('q', [199, 'new']);
  t.is(read(), 200, 'once after a start');
  t.is(await again.length('q'), 198);
  t.is((await again.pop('q', undefined)).at(-1), 'new');
});

test('the bytes of queues are limited, and a failed write changes nothing', async (t) => {
  const store = createMemoryStore();
  const queues = new Queues(store, { items: { total: 3 }, bytes: { total: 100 } });
  const full = { code: 'ERR_ARGS', message: /queues are full \(100 bytes\)/ };
  await t.throwsAsync(queues.insert('q', ['x'.repeat(50), 'y'.repeat(50)]), full);
  await queues.insert('q', ['x'.repeat(50)]);
  await t.throwsAsync(queues.insert('other', ['y'.repeat(50)]), full);
  const write = store.write.bind(store);
  store.write = () => Promise.reject(new Error('disk'));
  await t.throwsAsync(queues.pop('q', 1), { message: 'disk' });
  store.write = write;
  t.is(await queues.length('q'), 1);
  t.is((await queues.pop('q', 1)).length, 1);
  await queues.insert('other', [1, 2, 3]);
  await t.throwsAsync(queues.insert('q', [1]), { message: /queues are full \(3 items\)/ });
});

test('the items of one user leave room in the queues for others, also after a restart', async (t) => {
  const store = createMemoryStore();
  const limits = { items: { perOwner: 2, total: 6, reserved: 2 }, bytes: {} };
  const queues = new Queues(store, limits);
  const full = { code: 'ERR_ARGS', message: /queues are full \(2 items\)/ };
  await t.throwsAsync(queues.insert('q', [1, 2, 3], 'a'), full);
  await queues.insert('q', [1, 2], 'a');
  const again = new Queues(store, limits);
  await t.throwsAsync(again.insert('other', [3], 'a'), full);
  await again.insert('q', [3, 4], 'b');
  await again.insert('q', [5, 6]);
  await t.throwsAsync(again.insert('q', [7]), { message: /queues are full \(6 items\)/ });
  t.deepEqual(await again.pop('q', 3), [1, 2, 3]);
  await again.delete('q', [4]);
  await again.insert('q', ['x', 'y'], 'a');
  t.deepEqual(await new Queues(store, limits).items('q'), [5, 6, 'x', 'y']);
});

test('the values of one user leave room in the banks for others', async (t) => {
  const store = createMemoryStore();
  const limits = { perOwner: 2, total: 6, reserved: 2 };
  const banks = new CacheBanks(store, limits);
  for (const key of ['1', '2']) await banks.put('a', key, 1, 'a');
  const full = { code: 'ERR_ARGS', message: /banks are full \(2 values\)/ };
  await t.throwsAsync(banks.put('a', '3', 1, 'a'), full);
  await banks.put('a', '1', 'changed', 'a');
  await banks.put('b', '3', 1, 'b');
  const again = new CacheBanks(store, limits);
  await t.throwsAsync(again.put('a', '3', 1, 'a'), full);
  await again.put('a', '1', 'of the operator');
  await again.put('a', '3', 1, 'a');
  await again.remove('a', undefined);
  const last = new CacheBanks(store, limits);
  for (const key of ['1', '2']) await last.put('a', key, 1, 'a');
  t.is(await last.get('b', '3'), 1);
});

test('a value is stored in a bank without reading the others', async (t) => {
  const { store, read } = countingStore();
  const banks = new CacheBanks(store);
  for (let i = 0; i < 200; i++) await banks.put(`site/${i % 5}`, `${i}`, i);
  t.is((await banks.keys('site/3')).length, 40);
  t.is(read(), 0);
  const again = new CacheBanks(store);
  await again.put('site/3', '3', 'changed');
  t.is(read(), 200, 'once after a start');
  t.is((await again.keys('site/3')).length, 40);
  await again.remove('site', undefined);
  t.deepEqual(await again.keys('site/3'), []);
  t.is(await again.get('site/3', '3'), undefined);
});

test('queued runners run only for the local interface', async (t) => {
  const { master } = await startVectorMaster(t);
  await run(master, 'queue.insert_runner', 'cache.store', ['bank', 'key', 'value']);
  const by = { who: { kind: 'user', name: 'fred' }, rule: 'test' } as const;
  const call = { fun: 'queue.process_runner', by };
  const refused = await master.runners.run(call);
  t.regex(String(refused.return), /only available on the local socket/);
  t.deepEqual(await run(master, 'cache.list', 'bank'), []);
  await run(master, 'queue.process_runner');
  t.is(await run(master, 'cache.fetch', 'bank', 'key'), 'value');
});

test('a queued runner that a user has inserted does not run with all rights', async (t) => {
  const { master } = await startVectorMaster(t);
  const by = { who: { kind: 'user', name: 'fred' }, rule: 'test' } as const;
  const insert = (key: string): WireValue[] => ['cache.store', ['bank', key, 'value']];
  for (const key of ['of fred', 'of both']) {
    const call = { fun: 'queue.insert_runner', arg: insert(key), by };
    await master.runners.run(call);
  }
  for (const key of ['of both', 'of root'])
    await run(master, 'queue.insert_runner', ...insert(key));
  for (const [kind, name] of [
    ['minion', 'web1'],
    ['master', 'schedule'],
  ] as const) {
    const origin = { by: { who: { kind, name }, rule: 'test' } };
    await master.runners.run({ fun: 'queue.insert_runner', arg: insert(`of ${name}`), ...origin });
  }
  const result = await run(master, 'queue.process_runner', 'all');
  t.regex(String(result), /did not run 2 calls in the queue runners/);
  t.deepEqual(await run(master, 'cache.list', 'bank'), ['of both', 'of root', 'of schedule']);
  t.is(await run(master, 'queue.list_length', 'runners'), 2);
});

test('a queued runner that cannot run is reported, and the others run', async (t) => {
  const { master } = await startVectorMaster(t);
  await run(master, 'queue.insert_runner', 'no.runner');
  await run(master, 'queue.insert', 'runners', ['no call']);
  await run(master, 'queue.insert_runner', 'cache.store', ['bank', 'key', 'value']);
  const result = await run(master, 'queue.process_runner', 'all');
  t.regex(String(result), /2 of 3 calls were not run; the first: 'no\.runner' is not available/);
  t.is(await run(master, 'cache.fetch', 'bank', 'key'), 'value');
});

test('salt.cmd calls functions of templates, and refuses others by name', async (t) => {
  const { master } = await startVectorMaster(t, { config: { id: 'north_master' } });
  t.true(await run(master, 'salt.cmd', 'test.ping'));
  const call = { fun: 'salt.cmd', arg: ['test.arg', 1, 'x'], kwarg: { a: 2 } };
  t.deepEqual((await master.runners.run(call)).return, { args: [1, 'x'], kwargs: { a: 2 } });
  t.is(await run(master, 'salt.cmd', 'grains.get', 'id'), 'north_master');
  t.is(await run(master, 'salt.cmd', 'config.get', 'id'), 'north_master');
  t.deepEqual(await run(master, 'salt.cmd', 'defaults.merge', { a: 1 }, { b: 2 }), { a: 1, b: 2 });
  const refused = await master.runners.run({ fun: 'salt.cmd', arg: ['cmd.run', 'id'] });
  t.false(refused.success);
  t.regex(String(refused.return), /cmd\.run is not served on the master: .*cannot run commands/);
});

test('state.event returns the requested number of matching events, as lines', async (t) => {
  const { master } = await startVectorMaster(t);
  const waiting = run(master, 'state.event', 'site/*', 2);
  const quiet = master.runners.run({ fun: 'state.event', kwarg: { count: 1, quiet: true } });
  for (const [tag, data] of [
    ['other', {}],
    ['site/a', { big: 20180828195351562601n }],
    ['site/b', { x: 1 }],
  ] as const) {
    await run(master, 'event.send', tag, data);
  }
  const lines = String(await waiting).split('\n');
  t.is(lines.length, 2);
  t.regex(lines[0] ?? '', /^site\/a\t\{.*"big":/);
  t.regex(lines[1] ?? '', /^site\/b\t\{.*"x":1/);
  t.is((await quiet).return, null);
  t.regex(
    String(await run(master, 'state.event')),
    /use saltbridge events to follow without a limit/,
  );
  const by = { who: { kind: 'user', name: 'fred' }, rule: 'test' } as const;
  const call = { fun: 'state.event', arg: ['*', 1], by };
  const refused = await master.runners.run(call);
  t.regex(String(refused.return), /only available on the local socket/);
});

test('jobs.master lists running runners', async (t) => {
  const { master } = await startVectorMaster(t);
  const { jid } = await master.runners.start({ fun: 'test.sleep', arg: [1], user: 'ann' });
  const running = await run(master, 'jobs.master');
  t.true(Array.isArray(running));
  const [first, second] = Array.isArray(running) ? running : [];
  t.like(first, { fun: 'runner.test.sleep', jid, user: 'ann', pid: process.pid });
  t.like(second, { fun: 'runner.jobs.master' });
});

test('modules for the master are refused by name, and no copy is reported', async (t) => {
  const directory = temporaryDirectory(t);
  layOut(directory, { '_modules/site.py': '', '_states/own.py': '', 'a.sls': '' });
  const { master } = await startVectorMaster(t, { config: { fileRoots: { base: [directory] } } });
  for (const [fun, file] of [
    ['saltutil.sync_all', /_modules\/site\.py, _states\/own\.py/],
    ['saltutil.sync_modules', /runs no Python modules \(_modules\/site\.py\)/],
    ['saltutil.sync_states', /_states\/own\.py/],
  ] as const) {
    const { success, return: value } = await master.runners.run({ fun });
    t.false(success, fun);
    t.regex(String(value), file, fun);
  }
  t.deepEqual(await run(master, 'saltutil.sync_grains'), []);
});

/** Functions of the runner, with the directories whose files Salt copies [salt/runners/saltutil.py]. */
const synchronised = {
  sync_cache: '_cache',
  sync_clouds: '_clouds',
  sync_eauth_tokens: '_tokens',
  sync_engines: '_engines',
  sync_executors: '_executors',
  sync_fileserver: '_fileserver',
  sync_grains: '_grains',
  sync_modules: '_modules',
  sync_output: '_output',
  sync_pillar: '_pillar',
  sync_proxymodules: '_proxy',
  sync_queues: '_queues',
  sync_renderers: '_renderers',
  sync_returners: '_returners',
  sync_roster: '_roster',
  sync_runners: '_runners',
  sync_sdb: '_sdb',
  sync_serializers: '_serializers',
  sync_states: '_states',
  sync_thorium: '_thorium',
  sync_tops: '_tops',
  sync_utils: '_utils',
  sync_wheel: '_wheel',
  sync_wrapper: '_wrapper',
};

test('every function that copies modules in Salt is refused if there is a file to copy', async (t) => {
  for (const [name, place] of Object.entries(synchronised)) {
    const directory = temporaryDirectory(t);
    layOut(directory, { [`${place}/own.py`]: '', [`${place}.txt`]: '' });
    const { master } = await startVectorMaster(t, { config: { fileRoots: { base: [directory] } } });
    for (const fun of [`saltutil.${name}`, 'saltutil.sync_all']) {
      const { success, return: value } = await master.runners.run({ fun });
      t.false(success, `${fun} ${place}`);
      t.true(String(value).includes(`${place}/own.py`), `${fun} ${place}: ${value}`);
    }
    await master.close();
  }
});

test('a step of an orchestration that copies modules fails', async (t) => {
  const directory = temporaryDirectory(t);
  layOut(directory, {
    '_modules/site.py': '',
    'sync.sls': 'sync:\n  salt.runner:\n    - name: saltutil.sync_modules\n',
  });
  const { master } = await startVectorMaster(t, { config: { fileRoots: { base: [directory] } } });
  const { success, return: value } = await master.runners.run({
    fun: 'state.orchestrate',
    arg: ['sync'],
  });
  t.false(success);
  t.regex(JSON.stringify(value), /"result":false/);
  t.regex(JSON.stringify(value), /_modules\/site\.py/);
});

test('file_roots.write writes only below a root', async (t) => {
  const directory = temporaryDirectory(t);
  layOut(directory, { 'root/a.sls': 'old', 'other/b.sls': 'kept', 'root/pki/key': '' });
  symlinkSync(path.join(directory, 'other'), path.join(directory, 'root/out'));
  symlinkSync(path.join(directory, 'other/b.sls'), path.join(directory, 'root/link.sls'));
  const root = path.join(directory, 'root');
  const { master } = await startVectorMaster(t, {
    config: { fileRoots: { base: [root] }, cachedir: path.join(root, 'pki') },
  });
  const write = async (name: string, kwarg: WireMap = {}): Promise<unknown> => {
    const call = { fun: 'file_roots.write', arg: ['new', name], kwarg };
    return (await master.wheel.run(call)).return;
  };
  t.is(await write('d/e/new.sls'), `Wrote data to file ${root}/d/e/new.sls`);
  t.is(readFileSync(path.join(root, 'd/e/new.sls'), 'utf8'), 'new');
  await write('a.sls');
  t.is(readFileSync(path.join(root, 'a.sls'), 'utf8'), 'new');
  for (const name of ['../x.sls', 'out/x.sls', 'out/new/x.sls', 'link.sls', 'minions/x', '.']) {
    const isHidden = name.startsWith('minions');
    const refused = String(await write(isHidden ? `pki/${name}` : name));
    t.true(refused.startsWith('Invalid path') || isHidden, `${name}: ${refused}`);
  }
  t.is(readFileSync(path.join(directory, 'other/b.sls'), 'utf8'), 'kept');
  t.false(existsSync(path.join(directory, 'other/new')));
  t.regex(String(await write('/x.sls')), /is not relative to the environment base/);
  t.regex(String(await write('x', { saltenv: 'dev' })), /Named environment dev is not present/);
  t.regex(String(await write('x', { index: 1 })), /Specified index 1 in environment base/);
});

test('an unsupported runner names its alternative', async (t) => {
  const { master } = await startVectorMaster(t);
  for (const [fun, instead] of [
    ['manage.safe_accept', /saltbridge key accept ID --fingerprint/],
    ['net.find', /network\.interfaces/],
    ['vault.unseal', /ext_pillar/],
  ] as const) {
    await t.throwsAsync(master.runners.run({ fun }), { code: 'ERR_NOT_SERVED', message: instead });
  }
});

test('the pages in docs/compatibility/ contain every row of the table', async (t) => {
  const { master } = await startVectorMaster(t);
  const servedBy = async (docs: Promise<object>): Promise<Set<string>> =>
    new Set(Object.keys(await docs));
  const rows = compatibilityRows({
    runners: await servedBy(master.runners.docs()),
    wheel: await servedBy(master.wheel.docs()),
  });
  for (const [name, kinds] of Object.entries(compatibilityPages)) {
    const page = readFileSync(new URL(`../../../${name}`, import.meta.url), 'utf8');
    const expected = withCompatibilityTables(page, rows, kinds);
    t.true(expected === page, `${name}: run node scripts/compatibility-doc.js`);
  }
  for (const { kind, name, status, text } of rows) {
    t.is(text === '', status === 'served', `${kind} ${name}: ${text}`);
  }
});
