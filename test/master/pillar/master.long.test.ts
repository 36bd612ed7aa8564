/**
 * Pillar of files in a running master: what minions receive, what is stored, and which rights
 * depend on it.
 */

import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import type { MasterOptions } from '#config';
import type { ExtPillar, Master } from '#master';
import { createSilentLogger } from '#master';
import { createMinion, type FactMap, isWireMap, type WireValue } from '#minion-protocol';
import { withExtPillar } from '#salt/pillar/ext-pillar.ts';
import { extPillarFiles } from '#salt/pillar/ext-pillar-files.ts';
import { type ExtPillarHttpOptions, extPillarHttp } from '#salt/pillar/ext-pillar-http.ts';
import { fromProvider } from '#salt/pillar/pillar.ts';
import { type FileTree, layOut } from '../../helpers/file-tree.ts';
import { slicesOf } from '../../helpers/slices.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { pem } from '../../helpers/vectors.ts';

/** Starts a master with these files, and its minion with these grains. */
async function start(
  t: ExecutionContext,
  tree: FileTree,
  config: Partial<MasterOptions> = {},
): Promise<VectorMaster & { readonly root: string }> {
  const directory = temporaryDirectory(t);
  layOut(directory, tree);
  const master = await startVectorMaster(t, {
    keys: [{ directory: 'minions', id: 'web1', publicPem: pem('other_minion').publicPem }],
    startAt: Date.now(),
    config: {
      ...config,
      pillarRoots: { base: [path.join(directory, 'pillar')] },
      fileRoots: { base: [directory] },
    },
  });
  await connect(t, master);
  return { ...master, root: path.join(directory, 'pillar') };
}

/** Connects the minion, which then fetches its pillar. */
async function connect(t: ExecutionContext, { dial }: VectorMaster): Promise<void> {
  const keys = { ...pem('other_minion'), masterPem: undefined, trustMaster: async () => {} };
  const grains = { role: 'db', tier: 'core' };
  const minion = createMinion({ id: 'web1', transport: dial('web1'), keys, grains });
  t.teardown(() => minion.stop());
  await minion.start();
}

async function returnOf({ master }: VectorMaster, fun: string): Promise<WireValue | undefined> {
  for await (const update of master.jobs.run({ tgt: 'web1', fun })) {
    if (update.type === 'return') return update.return;
  }
  return undefined;
}

const tree = {
  'pillar/top.sls': "base:\n  '*': [a]\n  'role:db':\n    - match: grain\n    - db\n",
  'pillar/a.sls':
    '# who\nname: {{ grains.id }}\ntier: {{ grains.get("tier", "front") }}\nx: {y: 1}\n',
  'pillar/db.sls': 'include: [more]\ndb: secret\nx: {y: 2}\n',
  'pillar/more.sls': 'x:\n  y: 3\n  z: [1]\n',
  'state.sls': 'a: b\n',
};

test('minions get the pillar of the files, and it is stored for targets', async (t) => {
  const master = await start(t, tree);
  const pillar = await returnOf(master, 'pillar.items');
  t.like(pillar, { name: 'web1', tier: 'core', db: 'secret' });
  const plan = await master.master.jobs.plan({ tgt: 'tier:core', tgtType: 'pillar' });
  t.deepEqual(plan.minions, [{ id: 'web1', reason: 'matched', by: ['tier:core'] }]);
  const top = await master.master.runners.run({ fun: 'pillar.show_top', arg: ['web1'] });
  t.like(top, { success: true, return: new Map([['base', ['a', 'db']]]) });
});

test('a pillar target expects the minions whose last fetched pillar matches', async (t) => {
  const master = await start(t, tree);
  const matching = async (tgt: string): Promise<readonly string[]> => {
    const plan = await master.master.jobs.plan({ tgt, tgtType: 'pillar' });
    return plan.minions.map(({ id }) => id);
  };
  layOut(master.root, { 'a.sls': 'tier: edge\n' });
  t.deepEqual([await matching('tier:core'), await matching('tier:edge')], [['web1'], []]);
  await connect(t, master);
  t.deepEqual([await matching('tier:core'), await matching('tier:edge')], [[], ['web1']]);
});

