/**
 * Repeats requests that were recorded with a real salt-api. Status, structure and types of the
 * responses must be equal.
 */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { allow } from '#acl';
import { formatJson } from '#cli/output/value-text.ts';
import { connectMaster } from '#client';
import { createBridge } from '#guests';
import type { MasterApi } from '#master';
import type { MinionFunction, WireMap, WireValue } from '#minion-protocol';
import { writeJson } from '#runtime';
import { fuzz } from '../campaigns/http-fuzz.ts';
import { acl } from '../heat-bridge/stage.ts';
import { type ApiAnswer, json, type RunningApi, startApi } from '../helpers/salt-api.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories } from '../helpers/vector-master.ts';

interface Recorded {
  readonly name: string;
  readonly request: {
    readonly method: string;
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body?: unknown;
    readonly text?: string;
  };
  readonly response: {
    readonly status: number;
    readonly contentType?: string;
    readonly body?: unknown;
    readonly text?: string;
  };
}

/** Responses that differ, with the reason. docs/salt-api.md describes the differences for users. */
const differences: Readonly<Record<string, { readonly status?: number; readonly why: string }>> = {
  'login/empty-body': { status: 401, why: 'a log-in without credentials fails like any other' },
  'root-and-errors/missing-fun': { status: 400, why: 'what was expected is told' },
  'root-and-errors/preflight': { status: 200, why: 'what Salt meant to answer' },
  'runner/jobs.list_job-of-a-runner': {
    why: 'the runner of the recording was run by another master',
  },
  'runner/state.orchestrate_show_sls': { why: 'the files of that master are not here' },
  'wheel/config.values': { why: 'the rights of users are not told' },
  'wheel/key.finger-all': { why: 'a private key has no fingerprint here' },
  'urls/stats': { why: 'other statistics, in maps as well' },
  'runner/jobs.active': { why: 'the embedded minion has no process of its own' },
  'events/stream-head': {
    status: 401,
    why: 'its token was left out; events.long.test.ts reads streams',
  },
  'urls/keys-post': { status: 401, why: 'its credentials were left out; server.long.test.ts' },
};

const files = [
  'login',
  'root-and-errors',
  'content-types',
  'local',
  'local-for-saltgui',
  'runner',
  'wheel',
  'urls',
  'run-and-token',
  'permissions',
  'events',
  'hook',
  'static',
  'logout',
] as const;

function read(file: string): Recorded[] {
  const url = new URL(`../../test/fixtures/salt-api/${file}.json`, import.meta.url);
  return JSON.parse(readFileSync(url, 'utf8'));
}

const passwords = { admin: 's3cret', limited: 'lim1ted', noperms: 'nop3rms', scoped: 'sc0ped' };
const rights = {
  admin: ['.*', '@jobs', '@runner', '@wheel'],
  limited: ['test.*', 'grains.items'],
  noperms: [],
  scoped: [{ web1: ['test.*'] }],
};

/** Starts an installation like the recorded one. Its minions return the recorded values. */
async function start(t: ExecutionContext): Promise<RunningApi> {
  const directory = temporaryDirectory(t);
  const users = path.join(directory, 'users.txt');
  const lines = Object.entries(passwords).map(([name, password]) => `${name}:${password}\n`);
  writeFileSync(users, lines.join(''));
  const folder = path.join(directory, 'static');
  for (const name of ['scripts/Api.js', 'stylesheets/main.css', 'images/icon.png']) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), 'x');
  }
  const app = path.join(directory, 'index.html');
  writeFileSync(app, '<p>app</p>');
  return startApi(t, {
    pending: ['new1', 'new2', 'new3'],
    functions: recordedFunctions(),
    grains: (id) => recordedFacts(grainsAnswers, id),
    pillar: (id) => recordedFacts(['runner/cache.pillar'], id),
    config: {
      nodegroups: { web: 'web1' },
      externalAuth: { file: { '^filename': users, '^filetype': 'text', ...rights } },
    },
    options: { static: folder, app },
  });
}

/** Recorded returns of a function, by arguments, in order. */
class RecordedReturns {
  readonly #byArguments = new Map<string, Record<string, unknown>[]>();

  add({ arg, kwarg }: Record<string, unknown>, values: Record<string, unknown>): void {
    const texts = Array.isArray(arg) ? arg : [];
    const isKeyword = (it: unknown): boolean => /^\w+=/.test(String(it));
    const words = texts.filter(isKeyword).map((it) => String(it).split('=', 2));
    const kwargs = { ...Object.fromEntries(words), ...(kwarg as object | undefined) };
    const key = JSON.stringify([texts.filter((it) => !isKeyword(it)), kwargs]);
    this.#byArguments.set(key, [...(this.#byArguments.get(key) ?? []), values]);
  }

