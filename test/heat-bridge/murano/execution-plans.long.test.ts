/**
 * Execution plans of Murano: which plans are accepted, and what they run. Nothing in a plan is
 * executed as code.
 */
import { createSign, generateKeyPairSync } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { allow, type PolicyRule } from '#acl';
import { createBridge, loadCatalog } from '#guests';
import { ExecutionPlanError, parseExecutionPlan } from '#guests/murano/execution-plan.ts';
import { Catalog, type CommandDefinition } from '#heat-bridge';
import { codeBlocks } from '../../helpers/markdown.ts';
import { type ApiAnswer, json, startApi } from '../../helpers/salt-api.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { acl } from '../stage.ts';

type Fields = Readonly<Record<string, unknown>>;

interface Fixture {
  readonly v2_application: Fields & { readonly Files: Fields; readonly Scripts: Fields };
  readonly v2_puppet: Fields;
  readonly v1_windows: Fields;
  readonly invalid: readonly {
    readonly plan: Fields;
    readonly error_code: number;
    readonly message?: string;
    readonly message_begins?: string;
  }[];
  readonly result_ok: Fields;
  readonly result_script_failed: Fields;
}

const file = new URL('../../../test/fixtures/murano/execution-plans.json', import.meta.url);
const fixture: Fixture = JSON.parse(readFileSync(file, 'utf8'));
const deployWeb = fixture.v2_application;

function refusalOf(given: Fields): ExecutionPlanError | undefined {
  try {
    parseExecutionPlan('x', given);
    return undefined;
  } catch (error) {
    if (error instanceof ExecutionPlanError) return error;
    throw error;
  }
}

for (const [
  at,
  { plan: given, error_code: code, message, message_begins: begin },
] of fixture.invalid.entries()) {
  test(`an execution plan that Murano's agent refuses is refused (${at})`, (t) => {
    const refusal = refusalOf(given);
    t.is(refusal?.errorCode, code);
    if (message !== undefined) t.is(refusal?.message, message);
    t.true(refusal?.message.startsWith(begin ?? ''));
  });
}

const bodies = [
  'return deploy(args.port).stdout.x',
  'return deploy(args.port, 1)',
  'return deploy(args, 1)',
  'return deploy(*args)',
  'return deploy(args).stdout(args)',
  "return deploy('{0}'.format(args.port, args['x']))",
  "return deploy('{0.__class__}'.format(args.port))",
  "return deploy('{1}'.format(args.port))",
  "return deploy('{'.format(args.port))",
  "return deploy('{0}'.format(open('/etc/shadow')))",
  "return deploy('{0}'.join(args.port))",
  'return deploy(args["port"])',
  "return deploy('a' + 'b')",
  "return deploy('a\\'b')",
  'return  deploy()',
  'return deploy() ',
  'return deploy()\n\n',
  ' return deploy()',
  'deploy()',
  'x = deploy()\nreturn x',
  'return deploy() or __import__("os").system("id")',
  'return other()',
  'return __class__()',
  'return toString()',
  '',
];

for (const body of bodies) {
  test(`a body that is ${JSON.stringify(body)} is refused`, (t) => {
    t.is(refusalOf({ ...deployWeb, Body: body })?.errorCode, 2);
  });
}

test('downloads, format 1 and Berkshelf are refused', (t) => {
  t.is(refusalOf(fixture.v2_puppet)?.errorCode, 2);
  t.is(refusalOf(fixture.v1_windows)?.errorCode, 9);
  t.is(refusalOf({ ...deployWeb, FormatVersion: '2.3.0' })?.errorCode, 9);
  const chef = { Type: 'Chef', EntryPoint: 'a::b', Options: { useBerkshelf: true } };
  const scripts = { ...deployWeb, FormatVersion: '2.2.0', Scripts: { deploy: chef } };
  t.regex(refusalOf(scripts)?.message ?? '', /Berkshelf/);
});

const command: CommandDefinition = {
  name: 'demo.deploy',
  description: 'Deploys the web server.',
  function: 'site.deploy',
  reviewed: 'made for this test alone',
  parameters: {
    type: 'object',
    properties: { port: { type: 'string', pattern: '^[0-9]+$' }, note: { type: 'string' } },
  },
};

const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const pem = publicKey.export({ type: 'pkcs1', format: 'pem' }).toString();

function sign(guest: string, text: string): string {
  return createSign('sha256').update(`${guest}${text}`).sign(privateKey).toString('base64');
}