test('pillar.show_top without an id describes the first minion', async (t) => {
  const { master } = await start(t, tree);
  const { success, return: top } = await master.runners.run({ fun: 'pillar.show_top' });
  t.true(success);
  t.deepEqual(top, new Map([['base', ['a', 'db']]]));
});

test('a pillar claimed through grains gives no right', async (t) => {
  const rules = ['tier:core', 'name:web1', 'tier:front'].map((pillar) => {
    const resource = { tag: `my/${pillar.split(':')[1]}` };
    return allow(pillar, { subject: { minion: '*', pillar }, action: 'signal', resource });
  });
  const ownTier = allow('tag', {
    subject: { minion: '*' },
    action: 'signal',
    resource: { tag: `own/\${pillar:tier}` },
  });
  const { master } = await start(t, tree, { acl: { rules: [...rules, ownTier] } });
  const ask = async (resource: string): Promise<string> => {
    const subject = { kind: 'minion', id: 'web1' } as const;
    const { decision } = await master.acl.explain({ subject, action: 'signal', resource });
    return decision.effect;
  };
  t.is(await ask('my/web1'), 'allow');
  t.is(await ask('my/core'), 'deny');
  t.is(await ask('my/front'), 'allow');
  t.is(await ask('own/core'), 'deny');
  t.is(await ask('own/front'), 'allow');
});

test('minions cannot read pillar files below a file root', async (t) => {
  const { master } = await start(t, tree);
  const { return: files } = await master.runners.run({ fun: 'fileserver.file_list' });
  t.deepEqual(files, ['state.sls']);
});

test('deleting a key removes the pillar of its minion', async (t) => {
  const running = await start(t, tree);
  const stored = async (): Promise<string[]> => {
    const ids: string[] = [];
    // Writes are executed in the order of their calls. Replies do not wait for the writes of
    // pillars.
    await running.store.write([{ op: 'delete', key: ['nothing'] }]);
    for await (const { key } of running.store.list(['pillar-cache'])) ids.push(key.at(-1) ?? '');
    return ids;
  };
  await running.master.pillar.show({ minion: 'web1' });
  await running.master.pillar.show({ minion: 'nobody' });
  t.deepEqual(await stored(), ['web1']);
  await running.master.keys.delete({ match: 'web1' });
  t.deepEqual(await stored(), []);
  await running.master.pillar.show({ minion: 'web1' });
  t.deepEqual(await stored(), []);
});

test('an explanation names the files in their order of precedence', async (t) => {
  const { master } = await start(t, tree);
  const explained = await master.pillar.explain({ minion: 'web1', key: 'x:y' });
  t.is(explained.value, 2);
  t.true(explained.followsFromGrains);
  t.deepEqual(explained.files, [
    { saltenv: 'base', sls: 'a', file: 'a.sls', value: 1 },
    { saltenv: 'base', sls: 'more', file: 'more.sls', line: 2, value: 3 },
    { saltenv: 'base', sls: 'db', file: 'db.sls', value: 2 },
  ]);
  const name = await master.pillar.explain({ minion: 'web1', key: 'name' });
  t.like(name, { value: 'web1', followsFromGrains: false });
  t.deepEqual(name.files, [{ saltenv: 'base', sls: 'a', file: 'a.sls', line: 2, value: 'web1' }]);
});

test('a difference is shown between the current and the next pillar of a minion', async (t) => {
  const master = await start(t, tree);
  t.deepEqual(await master.master.pillar.diff({ minion: 'web1' }), []);
  layOut(master.root, { 'db.sls': 'db: other\nnew: 1\n' });
  t.deepEqual(await master.master.pillar.diff({ minion: 'web1' }), [
    { path: 'db', before: 'secret', after: 'other' },
    { path: 'new', after: 1 },
    { path: 'x:y', before: 2, after: 1 },
    { path: 'x:z', before: [1] },
  ]);
});