  /** Returns the next value for a minion. The last value is repeated. */
  next(call: Parameters<MinionFunction>[0], id: string): WireValue {
    const recorded = this.#byArguments.get(JSON.stringify([call.args, call.kwargs])) ?? [];
    const index = recorded.findIndex((values) => id in values);
    const value = (recorded[index] ?? recorded[0])?.[id];
    if (recorded.filter((values) => id in values).length > 1) delete recorded[index]?.[id];
    return (isFull(value) ? value.ret : value) as WireValue;
  }
}

/** Returns functions that the embedded minion does not have. They return recorded values. */
function recordedFunctions(): Record<string, MinionFunction> {
  const returns = new Map<string, RecordedReturns>();
  for (const { request, response } of files.flatMap(read)) {
    const [low] = [request.body].flat() as Record<string, unknown>[];
    const list = (response.body as { return?: Record<string, unknown>[] } | undefined)?.return;
    const [values] = Array.isArray(list) ? list : [];
    if (low?.client !== 'local' || typeof low.fun !== 'string' || values === undefined) continue;
    const known = returns.get(low.fun) ?? new RecordedReturns();
    returns.set(low.fun, known);
    known.add(low, values);
  }
  const builtIn = /^(?:grains\.items|test\.(?:ping|arg|version|echo|sleep)|nope\.nope)$/;
  const functions = [...returns].filter(([fun]) => !builtIn.test(fun));
  return Object.fromEntries([
    ...functions.map(([fun, known]): [string, MinionFunction] => [
      fun,
      (call, { id }) => known.next(call, id),
    ]),
    // The recorded subset has one minion. It is the only one that has the function here.
    ['sys.list_functions', (_call, { id }) => (id === 'db1' ? ['test.ping'] : [])],
  ]);
}

/** Returns grains or pillar of a minion, collected from all responses that contain some. */
function recordedFacts(names: readonly string[], id: string): WireMap {
  const answers = files.flatMap((file) =>
    read(file).filter(({ name }) => names.includes(`${file}/${name}`)),
  );
  const facts = answers.map(({ response }) => {
    const [byMinion] = (response.body as { return: [Record<string, WireMap>] }).return;
    return byMinion[id] ?? {};
  });
  return Object.assign({}, ...facts);
}

const grainsAnswers = ['runner/cache.grains', 'urls/minions-one', 'local-for-saltgui/grains.items'];

function isFull(value: unknown): value is { ret: unknown } {
  return typeof value === 'object' && value !== null && 'ret' in value && 'jid' in value;
}

/** Repeats the recorded requests. Recorded tokens and jids are replaced by the current ones. */
class Replay {
  readonly #api: RunningApi;
  readonly #known = new Map<string, string>();

  constructor(api: RunningApi) {
    this.#api = api;
  }

  async login(username: keyof typeof passwords): Promise<string> {
    const body = { username, password: passwords[username], eauth: 'file' };
    const headers = { 'content-type': 'application/json' };
    const answer = await this.#api.ask({ method: 'POST', path: '/login', headers, body });
    return String(answer.headers['x-auth-token']);
  }

  know(recorded: string, here: string): void {
    this.#known.set(recorded, here);
  }

  async ask({ request, response }: Recorded): Promise<ApiAnswer> {
    const { method, path: where, headers, body, text } = JSON.parse(this.#translate(request));
    const answer = await this.#api.ask({ method, path: where, headers, body: text ?? body });
    this.#learn(response.body, answer.json);
    return answer;
  }

  #translate(request: Recorded['request']): string {
    return JSON.stringify(request).replace(/\b(?:[0-9a-f]{64}|[0-9a-f]{40}|\d{20})\b/g, (found) => {
      return this.#known.get(found) ?? found;
    });
  }

  /** Remembers jids and tokens of responses for later requests. */
  #learn(there: unknown, here: unknown): void {
    if (typeof there === 'string' && typeof here === 'string') {
      if (/^(?:\d{20}|[0-9a-f]{64})$/.test(there)) this.#known.set(there, here);
    }
    if (!isObject(there) || !isObject(here)) return;
    for (const [key, value] of Object.entries(there)) this.#learn(value, here[key]);
  }
}