interface Stage {
  readonly ports: unknown[];
  /** Sends an execution plan. It is signed by default. */
  readonly send: (
    given: Fields | string,
    more?: { guest?: string; signature?: string | null; user?: string },
  ) => Promise<ApiAnswer>;
}

async function start(
  t: ExecutionContext,
  murano: object = { keys: { default: 'key.pem' } },
  more: Pick<PolicyRule, 'rate'> = {},
): Promise<Stage> {
  const directory = temporaryDirectory(t);
  const sha256 = 'e9f0bb1a1fce0d3b1f27a0d6d2b6a5e2f8f0a5bb0b8e7bd0d6b0a3a3a0d2a7f1';
  writeFileSync(path.join(directory, 'key.pem'), pem);
  writeFileSync(
    path.join(directory, 'catalog.yaml'),
    `murano:
  demo.entry: { description: x, type: Application, entry_point: deploy-web.sh, command: demo.deploy, argument: port }
  demo.pinned: { description: x, type: Application, entry_point: pinned.sh, command: demo.deploy, sha256: [${sha256}] }
`,
  );
  const keys = { keys: { default: path.join(directory, 'key.pem') } };
  const section = 'keys' in murano ? keys : murano;
  const ports: unknown[] = [];
  const bridge = createBridge({ commands: [command] });
  const rule = allow('limited', {
    subject: { user: 'limited' },
    action: 'command',
    resource: { fun: 'demo.*', within: 'web*' },
    ...more,
  });
  const ofScoped = allow('scoped', {
    subject: { user: 'scoped' },
    action: 'command',
    resource: { fun: 'demo.*', within: 'db*' },
  });
  const { ask, login } = await startApi(t, {
    config: { acl: acl([rule, ofScoped]), bridge: { catalog: [directory], murano: section } },
    extensions: [bridge],
    options: { plugins: [bridge.http] },
    minions: ['web1', 'web2', 'db1'],
    functions: {
      'site.deploy': ({ kwargs: { port } }) => {
        ports.push(port);
        if (port === '0') return { retcode: 3, stdout: '', stderr: 'no such port\n' };
        return { retcode: 0, stdout: `port ${port}\n`, stderr: '' };
      },
    },
  });
  const tokens = new Map<string, string>();
  const send: Stage['send'] = async (
    given,
    { guest = 'web1', signature, user = 'limited' } = {},
  ) => {
    const token = tokens.get(user) ?? (await login(user));
    tokens.set(user, token);
    const text = typeof given === 'string' ? given : JSON.stringify(given);
    const signed = signature === undefined ? sign(guest, text) : signature;
    const body = { execution_plan: text, ...(signed === null ? {} : { signature: signed }) };
    return ask({ method: 'POST', path: `/bridge/v1/murano/${guest}`, headers: json(token), body });
  };
  return { ports, send };
}

/** Number of execution plans. Each gets a later time stamp. */
let count = 0;
function fresh(more: Fields = {}): Fields {
  count += 1;
  const id = `plan-${count}`;
  return { ...deployWeb, ID: id, Stamp: Number(deployWeb.Stamp) + count, ...more };
}

function resultOf({ status, json: body }: ApiAnswer): Fields & { readonly Body: Fields } {
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body as Fields & { readonly Body: Fields };
}

test('an execution plan runs the command of its entry point, and returns its result', async (t) => {
  const { send, ports } = await start(t);
  const result = resultOf(await send(deployWeb));
  const { ID: id, Time: time, ...rest } = result;
  const { ID: _id, Time: _time, ...expected } = fixture.result_ok;
  t.deepEqual(rest, expected);
  t.regex(String(id), /^[0-9a-f]{32}$/);
  t.regex(String(time), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{6})?$/);
  t.deepEqual(ports, ['8080']);
});

test('a failed script returns its error code, unless the execution plan ignores it', async (t) => {
  const { send } = await start(t);
  const failed = resultOf(await send(fresh({ Parameters: { port: '0' } })));
  t.is(failed.ErrorCode, 100);
  t.deepEqual(failed.Body, fixture.result_script_failed.Body);
  const script = { Type: 'Application', EntryPoint: 'f1', Options: { verifyExitcode: false } };
  const Scripts = { deploy: script };
  const Body = 'return deploy(args.port)';
  const taken = resultOf(await send(fresh({ Scripts, Body, Parameters: { port: '0' } })));
  t.is(taken.ErrorCode, 0);
  t.deepEqual(taken.Body, { exitCode: 3, stdout: null, stderr: 'no such port' });
  const member = { Body: 'return deploy(args.port).exitCode' };
  t.is(resultOf(await send(fresh(member))).Body as unknown, 0);
});