test('a pillar with errors names the file, and a program has no files to explain', async (t) => {
  const broken = await start(t, { ...tree, 'pillar/a.sls': 'a: {{ nothing }}\n' });
  const pillar = await returnOf(broken, 'pillar.items');
  t.true(isWireMap(pillar));
  t.like(pillar, {
    _errors: ["Rendering SLS 'a' failed. Please see master log for details."],
    db: 'secret',
  });
  const { master } = await startVectorMaster(t, { pillar: async () => ({ a: 1 }) });
  t.like(await master.pillar.show({ minion: 'web1' }), { a: 1 });
  await t.throwsAsync(master.pillar.explain({ minion: 'web1' }), { code: 'ERR_NOT_SERVED' });
});

// `ext_pillar`, `ext_pillar_first` and `pillar_opts` in a running master.

interface Started {
  readonly master: Master;
  readonly directory: string;
}

/**
 * Starts a master that serves `pillar/` as files and `ext/` as external pillar. Both are below a
 * file root.
 */
async function startWithExtPillar(
  t: ExecutionContext,
  tree: FileTree,
  config: Partial<MasterOptions> = {},
): Promise<Started> {
  const directory = temporaryDirectory(t);
  layOut(directory, tree);
  const { master } = await startVectorMaster(t, {
    config: {
      extPillar: [{ module: 'minion_files', directory: path.join(directory, 'ext') }],
      pillarRoots: { base: [path.join(directory, 'pillar')] },
      fileRoots: { base: [directory] },
      ...config,
    },
  });
  return { master, directory };
}

async function pillarOf(master: Master): Promise<unknown> {
  return JSON.parse(JSON.stringify(await master.pillar.show({ minion: 'web1' })));
}

const extPillarTree = {
  'pillar/top.sls': "base:\n  '*': [a]\n  'tier:core':\n    - match: pillar\n    - core\n",
  'pillar/a.sls': 'x: {from: files, files: 1}\nseen: {{ salt["pillar.get"]("tier", "none") }}\n',
  'pillar/core.sls': 'core: 1\n',
  'ext/web1.json': '{"x": {"from": "ext", "ext": 1}, "tier": "core"}',
  'ext/web2.json': '{"secret": 2}',
  'state.sls': 'a: b\n',
};

test('sources override the files, and cannot read them', async (t) => {
  const { master } = await startWithExtPillar(t, extPillarTree);
  t.deepEqual(await pillarOf(master), {
    x: { from: 'ext', files: 1, ext: 1 },
    seen: 'none',
    tier: 'core',
  });
});

test('with ext_pillar_first the files override sources and can read them, as can targets', async (t) => {
  const { master, directory } = await startWithExtPillar(t, extPillarTree, {
    extPillarFirst: true,
  });
  const first = {
    x: { from: 'files', ext: 1, files: 1 },
    tier: 'core',
    seen: 'core',
    core: 1,
  };
  t.deepEqual(await pillarOf(master), first);
  // The cached pillar is not used with other external pillar.
  layOut(directory, { 'ext/web1.json': '{"tier": "front"}' });
  t.deepEqual(await pillarOf(master), {
    x: { from: 'files', files: 1 },
    tier: 'front',
    seen: 'front',
  });
  layOut(directory, { 'ext/web1.json': extPillarTree['ext/web1.json'] });
  t.deepEqual(await pillarOf(master), first);
  const { files } = await master.pillar.explain({ minion: 'web1', key: 'core' });
  t.deepEqual(
    files.map(({ file }) => file),
    ['core.sls'],
  );
});

test('with ext_pillar_first a failed source is named, and the files are used', async (t) => {
  const broken = { ...extPillarTree, 'ext/web1.json': '[1]' };
  const { master } = await startWithExtPillar(t, broken, { extPillarFirst: true });
  t.deepEqual(await pillarOf(master), {
    x: { from: 'files', files: 1 },
    seen: 'none',
    _errors: ['Failed to load ext_pillar minion_files. Please see master log for details.'],
  });
});

