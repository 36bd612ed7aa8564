/**
 * Compares /openapi.json with the routes, and its schemas with the bodies that the routes accept.
 */

import { Validator } from '@seriousme/openapi-schema-validator';
import test from 'ava';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { type ApiAnswer, json, password, type RunningApi, startApi } from '../helpers/salt-api.ts';

interface Operation {
  readonly summary: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
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

/** Paths of Salt's API and of our extensions of it. */
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

test('the document has every path with its methods, including those of the contract', async (t) => {
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
    // A stream does not end by itself. Without a token it does not begin.
    const answer = await ask({ method: method.toUpperCase(), path: real });
    t.false([404, 405].includes(answer.status), `${method} ${path}: ${answer.status}`);
    const inPath = (operation.parameters ?? [])
      .filter((it) => it.in === 'path')
      .map((it) => it.name);
    t.deepEqual(
      inPath,
      [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name),
    );
    t.true('default' in operation.responses);
    const needsSession = operation.security.length > 0;
    if (needsSession) t.is(answer.status, 401, `${method} ${path}`);
  }
});

test('a method that a route does not describe is refused with the described methods', async (t) => {
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

test('commands are refused exactly if the schema refuses them', async (t) => {
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

test('disabled clients are not described, and plugins add their own descriptions', async (t) => {
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
              { schema: { summary: 'Makes a thing', security: [{ token: [] }], body } },
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

// /openapi.json is valid OpenAPI 3.1, and real responses match it.

interface Described {
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: object }>> }>
  >;
}

interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
}

/** A request with a documented operation. */
interface Asked {
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

const credentials = { username: 'admin', password, eauth: 'sharedsecret' };
const ping = { client: 'local', tgt: 'web1', fun: 'test.ping' };

/** Requests for all documented operations, except streams and pages. */
const requests: Readonly<Record<string, Asked>> = {
  'get /': { path: '/' },
  'post /': { path: '/', body: [ping, { client: 'runner', fun: 'manage.versions' }] },
  'get /run': { path: '/run' },
  'post /run': { path: '/run', body: { ...credentials, ...ping } },
  'get /login': { path: '/login' },
  'post /login': { path: '/login', body: credentials },
  'get /token': { path: '/token' },
  'post /token': { path: '/token', body: credentials },
  'get /minions': { path: '/minions' },
  'post /minions': { path: '/minions', body: { tgt: 'web1', fun: 'test.ping' } },
  'get /minions/{mid}': { path: '/minions/web1' },
  'get /jobs': { path: '/jobs' },
  'get /jobs/{jid}': { path: '/jobs/20200101000000000000' },
  'get /keys': { path: '/keys' },
  'get /keys/{mid}': { path: '/keys/web1' },
  'get /stats': { path: '/stats' },
  'post /hook': { path: '/hook', body: { a: 1 } },
  'post /hook/{path}': { path: '/hook/a/b', body: { a: 1 } },
  'get /health': { path: '/health' },
  'get /ready': { path: '/ready' },
  'get /openapi.json': { path: '/openapi.json' },
  'get /metrics': { path: '/metrics' },
  'get /status': { path: '/status', headers: { accept: 'text/html' } },
  'get /status/style.css': { path: '/status/style.css' },
  'get /status/script.js': { path: '/status/script.js' },
  'get /status/icon.svg': { path: '/status/icon.svg' },
  // This is the last request, because it ends the session.
  'post /logout': { path: '/logout', body: {} },
};

/**
 * Operations that other tests check: streams and pages of forms (events.long.test.ts,
 * status-page.long.test.ts), archives, and those of the typed client.
 */
const elsewhere =
  /^(?:get \/events|get \/status\/(?:stream|explain|site)|post \/status\/\w+|post \/keys|post \/rpc\/.*)$/;

async function documentOf({ ask }: RunningApi): Promise<OpenApiDocument> {
  return (await ask({ path: '/openapi.json' })).json as OpenApiDocument;
}

/** Compares a response with the schema of its operation. Returns the difference, or `undefined`. */
function problemWith({ responses }: Described, answer: ApiAnswer): string | undefined {
  const described = responses[String(answer.status)] ?? responses.default;
  const [type = ''] = String(answer.headers['content-type']).split(';');
  const content = described?.content?.[type];
  if (content === undefined) return `${answer.status} ${type} is not described`;
  const value = type === 'application/json' ? answer.json : answer.text;
  const [error] = Compile(content.schema).Errors(value);
  return error === undefined ? undefined : `${error.instancePath} ${error.message}`;
}

for (const [name, options] of Object.entries({
  'as it is': {},
  'without sessions and with a prefix': { rootPrefix: '/salt', enableSessions: false },
  'with few clients': { clients: ['runner'], statusPage: false },
})) {
  test(`the document is valid OpenAPI 3.1, ${name}`, async (t) => {
    const { ask } = await startApi(t, { minions: [], options });
    const path = `${'rootPrefix' in options ? options.rootPrefix : ''}/openapi.json`;
    const validator = new Validator();
    const document = (await ask({ path })).json as Record<string, unknown>;
    const { valid, errors = [] } = await validator.validate(document);
    t.true(valid, JSON.stringify(errors).slice(0, 2000));
    t.is(validator.version, '3.1');
  });
}

test('an invalid document is reported', async (t) => {
  const { valid } = await new Validator().validate({ openapi: '3.1.0', info: {}, paths: {} });
  t.false(valid);
});

test('the responses of each operation match the document', async (t) => {
  const api = await startApi(t, { minions: ['web1'] });
  const { paths } = await documentOf(api);
  const described = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, it]) => [`${method} ${path}`, it] as const),
  );
  const names = described.map(([name]) => name).filter((name) => !elsewhere.test(name));
  t.deepEqual(names.sort(), Object.keys(requests).sort());
  const token = await api.login();
  for (const [name, { path, body, headers }] of Object.entries(requests)) {
    const [method = ''] = name.split(' ');
    const operation = described.find(([it]) => it === name)?.[1];
    const answer = await api.ask({
      method: method.toUpperCase(),
      path,
      headers: { ...json(token), ...headers },
      ...(body === undefined ? {} : { body }),
    });
    t.is(operation && problemWith(operation, answer), undefined, name);
    t.true(answer.status < 300, `${name}: ${answer.status}`);
  }
});

test('refusals match the document', async (t) => {
  const api = await startApi(t, { minions: [] });
  const { paths } = await documentOf(api);
  let refused = 0;
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const place = path.replace(/\{\w+\}/g, 'x');
      const answer = await api.ask({ method: method.toUpperCase(), path: place, headers: json() });
      if (answer.status < 400) continue;
      refused += 1;
      t.is(problemWith(operation, answer), undefined, `${method} ${path}: ${answer.text}`);
    }
  }
  t.true(refused > 40);
});