test('an argument in quotes is matched with the parameter in the catalog', async (t) => {
  const { send, ports } = await start(t);
  resultOf(await send(fresh({ Body: "return deploy('81').stdout", Parameters: {} })));
  t.deepEqual(ports, ['81']);
});

for (const [body, expected] of [
  ['return deploy(args).stdout', '82'],
  ["return deploy('{0}'.format(args.port)).stdout", '82'],
] as const) {
  test(`a body of public plans runs with its parameters: ${body}`, async (t) => {
    const { send, ports } = await start(t);
    const result = resultOf(await send(fresh({ Body: body, Parameters: { port: '82' } })));
    t.is(result.ErrorCode, 0, JSON.stringify(result));
    t.deepEqual(ports, [expected]);
  });
}

for (const [argument, parts] of [
  ["'{0} {1}'.format(args.a, args.b)", [{ parameter: 'a' }, ' ', { parameter: 'b' }]],
  ['"{}{{x}}{}".format(args.a, args.b)', [{ parameter: 'a' }, '{', 'x', '}', { parameter: 'b' }]],
  ["'-p {1} {0}'.format( args.a , args.b )", ['-p ', { parameter: 'b' }, ' ', { parameter: 'a' }]],
  ["'x'", ['x']],
] as const) {
  test(`an argument is formatted as Python formats it: ${argument}`, (t) => {
    const { call } = parseExecutionPlan('1', { ...deployWeb, Body: `return deploy(${argument})` });
    t.deepEqual(call?.argument, { parts });
  });
}

test('a parameter that Salt would interpret is refused', async (t) => {
  const { send, ports } = await start(t);
  const Parameters = { port: '82', note: '__slot__:salt:cmd.run(id)' };
  const result = resultOf(await send(fresh({ Body: 'return deploy(args).stdout', Parameters })));
  t.is(result.ErrorCode, 2);
  t.regex(JSON.stringify(result.Body), /note: must not contain __slot__:/);
  t.deepEqual(ports, []);
});

test('a format with a list or a missing parameter is refused', async (t) => {
  const { send, ports } = await start(t);
  const Body = "return deploy('{0}'.format(args.other))";
  for (const Parameters of [{ other: [1] }, {}]) {
    t.is(resultOf(await send(fresh({ Body, Parameters }))).ErrorCode, 2);
  }
  t.deepEqual(ports, []);
});

test('an execution plan without calls returns nothing', async (t) => {
  const { send, ports } = await start(t);
  const result = resultOf(await send(fresh({ Body: 'return', Scripts: {}, Files: {} })));
  t.deepEqual([result.ErrorCode, result.Body as unknown, ports], [0, null, []]);
});

test('the same execution plan again returns the same run, and an older one is refused', async (t) => {
  const { send, ports } = await start(t);
  const older = fresh();
  const newer = fresh();
  t.is(resultOf(await send(newer)).ErrorCode, 0);
  t.is(resultOf(await send(newer)).ErrorCode, 0);
  const late = resultOf(await send(older));
  t.is(late.ErrorCode, 2);
  t.regex(String(late.Body.Message), /Stamp/);
  t.is(resultOf(await send(older, { guest: 'web2' })).ErrorCode, 0);
  t.is(ports.length, 2);
});

test('a user without rights on a guest learns nothing about its stamps', async (t) => {
  const { send, ports } = await start(t);
  const older = fresh();
  t.is(resultOf(await send(fresh(), { guest: 'db1', user: 'scoped' })).ErrorCode, 0);
  const refused = [await send(older, { guest: 'db1' }), await send(fresh(), { guest: 'db1' })];
  const [first, second] = refused.map((it) => resultOf(it).Body.Message);
  t.regex(String(first), /no rule permits/);
  t.is(first, second);
  const late = resultOf(await send(older, { guest: 'db1', user: 'scoped' }));
  t.regex(String(late.Body.Message), /Stamp/);
  t.is(ports.length, 1);
});

test('a user without a rule for the command learns nothing of the catalog', async (t) => {
  const { send } = await start(t);
  const files = { f1: { Name: 'unknown.sh', BodyType: 'Text', Body: 'x' } };
  const answers = [
    await send(fresh(), { user: 'other' }),
    await send({ ...fresh(), Parameters: { port: 'not a number' } }, { user: 'other' }),
    await send({ ...fresh(), Parameters: { unknown: 1 } }, { user: 'other' }),
    await send({ ...fresh(), Files: files }, { user: 'other' }),
  ].map((it) => resultOf(it).Body.Message);
  t.regex(String(answers[0]), /no rule permits/);
  t.is(new Set(answers).size, 1);
});