test('an unsupported module leaves an error, unless it is listed as left out', async (t) => {
  const files = path.join(temporaryDirectory(t), 'ext');
  const extPillar: MasterOptions['extPillar'] = [
    { module: 'minion_files', directory: files },
    { module: 'unserved', name: 'cmd_yaml' },
    { module: 'unserved', name: 'minion_fils' },
  ];
  for (const extPillarFirst of [false, true]) {
    const config = { extPillar, extPillarFirst };
    const { master } = await startWithExtPillar(t, extPillarTree, config);
    const { _errors: errors } = Object(await pillarOf(master));
    t.is(errors.length, 2);
    t.regex(
      errors[0],
      /^ext_pillar: cmd_yaml is not supported: the master runs no commands.*left_out_ext/s,
    );
    t.regex(errors[1], /^ext_pillar: minion_fils is unknown: the supported modules are git/);
  }
  const { master } = await startWithExtPillar(t, extPillarTree, {
    extPillar,
    leftOutExtPillar: ['cmd_yaml', 'minion_fils'],
  });
  t.deepEqual(Object(await pillarOf(master))._errors, undefined);
});

test('while a large file of one minion is read, others get theirs', async (t) => {
  const lines = Array.from({ length: 6000 }, (_, at) => `k${at}: {a: [1, 2], b: some text}\n`);
  const { master } = await startWithExtPillar(t, {
    ...extPillarTree,
    'ext/large.yaml': lines.join(''),
  });
  await pillarOf(master);
  let isDone = false;
  const large = master.pillar.show({ minion: 'large' }).finally(() => {
    isDone = true;
  });
  let answered = 0;
  for (; !isDone; answered += 1) {
    t.like(await pillarOf(master), { tier: 'core' });
    // This lets messages of other threads arrive.
    await new Promise(setImmediate);
  }
  t.true(answered >= 10, `${answered} answered`);
  t.like(await large, { k5999: { a: [1, 2], b: 'some text' } });
});

test('a program overrides both', async (t) => {
  for (const extPillarFirst of [false, true]) {
    const directory = temporaryDirectory(t);
    layOut(directory, extPillarTree);
    const { master } = await startVectorMaster(t, {
      config: {
        extPillar: [{ module: 'minion_files', directory: path.join(directory, 'ext') }],
        extPillarFirst,
      },
      pillar: async () => ({ x: { from: 'program' } }),
      extensions: [
        {
          name: 'over',
          open: async () => ({
            pillar: { name: 'over', provide: async () => ({ tier: 'over' }) },
            close: async () => {},
          }),
        },
      ],
    });
    const from = extPillarFirst ? 'program' : 'ext';
    t.deepEqual(await pillarOf(master), { x: { from, ext: 1 }, tier: 'over' });
  }
});

test('minions cannot read per-minion pillar files below a file root', async (t) => {
  const { master } = await startWithExtPillar(t, extPillarTree);
  const { return: files } = await master.runners.run({ fun: 'fileserver.file_list' });
  t.deepEqual(files, ['state.sls']);
});

test('pillar_opts puts options and paths into the pillar, but no secrets and rights', async (t) => {
  const { master, directory } = await startWithExtPillar(t, extPillarTree, {
    pillarOpts: true,
    failhard: true,
    keyPass: 'planted',
    peer: { planted: ['x.y'] },
  });
  const { master: told } = (await pillarOf(master)) as { master: Record<string, unknown> };
  t.like(told, { failhard: true, pillar_opts: true, state_top: 'top.sls', hash_type: 'sha256' });
  const text = JSON.stringify(told);
  t.false(text.includes('planted'));
  t.deepEqual(told.file_roots, { base: [directory] });
  t.deepEqual(told.pillar_roots, { base: [path.join(directory, 'pillar')] });
  for (const name of ['root_dir', 'pki_dir', 'cachedir', 'sock_dir']) {
    t.is(typeof told[name], 'string', name);
  }
  const without = await startWithExtPillar(t, extPillarTree);
  t.false(Object.hasOwn(Object(await pillarOf(without.master)), 'master'));
});

