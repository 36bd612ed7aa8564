/** /openapi.json is OpenAPI 3.1 by its own schema, and real answers are what it says. */
import { Validator } from '@seriousme/openapi-schema-validator';
import test from 'ava';
import { Compile } from '#typebox/compile';
import { type ApiAnswer, json, password, type RunningApi, startApi } from '../helpers/salt-api.ts';

interface Described {
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: object }>> }>
  >;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
}

/** A request by which an operation answers what it is for. */
interface Asked {
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

const credentials = { username: 'admin', password, eauth: 'sharedsecret' };
const ping = { client: 'local', tgt: 'web1', fun: 'test.ping' };

/** How each operation is asked that is described, but for streams and pages. */
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
  // Last: it ends the session of all others.
  'post /logout': { path: '/logout', body: {} },
};

/** Streams and pages of forms (events.test.ts, status-page.test.ts), archives, the typed client's. */
const elsewhere =
  /^(?:get \/events|get \/status\/(?:stream|explain)|post \/status\/\w+|post \/keys|post \/rpc\/.*)$/;

async function documentOf({ ask }: RunningApi): Promise<Document> {
  return (await ask({ path: '/openapi.json' })).json as Document;
}

/** What is wrong with an answer by what its operation says; `undefined`: nothing. */
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

test('a document that is none is told as such', async (t) => {
  const { valid } = await new Validator().validate({ openapi: '3.1.0', info: {}, paths: {} });
  t.false(valid);
});

test('what each operation answers is what the document says of it', async (t) => {
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

test('who is refused is answered as the document says', async (t) => {
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