test('a stamp in the far future disables no guest', async (t) => {
  const { send, ports } = await start(t);
  const far = resultOf(await send({ ...fresh(), Stamp: Number.MAX_SAFE_INTEGER }));
  t.is(far.ErrorCode, 2);
  t.regex(String(far.Body.Message), /ahead of the clock/);
  t.is(ports.length, 0);
  t.is(resultOf(await send(fresh())).ErrorCode, 0);
});

test('a signature is valid for one guest and one text', async (t) => {
  const { send, ports } = await start(t);
  const text = JSON.stringify(fresh());
  const refused = [
    await send(text, { signature: null }),
    await send(text, { signature: sign('web2', text) }),
    await send(text, { signature: sign('web1', `${text} `) }),
    await send(text, { signature: 'AAAA' }),
    await send(text.replace('8080', '8081'), { signature: sign('web1', text) }),
  ];
  for (const answer of refused) {
    t.is(resultOf(answer).ErrorCode, 2);
    t.regex(String(resultOf(answer).Body.Message), /signature/);
  }
  t.deepEqual(ports, []);
  t.is(resultOf(await send(text)).ErrorCode, 0);
});

test('without a key, all plans are refused unless unsigned plans are permitted', async (t) => {
  const closed = await start(t, {});
  t.regex(String(resultOf(await closed.send(fresh(), { signature: null })).Body.Message), /key/);
  const open = await start(t, { unsigned: true });
  t.is(resultOf(await open.send(fresh(), { signature: null })).ErrorCode, 0);
});

const refusals: readonly (readonly [string, () => Fields, RegExp, string?])[] = [
  [
    'an entry point that the catalog lacks',
    () => fresh({ Files: { f1: { Name: 'x.sh', Body: '' } } }),
    /no catalog entry has this entry point/,
  ],
  [
    'a file without a permitted hash',
    () => fresh({ Files: { f1: { Name: 'pinned.sh', Body: 'id' } } }),
    /SHA-256/,
  ],
  [
    'parameters that the command lacks',
    () => fresh({ Parameters: { port: '80', more: 1 } }),
    /demo\.deploy/,
  ],
  ['parameters that do not fit', () => fresh({ Parameters: { port: '80; id' } }), /demo\.deploy/],
  [
    'an argument that is not there',
    () => fresh({ Parameters: {} }),
    /args\.port, but `Parameters` has no value with this name/,
  ],
  ['a guest that no rule permits', () => fresh(), /no rule permits/, 'db1'],
];

for (const [what, given, message, guest = 'web1'] of refusals) {
  test(`an execution plan with ${what} is refused`, async (t) => {
    const { send, ports } = await start(t);
    const result = resultOf(await send(given(), { guest }));
    t.is(result.ErrorCode, 2);
    t.regex(String(result.Body.Message), message);
    t.deepEqual(ports, []);
    // The rejected plan has not changed the last time stamp.
    t.is(resultOf(await send({ ...deployWeb, ID: 'after' })).ErrorCode, 0);
  });
}

test('an execution plan without an id gets no reply', async (t) => {
  const { send } = await start(t);
  const { ID: _id, ...rest } = deployWeb;
  for (const text of [JSON.stringify(rest), 'no JSON', '[]']) t.is((await send(text)).status, 400);
});

test('the example in the documentation gets its parameter', async (t) => {
  const directory = temporaryDirectory(t);
  const [example] = codeBlocks('docs/murano.md').filter(({ text }) => text.includes('murano:'));
  const text = (example?.text ?? '').replace(/^ *sha256:.*$/m, '');
  writeFileSync(path.join(directory, 'catalog.yaml'), text);
  const { definitions, findings } = await loadCatalog([directory]);
  t.deepEqual(findings, []);
  const catalog = new Catalog(definitions);
  t.notThrows(() => catalog.get('web.deploy').check({ port: '80' }));
});

test('an execution plan counts once towards the rate of its rule', async (t) => {
  const { ports, send } = await start(t, undefined, { rate: '1/minute' });
  t.is(resultOf(await send(fresh())).ErrorCode, 0);
  t.is(resultOf(await send(fresh())).ErrorCode, 2);
  t.is(ports.length, 1);
});