// External pillar: the order of merging, failures, and which sources may be queried.

const nobodyElse = { saltenv: undefined, pillarenv: undefined };

async function over(sources: readonly ExtPillar[]) {
  const base = fromProvider(async () => ({ a: { x: 1 }, b: 1 }));
  const log = createSilentLogger();
  const source = withExtPillar(base, { sources, strategy: 'smart', mergeLists: false, log });
  return source.provide({ id: 'web1', grains: { id: 'web1', role: 'db' }, ...nobodyElse });
}

test('sources override the files, and later sources override earlier ones', async (t) => {
  const asked: unknown[] = [];
  const first: ExtPillar = {
    name: 'first',
    provide: async (request) => {
      asked.push(request);
      return { a: { y: 2 }, c: 1 };
    },
  };
  const second: ExtPillar = { name: 'second', provide: async () => ({ c: 2 }) };
  const none: ExtPillar = { name: 'none', provide: async () => undefined };
  const { pillar, proven } = await over([first, none, second]);
  t.deepEqual(JSON.parse(JSON.stringify(pillar)), { a: { x: 1, y: 2 }, b: 1, c: 2 });
  t.is(proven, pillar);
  // The query contains nothing that the minion reports about itself.
  t.deepEqual(asked, [{ id: 'web1', ...nobodyElse }]);
});

test('a failed source is named to the minion, without its reason', async (t) => {
  const failing: ExtPillar = {
    name: 'vault',
    provide: async () => {
      throw new Error('the token hunter2 is over');
    },
  };
  const { pillar } = await over([failing]);
  t.like(pillar, {
    b: 1,
    _errors: ['Failed to load ext_pillar vault. Please see master log for details.'],
  });
});

async function fromFiles(t: ExecutionContext, tree: FileTree, id: string): Promise<unknown> {
  const directory = temporaryDirectory(t);
  layOut(directory, tree);
  const source = await extPillarFiles({ directory: path.join(directory, 'data'), maxBytes: 100 });
  const pillar = await source.provide({ id, ...nobodyElse });
  return pillar && { ...pillar };
}

test('each minion has its own file, which is data', async (t) => {
  const tree = {
    'data/web1.json': '{"a": "{{ 7 * 7 }}"}',
    'data/web1.yaml': 'a: 2\n',
    'data/web2.yaml': 'a: {{ x }}\n',
    'data/web3.yml': 'a: yes\n',
    'data/web4.yaml': '[1]\n',
    'data/web5.json': `{"a": "${'x'.repeat(100)}"}`,
  };
  t.deepEqual(await fromFiles(t, tree, 'web1'), { a: '{{ 7 * 7 }}' });
  t.deepEqual(await fromFiles(t, tree, 'web3'), { a: true });
  t.is(await fromFiles(t, tree, 'web9'), undefined);
  await t.throwsAsync(fromFiles(t, tree, 'web2'), { code: 'ERR_YAML' });
  await t.throwsAsync(fromFiles(t, tree, 'web4'), { code: 'ERR_PILLAR_FILE' });
  await t.throwsAsync(fromFiles(t, tree, 'web5'), { code: 'ERR_PILLAR_FILE' });
});

test('no id can select a file outside the directory', async (t) => {
  const tree = {
    'data/inner/web1.json': '{"a": 1}',
    'data/out.json': { link: '../secret.json' },
    'secret.json': '{"a": 1}',
  };
  for (const id of ['../secret', 'inner/web1', 'out', '..', 'web1\0']) {
    t.is(await fromFiles(t, tree, id), undefined, id);
  }
});

/** Starts a service. Returns its requests. */
async function serve(t: ExecutionContext, answer: (response: ServerResponse) => void) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.url} ${request.headers.authorization ?? ''}`);
    answer(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const host = `127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  const open = (options: Partial<ExtPillarHttpOptions> = {}): ExtPillar =>
    extPillarHttp({
      url: `http://${host}/pillar/{id}`,
      hosts: [host],
      allowsPlainHttp: true,
      ...options,
    });
  const ask = (
    id: string,
    options: Partial<ExtPillarHttpOptions> = {},
  ): Promise<FactMap | undefined> => open(options).provide({ id, ...nobodyElse });
  return { asked, ask, open };
}