/** Compares the structure of two responses. Returns the difference, or `undefined`. */
function otherShape(there: unknown, here: unknown, where = ''): string | undefined {
  if (Array.isArray(there)) {
    if (!Array.isArray(here)) return `${where}: ${typeof here} in place of a list`;
    if (there.length > 0 !== here.length > 0) return `${where}: ${here.length} items`;
    return there.length === 0 ? undefined : otherShape(there[0], here[0], `${where}[0]`);
  }
  if (!isObject(there)) {
    const same = typeof there === typeof here && (there === null) === (here === null);
    return same ? undefined : `${where}: ${typeof here} in place of ${typeof there}`;
  }
  if (!isObject(here) || Array.isArray(here)) return `${where}: ${typeof here} in place of a map`;
  const names = Object.keys(there).filter((name) => !/^__(?:trimmed__|pub_)/.test(name));
  // These keys are data. The value of the first recorded one must exist under any key.
  if (names.some((name) => /^(?:\d{20}$|[A-Z][a-z]+ [A-Z])/.test(name))) {
    const problems = Object.values(here).map((it) => otherShape(there[names[0] ?? ''], it));
    return problems.includes(undefined) ? undefined : `${where}.*${problems[0] ?? ': nothing'}`;
  }
  for (const name of names) {
    if (!(name in here)) return `${where}: no ${name}`;
    const problem = otherShape(there[name], here[name], `${where}.${name}`);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

test('a real salt-api responds identically, apart from the listed differences', async (t) => {
  t.timeout(50_000);
  const replay = new Replay(await start(t));
  replay.know('3907370422251208446fa5842c0748aa6bda28c4', await replay.login('admin'));
  replay.know('9fe7e58575338f20fcaae67a5ff6ce9daea50013', await replay.login('limited'));
  replay.know('1ec058be2f41d2af192c4e7d7bbc172e5b503096', await replay.login('admin'));
  const problems: string[] = [];
  for (const file of files) {
    for (const recorded of read(file)) {
      const name = `${file}/${recorded.name}`;
      const answer = await replay.ask(recorded);
      const { status = recorded.response.status } = differences[name] ?? {};
      if (answer.status !== status)
        problems.push(`${name}: ${answer.status}, not ${status} ${answer.text.slice(0, 100)}`);
      else if (!(name in differences) && recorded.response.body !== undefined) {
        const problem = otherShape(recorded.response.body, answer.json);
        if (problem !== undefined) problems.push(`${name}${problem}`);
      }
    }
  }
  t.deepEqual(problems, []);
});

// Integers beyond 2^53 keep all digits in both directions, with every content type.

const integers = [2n ** 63n - 1n, -(2n ** 63n), 2n ** 64n - 1n, -(2n ** 53n) - 1n, 2n ** 53n];
const digits = integers.map(String);

const count = {
  name: 'demo.count',
  description: 'Gives back a number.',
  function: 'test.echo',
  parameters: { type: 'object', properties: { text: { type: 'integer', minimum: 0 } } },
};

const rule = allow('counts', {
  subject: { user: 'admin' },
  action: 'command',
  resource: { fun: 'demo.*' },
});

/** Starts an API whose minions return the integers that they receive, and a float. */
function startWithIntegers(t: Parameters<typeof startApi>[0]): Promise<RunningApi> {
  const bridge = createBridge({ commands: [count] });
  return startApi(t, {
    minions: ['web1'],
    config: { acl: acl([rule]) },
    extensions: [bridge],
    options: { plugins: [bridge.http] },
    functions: {
      'test.twice': ({ args }) => ({ args: [...args, ...args], float: 1e20 }),
      'test.echo': ({ kwargs }) => kwargs.text ?? null,
    },
  });
}

test('an integer is exact over salt-api as JSON, as YAML and in a form', async (t) => {
  const { ask, login } = await startWithIntegers(t);
  const token = await login();
  const head = 'client=local&tgt=web1&fun=test.twice';
  const bodies: [type: string, body: string][] = [
    ['application/json', `{"client":"local","tgt":"web1","fun":"test.twice","arg":[${digits}]}`],
    [
      'application/x-yaml',
      `{client: local, tgt: web1, fun: test.twice, arg: [${digits.join(', ')}]}`,
    ],
    ['application/x-www-form-urlencoded', [head, ...digits.map((it) => `arg=${it}`)].join('&')],
  ];
  for (const [type, body] of bodies) {
    const headers = { 'x-auth-token': token, 'content-type': type };
    const answer = await ask({ method: 'POST', path: '/', headers, body });
    t.true(
      answer.text.includes(`[${[...digits, ...digits].join(', ')}]`),
      `${type} ${answer.text}`,
    );
    t.regex(answer.text, /"float": 1e\+20/);
    const yaml = { ...headers, accept: 'application/x-yaml' };
    const { text } = await ask({ method: 'POST', path: '/', headers: yaml, body });
    for (const it of digits) t.is(text.split(`- ${it}\n`).length, 3, `${type} ${text}`);
  }
});

test('an integer beyond 64 bits arrives as decimal text, from a caller and from a minion', async (t) => {
  const { ask, run, login } = await startApi(t, {
    minions: ['web1'],
    functions: { 'test.large': () => 2n ** 70n },
  });
  const token = await login();
  for (const beyond of ['18446744073709551616', '-9223372036854775809']) {
    const body = `{"client":"local","tgt":"web1","fun":"test.arg","arg":[{"a":${beyond}}]}`;
    const { text } = await run(token, body);
    t.is(text, `{"return": [{"web1": {"args": [{"a": "${beyond}"}], "kwargs": {}}}]}`);
    const fields = `- {client: local, tgt: web1, fun: test.arg, arg: [{a: ${beyond}}]}`;
    const headers = { 'x-auth-token': token, 'content-type': 'application/x-yaml' };
    const answer = await ask({ method: 'POST', path: '/', headers, body: fields });
    t.is(answer.text, text);
  }
  const { text } = await run(token, { client: 'local', tgt: 'web1', fun: 'test.large' });
  t.is(text, `{"return": [{"web1": "${2n ** 70n}"}]}`);
});

test("integers from the local socket and from HTTP have TypeScript's types", async (t) => {
  const { master, directory, port, login } = await startWithIntegers(t);
  const { token } = await master.logins.login({
    username: 'admin',
    password: 's3cret',
    eauth: 'sharedsecret',
  });
  t.truthy(await login());
  const ways: Readonly<Record<string, MasterApi>> = {
    'in the process': master,
    socket: connectMaster({ socketPath: directories(directory).socket }),
    http: connectMaster({ url: `http://127.0.0.1:${port}`, token }),
  };
  for (const [way, api] of Object.entries(ways)) {
    for await (const update of api.jobs.run({ tgt: 'web1', fun: 'test.twice', arg: integers })) {
      if (update.type !== 'return') continue;
      t.deepEqual(Object(update.return).args, [...integers, ...integers], way);
      t.is(Object(update.return).float, 1e20, way);
      t.true(formatJson(update.return).includes(digits.join(', ')), way);
    }
  }
});

test('integers are numbers on the wire of the local socket', async (t) => {
  const { directory } = await startWithIntegers(t);
  const text = await new Promise<string>((resolve, reject) => {
    const socketPath = directories(directory).socket;
    const call = request({ socketPath, method: 'POST', path: '/rpc/jobs.run' }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => resolve(Buffer.concat(chunks).toString()));
    });
    call.on('error', reject);
    call.end(`{"tgt":"web1","fun":"test.twice","arg":[${digits.join(',')}]}`);
  });
  t.true(text.includes(`"args":[${[...digits, ...digits].join(',')}]`), text);
});

