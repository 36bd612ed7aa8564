/** A template with roles on a real Heat, and real minions that enrol by the user-data it makes. */
import { execFile } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'ava';
import { parse } from 'yaml';
import { allow } from '../../acl/index.ts';
import { freePort } from '../../bench/free-port.ts';
import { resourceDependencies } from '../../heat-bridge/guests/template-graph.ts';
import { type Bridge, compileTemplate, createBridge, spaceOf } from '../../heat-bridge/index.ts';
import {
  createMaster,
  createSilentLogger,
  type Master,
  resolveMasterConfig,
} from '../../master/index.ts';
import type { WireValue } from '../../minion-protocol/index.ts';
import { createSaltApi, type SaltApi } from '../../salt-api/index.ts';
import { ScratchMachine } from '../heat-bridge/enroll/scratch-machine.ts';
import { within } from '../helpers/deadline.ts';
import { testWhere } from '../helpers/needs.ts';
import { eventually } from './eventually.ts';
import { askAboutStack, cloud } from './heat-cloud.ts';
import { TemplateStack } from './heat-stack.ts';
import { MasterHome } from './our-master.ts';
import { minionPrograms, steps } from './programs.ts';

const step =
  cloud === undefined ? testWhere(false, 'HEAT_ENV and SALT_MINION') : steps('SALT_MINION');
const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url));
const program = fileURLToPath(
  new URL('../../../clients/guests/saltbridge/saltbridge-data', import.meta.url),
);

/** In the place of a server where there is no Nova: it keeps its user-data. */
const server = `heat_template_version: 2018-08-31
parameters:
  user_data: { type: string }
  user_data_format: { type: string }
  flavor: { type: string, default: small }
outputs:
  user_data: { value: { get_param: user_data } }
  first_address: { value: 10.9.8.7 }
resources:
  boot: { type: OS::Heat::Value, properties: { value: booted } }
`;
const registry = { resource_registry: { 'Lab::Server': 'file:///server.yaml' } };
const files = { 'file:///server.yaml': server };

/** The folder of a minion, which is another one on each machine here. */
const configDir = '/etc/salt-of-a-machine';
const shop = `heat_template_version: 2018-08-31
resources:
  db:
    type: Lab::Server
    metadata:
      saltbridge:
        writes:
          password: { secret: true }
          address: { value: { get_attr: [db, first_address] } }
    properties: { flavor: small }
  app:
    type: Lab::Server
    metadata:
      saltbridge:
        reads: { 'mysql:password': db/password, 'mysql:host': db/address }
        writes: { url: }
    properties: { flavor: small }
  web:
    type: Lab::Server
    metadata: { saltbridge: { reads: { upstream: app/url } } }
    properties: { flavor: small }
outputs:
  db: { value: { get_attr: [db, user_data] } }
  app: { value: { get_attr: [app, user_data] } }
  web: { value: { get_attr: [web, user_data] } }
`;

let home: MasterHome;
let master: Master;
let bridge: Bridge;
let api: SaltApi;
let stack: TemplateStack;
const machines = new Map<string, ScratchMachine>();
const names = ['db', 'app', 'web'] as const;
const userData = new Map<string, string>();
const numbers = new Map<string, string>();

test.before(async () => {
  if (minionPrograms.length === 0 || cloud === undefined) return;
  const port = await freePort();
  const tls = { certificate: fixture('master.pem'), key: fixture('master.key') };
  const enroll = {
    masters: ['127.0.0.1'],
    url: `https://127.0.0.1:${port}`,
    certificate: tls.certificate,
    // Older releases take part.
    protocol: 0,
  };
  const rules = [
    allow('guests', {
      subject: { minion: '*' },
      action: 'runner',
      resource: { fun: 'saltbridge_data.*' },
    }),
  ];
  home = await MasterHome.create({ acl: { signals: [], rules }, bridge: { enroll } });
  bridge = createBridge();
  master = createMaster({
    config: resolveMasterConfig(home.options),
    logger: createSilentLogger(),
    extensions: [bridge],
  });
  await master.start();
  api = await createSaltApi(master, { host: '127.0.0.1', port, tls, plugins: [bridge.http] });
  await api.listen();
  for (const [index, name] of names.entries()) {
    const salt = { path: minionPrograms[index % minionPrograms.length] ?? '' };
    machines.set(name, new ScratchMachine(salt));
  }
});

test.after.always(async () => {
  for (const machine of machines.values()) machine.dispose();
  await stack?.delete();
  await api?.close();
  await master?.close();
  home?.dispose();
});

