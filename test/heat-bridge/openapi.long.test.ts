/** Compares the description of /bridge/v1 in /openapi.json with the routes. */

import { execFile, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test, { type ExecutionContext } from 'ava';
import type { TSchema } from 'typebox';
import type { Validator } from 'typebox/compile';
import { Compile } from 'typebox/compile';
import { allow } from '#acl';
import { createBridge } from '#guests';
import { BridgeError } from '#heat-bridge';
import { testWhere } from '../helpers/needs.ts';
import { type ApiAnswer, json, password, type RunningApi, startApi } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { startVectorMaster } from '../helpers/vector-master.ts';
import { keystoneSection, startKeystone, tokenOf } from './keystone/recorded-keystone.ts';
import { acl, echo, twice } from './stage.ts';

interface Media {
  readonly content: Readonly<Record<string, { readonly schema: TSchema }>>;
}

interface Operation {
  readonly requestBody?: Media;
  readonly responses: Readonly<Record<string, Media>>;
  readonly security: readonly unknown[];
}

type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;

const described = [
  'get /commands',
  'get /commands/{name}',
  'post /commands/{name}/run',
  'get /plans',
  'get /plans/{name}',
  'post /plans/{name}/run',
  'get /plan-runs/{id}',
  'get /plan-runs/{id}/outcome',
  'delete /plan-runs/{id}',
  'get /runs/{id}',
  'get /runs/{id}/outcome',
  'delete /runs/{id}',
  'post /enroll/claim',
  'post /enroll/failure',
  'post /enrolments',
  'get /enrolments/{number}',
  'post /enrolments/{number}/retire',
  'get /handles',
  'post /guest/enroll/claim',
  'post /guest/enroll/failure',
  'post /guest/signals',
  'post /handles',
  'get /handles/{alias}',
  'put /handles/{alias}',
  'delete /handles/{alias}',
  'get /handles/{alias}/outbox',
  'delete /handles/{alias}/outbox',
  'post /handles/{alias}/outbox/retry',
  'get /stacks',
  'post /stacks',
  'get /stacks/{name}',
  'put /stacks/{name}',
  'delete /stacks/{name}',
  'post /murano/{guest}',
  'get /data',
  'post /data',
  'get /data/{name}',
  'put /data/{name}',
  'delete /data/{name}',
  'get /guest/data',
  'put /guest/data',
  'get /guest/peers',
  'get /guest/saltbridge-data',
];
const prefix = '/bridge/v1';

interface Stage extends RunningApi {
  readonly operations: ReadonlyMap<string, Operation>;
  as(request: string, body?: object, token?: string): Promise<ApiAnswer>;
}

async function open(t: ExecutionContext): Promise<Stage> {
  const extensions = { 'data-spaces': true, 'metadata-agent': true, murano: true };
  const bridge = createBridge({ commands: [echo], plans: [twice], extensions });
  const rule = allow('all', {
    subject: { user: 'limited' },
    action: 'command',
    resource: { fun: '*' },
  });
  const api = await startApi(t, {
    config: { acl: acl([rule]), bridge: { enroll: {} } },
    extensions: [bridge],
    options: {
      plugins: [
        {
          ...bridge.http,
          register: (app, doors) => {
            // Every route must be described.
            app.addHook('onRoute', ({ url, method, schema }) => {
              t.true(method === 'HEAD' || schema?.summary !== undefined, `${method} ${url}`);
            });
            bridge.http.register(app, doors);
          },
        },
      ],
    },
    functions: { 'test.echo': ({ kwargs: { text } }) => text ?? null },
  });
  const { paths } = (await api.ask({ path: '/openapi.json' })).json as { paths: Paths };
  const operations = new Map(
    Object.entries(paths).flatMap(([path, methods]) =>
      path.startsWith(prefix)
        ? Object.entries(methods).map(
            ([method, it]) => [`${method} ${path.slice(prefix.length)}`, it] as const,
          )
        : [],
    ),
  );
  const session = await api.login('limited');
  const as: Stage['as'] = (request, body, token = session) => {
    const [method = '', path = ''] = request.split(' ');
    const headers = body === undefined ? { 'x-auth-token': token } : json(token);
    return api.ask({ method: method.toUpperCase(), path: prefix + path, headers, body });
  };
  return { ...api, operations, as };
}

function schemaOf(media: Media | undefined): Validator {
  const [only] = Object.values(media?.content ?? {});
  if (only === undefined) throw new TypeError('no schema');
  return Compile(only.schema);
}

/** Checks a JSON response, or each line of a stream, against its schema. */
function fits(operation: Operation | undefined, { text, status }: ApiAnswer): boolean {
  const check = schemaOf(operation?.responses[status === 200 ? '200' : 'default']);
  return text
    .trim()
    .split('\n')
    .every((line) => check.Check(JSON.parse(line)));
}

test('the document contains every route of the bridge, with its permitted users', async (t) => {
  const { operations, as } = await open(t);
  t.deepEqual([...operations.keys()].sort(), [...described].sort());
  for (const [name, operation] of operations) {
    const isOfMachines = name.includes('/enroll/');
    t.is(operation.security.length > 0, !isOfMachines, name);
    const body = operation.requestBody === undefined ? undefined : {};
    const answer = await as(name.replace(/\{\w+\}/g, 'x'), body, '');
    // The form of a request is checked before its token, except for handles.
    t.true([400, 401].includes(answer.status), `${name}: ${answer.status}`);
    t.true(fits(operation, answer), name);
  }
});

test('the server accepts the request bodies that the document describes', async (t) => {
  const { operations, as } = await open(t);
  const run = { target: ['web1'], params: { text: 'x' } };
  const all = { target: 'web*', targetType: 'glob' };
  const plan = { groups: { all }, params: { text: 'x' } };
  const signal = { endpoint: 'http://127.0.0.1:1/signal', token: 'x' };
  const handle = { alias: 'a', minions: ['web1'], signal };
  const machine = { id: 'db-1', project: 'p', format: 'none' };
  const { alias: _, ...unnamed } = handle;
  const claim = { ticket: 'none', id: 'x', fingerprint: 'y' };
  const bodies: readonly (readonly [string, object, string])[] = [
    ['post /commands/{name}/run', run, 'post /commands/demo.echo/run'],
    ['post /commands/{name}/run', { ...run, more: 1 }, 'post /commands/demo.echo/run'],
    ['post /commands/{name}/run', { params: {} }, 'post /commands/demo.echo/run'],
    ['post /plans/{name}/run', plan, 'post /plans/demo.twice/run'],
    ['post /plans/{name}/run', { ...plan, groups: 'web1' }, 'post /plans/demo.twice/run'],
    ['post /plans/{name}/run', { params: {} }, 'post /plans/demo.twice/run'],
    ['post /handles', handle, 'post /handles'],
    ['post /handles', { ...handle, minions: [] }, 'post /handles'],
    ['post /handles', unnamed, 'post /handles'],
    ['put /handles/{alias}', unnamed, 'put /handles/b'],
    ['put /handles/{alias}', { ...unnamed, more: 1 }, 'put /handles/b'],
    ['post /enrolments', machine, 'post /enrolments'],
    ['post /enrolments', { ...machine, id: 1 }, 'post /enrolments'],
    ['post /enroll/claim', { ...claim, ticket: 1 }, 'post /enroll/claim'],
    ['post /enroll/failure', claim, 'post /enroll/failure'],
  ];
  for (const [name, body, request] of bodies) {
    const operation = operations.get(name);
    const isTaken = schemaOf(operation?.requestBody).Check(body);
    const answer = await as(request, body);
    t.is(answer.status, isTaken ? 200 : 400, `${name} ${JSON.stringify(body)}: ${answer.text}`);
    t.true(fits(operation, answer), `${name}: ${answer.text}`);
  }
});

test('the server sends the answers that the document describes', async (t) => {
  const { operations, as } = await open(t);
  const signal = { endpoint: 'http://127.0.0.1:1/signal', token: 'x' };
  await as('post /handles', { alias: 'a', minions: ['web1'], signal });
  const made = await as('post /enrolments', { id: 'db-1', project: 'p', format: 'none' });
  const { number } = (made.json as { enrolment: { number: string } }).enrolment;
  const told = await as('post /commands/demo.echo/run', {
    target: ['web1'],
    params: { text: 'x' },
  });
  const { id } = JSON.parse(told.text.split('\n')[0] ?? '') as { id: string };
  const plan = { groups: { all: ['web1'] }, params: { text: 'x' } };
  const begun = await as('post /plans/demo.twice/run', plan);
  const { id: planned } = JSON.parse(begun.text.split('\n')[0] ?? '') as { id: string };
  for (const [name, request, body] of [
    ['get /commands', 'get /commands', undefined],
    ['get /commands/{name}', 'get /commands/demo.echo', undefined],
    ['get /runs/{id}', `get /runs/${id}`, undefined],
    ['get /runs/{id}/outcome', `get /runs/${id}/outcome`, undefined],
    ['delete /runs/{id}', `delete /runs/${id}`, undefined],
    ['get /plans', 'get /plans', undefined],
    ['get /plans/{name}', 'get /plans/demo.twice', undefined],
    ['get /plan-runs/{id}', `get /plan-runs/${planned}`, undefined],
    ['get /plan-runs/{id}/outcome', `get /plan-runs/${planned}/outcome`, undefined],
    ['delete /plan-runs/{id}', `delete /plan-runs/${planned}`, undefined],
    ['get /enrolments/{number}', `get /enrolments/${number}`, undefined],
    ['post /enrolments/{number}/retire', `post /enrolments/${number}/retire`, {}],
    ['get /handles', 'get /handles', undefined],
    ['get /handles/{alias}', 'get /handles/a', undefined],
    ['get /handles/{alias}/outbox', 'get /handles/a/outbox', undefined],
    ['post /handles/{alias}/outbox/retry', 'post /handles/a/outbox/retry', {}],
    ['delete /handles/{alias}/outbox', 'delete /handles/a/outbox', undefined],
    ['delete /handles/{alias}', 'delete /handles/a', undefined],
  ] as const) {
    const answer = await as(request, body);
    t.is(answer.status, 200, `${name}: ${answer.text}`);
    t.true(fits(operations.get(name), answer), `${name}: ${answer.text}`);
  }
});

// The bridge as an extension, with and without a master.

test('a master with a bridge starts and closes without any configuration for it', async (t) => {
  const { master } = await startVectorMaster(t, { extensions: [createBridge()] });
  t.truthy((await master.status()).id);
  await master.close();
});

test('an unknown key of the configuration ends the start, and is named', async (t) => {
  const starting = startVectorMaster(t, {
    config: { bridge: { catalogue: ['/x'] } },
    extensions: [createBridge()],
  });
  const error = await t.throwsAsync(starting, {
    instanceOf: BridgeError,
    code: 'ERR_BRIDGE_OPTIONS',
  });
  t.regex(error.message, /saltbridge:bridge:catalogue/);
});

test('a bridge belongs to one master', async (t) => {
  const bridge = createBridge();
  await startVectorMaster(t, { extensions: [bridge] });
  await t.throwsAsync(startVectorMaster(t, { extensions: [bridge] }), {
    code: 'ERR_BRIDGE_NOT_OPEN',
  });
});

// The tests of the Python module, with a bridge.

const directory = fileURLToPath(new URL('../../clients/python', import.meta.url));
/** Installed Pythons of the supported versions. `python3` is one of them or an additional one. */
const pythons = ['python3', ...[9, 10, 11, 12, 13].map((minor) => `python3.${minor}`)].filter(
  (name) => spawnSync(name, ['--version']).status === 0,
);
const hasMypy = spawnSync('python3', ['-m', 'mypy', '--version']).status === 0;
const step = testWhere(pythons.length > 0, 'the package python3');

testWhere(hasMypy, 'the package mypy')('the Python module has the types that it says', (t) => {
  const files = ['saltbridge_bridge.py', '../../examples/sahara/python/sahara_engine.py'];
  const args = ['-m', 'mypy', '--strict', '--cache-dir', temporaryDirectory(t), ...files];
  const { stdout } = spawnSync('python3', args, { cwd: directory, encoding: 'utf8' });
  t.regex(stdout, /^Success/);
});

step('each Python version compiles the modules', (t) => {
  const examples = fileURLToPath(new URL('../../examples', import.meta.url));
  for (const python of pythons) {
    const cache = temporaryDirectory(t);
    const args = ['-X', `pycache_prefix=${cache}`, '-W', 'error', '-m', 'compileall', '-q'];
    const { status, stdout } = spawnSync(python, [...args, directory, examples], {
      encoding: 'utf8',
    });
    t.is(status, 0, `${python}: ${stdout}`);
  }
});

async function testPython(t: ExecutionContext, python: string): Promise<void> {
  const bridge = createBridge({ commands: [echo], plans: [twice] });
  const rule = allow('limited', {
    subject: { user: 'limited' },
    action: 'command',
    resource: { fun: 'demo.*', within: 'web*' },
  });
  const enrols = allow('limited enrols', {
    subject: { user: 'limited' },
    action: 'command',
    resource: { fun: 'bridge.enroll.*', arguments: [{ kwargs: { id: 'web-*' } }] },
  });
  const databases = allow('databases', {
    subject: { project: 'databases' },
    action: 'command',
    resource: { fun: 'demo.*', within: 'web*' },
  });
  const hears = allow('limited hears', {
    subject: { user: 'limited' },
    action: 'subscribe',
    resource: { tag: 'salt/job/*' },
  });
  const keystone = await startKeystone(t);
  const { port } = await startApi(t, {
    config: {
      acl: acl([rule, enrols, databases, hears]),
      eventRing: { entries: 1000, bytes: 1_048_576 },
      bridge: { keystone: keystoneSection(keystone.url), enroll: {} },
    },
    extensions: [bridge],
    options: { plugins: [bridge.http] },
    functions: { 'test.echo': ({ kwargs: { text } }) => text ?? null },
  });
  const env = {
    ...process.env,
    SALTBRIDGE_URL: `http://127.0.0.1:${port}`,
    SALTBRIDGE_PASSWORD: password,
    KEYSTONE_TOKEN: tokenOf('trove'),
    PYTHONDONTWRITEBYTECODE: '1',
  };
  const args = ['-m', 'unittest', '-v'];
  const { stderr } = await promisify(execFile)(python, args, { cwd: directory, env });
  t.regex(stderr, /Ran 28 tests/);
  t.false(stderr.includes('skipped'));
}

step('the Python module passes its own tests', (t) => testPython(t, 'python3'));

for (const python of pythons.filter((name) => name !== 'python3')) {
  test.serial(`the Python module passes its own tests with ${python}`, (t) =>
    testPython(t, python),
  );
}
