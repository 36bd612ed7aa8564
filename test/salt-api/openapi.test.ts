/** What /openapi.json says is what is there, and what it says of bodies is what is taken. */
import test from 'ava';
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import { json, startApi } from '../helpers/salt-api.ts';

interface Operation {
  readonly summary: string;
  readonly parameters: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { schema: object }>> };
  readonly responses: Readonly<Record<string, unknown>>;
  readonly security: readonly Readonly<Record<string, unknown>>[];
}

interface Document {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly securitySchemes: object };
}

/** Paths of CONTRACT 3, and ours. */
const expected = [
  'get /',
  'post /',
  'post /run',
  'get /login',
  'post /login',
  'post /logout',
  'post /token',
  'get /minions',
  'post /minions',
  'get /minions/{mid}',
  'get /jobs',
  'get /jobs/{jid}',
  'get /keys',
  'get /keys/{mid}',
  'post /keys',
  'get /events',
  'post /hook',
  'post /hook/{path}',
  'get /stats',
  'get /health',
  'get /ready',
  'get /openapi.json',
  'post /rpc/jobs.run',
  'post /rpc/events.subscribe',
];

test('every path of the document is there, with its methods, and those of the contract are in it', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  const document = (await ask({ path: '/openapi.json' })).json as Document;
  t.is(document.openapi, '3.1.0');
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  );
  const names = operations.map(({ method, path }) => `${method} ${path}`);
  for (const name of expected) t.true(names.includes(name), name);
  for (const { method, path, operation } of operations) {
    const real = path.replace('{path}', 'x').replace(/\{\w+\}/g, 'x');
    // A stream would not end; without a token it does not begin.
    const answer = await ask({ method: method.toUpperCase(), path: real });
    t.false([404, 405].includes(answer.status), `${method} ${path}: ${answer.status}`);
    const inPath = operation.parameters.filter((it) => it.in === 'path').map((it) => it.name);
    t.deepEqual(
      inPath,
      [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name),
    );
    t.true('default' in operation.responses);
    const needsSession = operation.security.length > 0;
    if (needsSession) t.is(answer.status, 401, `${method} ${path}`);
  }
});

test('a path that a route does not describe is refused with the methods that are described', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  const document = (await ask({ path: '/openapi.json' })).json as Document;
  for (const [path, methods] of Object.entries(document.paths)) {
    if (path.startsWith('/rpc/')) continue;
    const real = path.replace('{path}', 'x').replace(/\{\w+\}/g, 'x');
    const { headers } = await ask({ method: 'DELETE', path: real });
    const allowed = String(headers.allow)
      .split(', ')
      .filter((method) => method !== 'HEAD')
      .map((method) => method.toLowerCase());
    t.deepEqual(allowed.sort(), Object.keys(methods).sort(), path);
  }
});

test('the schema of commands is what refuses them', async (t) => {
  const { ask, login, run } = await startApi(t, { minions: [] });
  const document = (await ask({ path: '/openapi.json' })).json as Document;
  const schema = document.paths['/']?.post?.requestBody?.content['application/json']?.schema ?? {};
  const check = Compile(schema);
  const token = await login();
  const good = { client: 'local', tgt: 'x', fun: 'test.ping' };
  for (const body of [
    good,
    [good],
    { ...good, timeout: '5', kwarg: null, expr_form: 'glob', batch: null },
    { client: 'local', tgt: ['a', 'b'], fun: ['test.ping'], arg: [[]] },
    { client: 'runner', fun: 'manage.present', jid: 1 },
  ]) {
    t.true(check.Check(body), JSON.stringify(body));
    t.is((await run(token, body)).status, 200, JSON.stringify(body));
  }
  for (const body of [
    { ...good, tgt: 5 },
    { ...good, fun: { a: 1 } },
    { ...good, tgt_type: 7 },
    { ...good, kwarg: [1] },
    { ...good, timeout: -1 },
    { ...good, client: 'ssh' },
    { client: 'local', tgt: 'x' },
    { client: 'local_batch', tgt: 'x', fun: 'test.ping' },
    { client: 'runner' },
  ]) {
    t.false(check.Check(body), JSON.stringify(body));
    t.true((await run(token, body)).status >= 400, JSON.stringify(body));
  }
});

test('clients that are not served are not described, and plugins describe themselves', async (t) => {
  const body = Type.Object({ name: Type.String() });
  const { ask } = await startApi(t, {
    minions: [],
    options: {
      rootPrefix: '/salt',
      clients: ['runner'],
      plugins: [
        {
          prefix: '/bridge/v1',
          register: (app) => {
            app.post(
              '/things/:id',
              { config: { openapi: { summary: 'Makes a thing', access: 'token', body } } },
              async () => ({}),
            );
          },
        },
      ],
    },
  });
  const answer = await ask({ path: '/salt/openapi.json', headers: json() });
  const { paths } = answer.json as Document;
  t.false(JSON.stringify(paths['/salt']).includes('local_batch'));
  const operation = paths['/salt/bridge/v1/things/{id}']?.post;
  t.is(operation?.summary, 'Makes a thing');
  t.deepEqual(
    operation?.requestBody?.content['application/json']?.schema,
    JSON.parse(JSON.stringify(body)),
  );
});