test('a service gets requests with the id and its headers', async (t) => {
  const { asked, ask } = await serve(t, (response) => response.end('{"a": {"b": 1}}'));
  const pillar = await ask('web1/../x?y#z', { headers: { authorization: 'Bearer t' } });
  t.deepEqual(JSON.parse(JSON.stringify(pillar)), { a: { b: 1 } });
  t.deepEqual(asked, ['/pillar/web1%2F..%2Fx%3Fy%23z Bearer t']);
});

test('a service may have no data, but must not fail, redirect or exceed the limit', async (t) => {
  const none = await serve(t, (response) => response.writeHead(404).end('none'));
  t.is(await none.ask('web1'), undefined);
  const broken = await serve(t, (response) => response.writeHead(500).end());
  await t.throwsAsync(broken.ask('web1'), { code: 'ERR_PILLAR_SOURCE' });
  const other = await serve(t, (response) => response.end('{"a": 1}'));
  const moved = await serve(t, (response) =>
    response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
  );
  await t.throwsAsync(moved.ask('web1'), { code: 'ERR_PILLAR_SOURCE' });
  await t.throwsAsync(other.ask('web1', { maxBytes: 5 }), { code: 'ERR_PILLAR_SOURCE' });
  const silent = await serve(t, () => {});
  await t.throwsAsync(silent.ask('web1', { timeoutMs: 20 }), { code: 'ERR_PILLAR_SOURCE' });
});

// Serial, because it watches the work of this process.
test.serial('the response of a service is parsed in a thread', async (t) => {
  const pairs = Array.from({ length: 30_000 }, (_, at) => `"k${at}": ${at}`);
  const { ask } = await serve(t, (response) => response.end(`{${pairs.join(', ')}}`));
  const slices = await slicesOf(async () => {
    t.is(Object.keys((await ask('web1')) ?? {}).length, 30_000);
  });
  // The main thread receives 60,000 keys and values in slices.
  t.true(slices.length > 50, `${slices.length} slices`);
});

test('a service gets one request of a minion at a time, and a minion does not delay others', async (t) => {
  const open: ServerResponse[] = [];
  const { asked, open: openSource } = await serve(t, (response) => open.push(response));
  const source = openSource();
  const provide = (id: string) => source.provide({ id, ...nobodyElse });
  const many = Array.from({ length: 50 }, () => provide('evil'));
  while (open.length < 1) await new Promise(setImmediate);
  const other = provide('web1');
  while (open.length < 2) await new Promise(setImmediate);
  t.deepEqual(asked, ['/pillar/evil ', '/pillar/web1 ']);
  open[1]?.end('{"a": 1}');
  t.like(await other, { a: 1 });
  open[0]?.end('{"a": 2}');
  t.like(await many[0], { a: 2 });
  while (open.length < 3) await new Promise(setImmediate);
  // A request that arrives while the service works gets data from after its arrival.
  open[2]?.end('{"a": 3}');
  t.deepEqual(
    new Set((await Promise.all(many.slice(1))).map((it) => JSON.stringify(it))),
    new Set(['{"a":3}']),
  );
  t.is(asked.length, 3);
});

for (const [what, options] of Object.entries({
  'that is not listed': { url: 'https://other.test/{id}', hosts: ['cmdb.test'] },
  'that the id would choose': { url: 'https://{id}/x', hosts: ['id'] },
  'without encryption': { url: 'http://cmdb.test/{id}', hosts: ['cmdb.test'] },
  'that is a file': { url: 'file:///etc/{id}', hosts: [''] },
  'that is none': { url: '{id}', hosts: [] },
})) {
  test(`a host ${what} is refused`, (t) => {
    t.throws(() => extPillarHttp(options), { code: 'ERR_ARGS' });
  });
}
