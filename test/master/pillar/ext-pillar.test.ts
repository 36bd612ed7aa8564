/** Pillar from elsewhere: what lies over what, what fails, and what may be asked. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { createSilentLogger } from '../../../master/api/log.ts';
import {
  type ExtPillar,
  type ExtPillarHttpOptions,
  extPillarFiles,
  extPillarHttp,
  withExtPillar,
} from '../../../master/data/ext-pillar.ts';
import { fromProvider } from '../../../master/data/pillar.ts';
import type { FactMap } from '../../../minion-protocol/index.ts';
import { type FileTree, layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const nobodyElse = { saltenv: undefined, pillarenv: undefined };

async function over(sources: readonly ExtPillar[]) {
  const base = fromProvider(async () => ({ a: { x: 1 }, b: 1 }));
  const log = createSilentLogger();
  const source = withExtPillar(base, { sources, strategy: 'smart', mergeLists: false, log });
  return source.provide({ id: 'web1', grains: { id: 'web1', role: 'db' }, ...nobodyElse });
}

test('sources lie over the files, the later ones over the earlier', async (t) => {
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
  // Nothing that a minion says of itself.
  t.deepEqual(asked, [{ id: 'web1', ...nobodyElse }]);
});

test('a source that fails is named to the minion, without its reason', async (t) => {
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

test('each minion has a file of its own, which is data', async (t) => {
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

test('no id reaches a file outside the directory', async (t) => {
  const tree = {
    'data/inner/web1.json': '{"a": 1}',
    'data/out.json': { link: '../secret.json' },
    'secret.json': '{"a": 1}',
  };
  for (const id of ['../secret', 'inner/web1', 'out', '..', 'web1\0']) {
    t.is(await fromFiles(t, tree, id), undefined, id);
  }
});

/** A service, and what it was asked. */
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
  const ask = (
    id: string,
    options: Partial<ExtPillarHttpOptions> = {},
  ): Promise<FactMap | undefined> =>
    extPillarHttp({
      url: `http://${host}/pillar/{id}`,
      hosts: [host],
      allowsPlainHttp: true,
      ...options,
    }).provide({ id, ...nobodyElse });
  return { asked, ask };
}

test('a service is asked by id, with its headers', async (t) => {
  const { asked, ask } = await serve(t, (response) => response.end('{"a": {"b": 1}}'));
  const pillar = await ask('web1/../x?y#z', { headers: { authorization: 'Bearer t' } });
  t.deepEqual(JSON.parse(JSON.stringify(pillar)), { a: { b: 1 } });
  t.deepEqual(asked, ['/pillar/web1%2F..%2Fx%3Fy%23z Bearer t']);
});

test('a service may have nothing, and must not answer otherwise, elsewhere, or too much', async (t) => {
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