test('integers are exact over the HTTP of a bridge, also within bounds of a schema', async (t) => {
  const { ask, login } = await startWithIntegers(t);
  const headers = json(await login());
  const call = async (text: bigint): Promise<string> => {
    const body = writeJson({ target: 'web1', params: { text } });
    const path = '/bridge/v1/commands/demo.count/run';
    return (await ask({ method: 'POST', path, headers, body })).text;
  };
  t.regex(await call(2n ** 63n - 1n), /"return":9223372036854775807[,}]/);
  t.regex(await call(-(2n ** 63n)), /ERR_COMMAND_PARAMETERS/);
  t.regex(await call(2n ** 64n), /ERR_COMMAND_PARAMETERS/);
});

// These are a few hundred of the bodies of `npm run campaign -- fuzz-http`, with a fixed seed.

test('no body makes the API fail, or exceed the reading limit of one step', async (t) => {
  const bridge = createBridge({});
  const { port, login } = await startApi(t, {
    minions: [],
    config: { timeout: 0.05, gatherJobTimeout: 0.05 },
    extensions: [bridge],
    options: { plugins: [bridge.http], webhookDisableAuth: true, runnerTimeoutSeconds: 2 },
  });
  const tokens = [await login(), await login('limited'), 'x'.repeat(40)];
  const outcome = await fuzz({ port, tokens }, { seed: 17, first: 0, count: 400 });
  t.deepEqual(outcome.problems, []);
  t.true((outcome.statuses.get(200) ?? 0) > 0);
  t.true((outcome.statuses.get(400) ?? 0) > 0);
});