function machineOf(name: string): ScratchMachine {
  const machine = machines.get(name);
  if (machine === undefined) throw new TypeError(name);
  return machine;
}

async function boot(name: string): Promise<void> {
  const machine = machineOf(name);
  const given = userData.get(name);
  if (given === undefined) throw new Error(`Heat has made no user-data for ${name}`);
  const text = given.replaceAll(configDir, machine.configDir);
  const { status, output } = await machine.runShell(text);
  if (status !== 0) throw new Error(output);
  await within(`the sign-in of ${name}`, bridge.enroll.signedIn(numbers.get(name) ?? ''), 90_000);
  await eventually(`${name} to be connected`, async () =>
    (await master.presence()).some(({ id }) => id === `${name}.shop`),
  );
  await run(name, 'saltutil.sync_all', {});
}

async function run(
  name: string,
  fun: string,
  kwarg: Readonly<Record<string, WireValue>>,
): Promise<WireValue> {
  const request = { tgt: `${name}.shop`, tgtType: 'list', fun, kwarg, timeoutSeconds: 120 };
  for await (const update of master.jobs.run(request)) {
    if (update.type === 'return') return update.return;
  }
  throw new Error(`${name} did not return from ${fun}; ${machineOf(name).log}`);
}

/** What a shell on the machine says. */
async function shell(name: string, ...args: readonly string[]): Promise<string> {
  const env = { ...process.env, SALTBRIDGE_GUEST: `${machineOf(name).configDir}/saltbridge` };
  return (await promisify(execFile)('sh', [program, ...args], { env })).stdout;
}

step('the plain template is Heat’s, with the dependencies that were foreseen', async (t) => {
  const compiled = compileTemplate(shop, { format: 'shell', configDir });
  await bridge.data.add(spaceOf('shop', compiled, ({ resource }) => `${resource}.shop`));
  const parameters: Record<string, string> = {};
  for (const { resource, parameter = '' } of compiled.machines) {
    const machine = machineOf(resource);
    const made = await bridge.enroll.create({
      id: `${resource}.shop`,
      project: 'interop',
      format: 'shell',
      configDir: machine.configDir,
      config: machine.config,
    });
    parameters[parameter] = made.userData;
    numbers.set(resource, made.enrolment.number);
  }
  const plain = parse(compiled.template);
  // Of a resource that is a template, Heat lists only what is in it.
  const preview = await askAboutStack('POST', '/stacks/preview', {
    stack_name: 'saltbridge-guests-preview',
    template: plain,
    environment: { resource_registry: { 'Lab::Server': 'OS::Heat::None' }, parameters },
  });
  const listed = Object(preview.stack).resources.flat(5);
  const foreseen = resourceDependencies(plain.resources);
  for (const name of names) {
    const found = listed.find((it: { resource_name: string }) => it.resource_name === name);
    const expected = [...foreseen].flatMap(([other, after]) =>
      after.includes(name) ? [other] : [],
    );
    t.deepEqual([...found.required_by].sort(), expected.sort(), name);
  }
  stack = await TemplateStack.create(plain, { files, environment: { ...registry, parameters } });
  const { status, reason, outputs } = await stack.end('CREATE');
  t.is(status, 'CREATE_COMPLETE', reason);
  for (const name of names) userData.set(name, String(outputs.get(name)));
});

step(
  'a reader that starts first has the value when its writer is up, and Heat’s at once',
  async (t) => {
    await boot('app');
    t.is(await run('app', 'saltbridge_data.get', { key: 'db/address' }), '10.9.8.7');
    t.is(await shell('app', 'get', 'db/address'), '10.9.8.7');
    const reading = run('app', 'saltbridge_data.get', { key: 'db/password', timeout: 200 });
    await boot('db');
    const token = path.join(machineOf('db').configDir, 'saltbridge', 'token');
    t.true(existsSync(token));
    t.is(statSync(token).mode & 0o777, 0o600);
    await shell('db', 'put', 'db/password', 's3cret of the guest');
    t.is(await reading, 's3cret of the guest');
  },
);

step('a reader of a writer that died is told who is awaited', async (t) => {
  await boot('web');
  machineOf('app').dispose();
  const text = String(await run('web', 'saltbridge_data.get', { key: 'app/url', timeout: 2 }));
  t.regex(text, /app\/url is not written yet; awaited is role app, minion app\.shop/);
  t.regex(text, /waited 2 s/);
});

step('the data space is gone with the machines of the stack', async (t) => {
  for (const name of names) await bridge.enroll.retire({ id: `${name}.shop` });
  t.deepEqual(await bridge.data.list(), []);
});
