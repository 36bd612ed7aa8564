/**
 * A template with roles on a real Heat, and real minions that are enrolled by the user-data in it.
 */
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { resourceDependencies } from '#guests/templates/template-graph.ts';
import { testWhere } from '../helpers/needs.ts';
import { GuestCloud, GuestStack } from './guest-stacks.ts';
import { askAboutStack, cloud } from './heat-cloud.ts';
import { newStackName } from './heat-stack.ts';
import { minionPrograms, steps } from './programs.ts';

const step =
  cloud === undefined ? testWhere(false, 'HEAT_ENV and SALT_MINION') : steps('SALT_MINION');

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
        writes: { url: , health: }
    properties: { flavor: small }
  web:
    type: Lab::Server
    metadata: { saltbridge: { reads: { upstream: app/url, state: app/health } } }
    properties: { flavor: small }
outputs:
  db: { value: { get_attr: [db, user_data] } }
  app: { value: { get_attr: [app, user_data] } }
  web: { value: { get_attr: [web, user_data] } }
`;

let guests: GuestCloud;
let stack: GuestStack;
const names = ['db', 'app', 'web'] as const;

test.before(async () => {
  if (minionPrograms.length === 0 || cloud === undefined) return;
  guests = await GuestCloud.start();
});

test.after.always(async () => {
  await stack?.dispose();
  await guests?.dispose();
});

step('the plain template works in Heat, with the expected dependencies', async (t) => {
  stack = await GuestStack.prepare(guests, shop, { name: newStackName(), domain: 'shop' });
  const { template: plain, parameters } = stack;
  // For a resource that is a template itself, Heat lists only its contents.
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
  t.is(await stack.create(), 'CREATE_COMPLETE');
});

step(
  "a reader that starts first gets the value when its writer is running, and Heat's value at once",
  async (t) => {
    await stack.boot('app');
    t.is(await stack.run('app', 'saltbridge_data.get', { key: 'db/address' }), '10.9.8.7');
    t.is(await stack.shell('app', 'get', 'db/address'), '10.9.8.7');
    const reading = stack.run('app', 'saltbridge_data.get', { key: 'db/password', timeout: 200 });
    await stack.boot('db');
    const token = path.join(stack.machineOf('db').configDir, 'saltbridge', 'token');
    t.true(existsSync(token));
    t.is(statSync(token).mode & 0o777, 0o600);
    await stack.shell('db', 'put', 'db/password', 's3cret of the guest');
    // Only the return to the master is redacted.
    t.is(await reading, '(secret)');
    t.is(await stack.shell('app', 'get', 'db/password'), 's3cret of the guest');
  },
);

step('the third tier gets the value that the second derived from the first', async (t) => {
  await stack.boot('web');
  const reading = stack.run('web', 'saltbridge_data.get', { key: 'app/url', timeout: 200 });
  const password = String(await stack.run('app', 'saltbridge_data.get', { key: 'db/password' }));
  const url = `mysql://shop:${password}@10.9.8.7/shop`;
  t.is(await stack.run('app', 'saltbridge_data.put', { key: 'app/url', value: url }), 1);
  t.is(await reading, url);
  t.is(await stack.shell('web', 'get', 'app/url'), url);
});

step('a reader of a dead writer gets its name', async (t) => {
  stack.machineOf('app').dispose();
  const key = 'app/health';
  const text = String(await stack.run('web', 'saltbridge_data.get', { key, timeout: 2 }));
  t.regex(text, /app\/health has not been written yet by the role app: minion app\.shop/);
  t.regex(text, /waited 2 s/);
});

step('the data space is removed with the machines of the stack', async (t) => {
  await stack.retire();
  t.deepEqual(await guests.bridge.data.list(), []);
});

const diamond = `heat_template_version: 2018-08-31
resources:
  top:
    type: Lab::Server
    metadata: { saltbridge: { writes: { seed: } } }
  left:
    type: Lab::Server
    metadata: { saltbridge: { reads: { seed: top/seed }, writes: { part: } } }
  right:
    type: Lab::Server
    metadata: { saltbridge: { reads: { seed: top/seed }, writes: { part: { secret: true } } } }
  bottom:
    type: Lab::Server
    metadata: { saltbridge: { reads: { one: left/part, other: right/part } } }
outputs:
  top: { value: { get_attr: [top, user_data] } }
  left: { value: { get_attr: [left, user_data] } }
  right: { value: { get_attr: [right, user_data] } }
  bottom: { value: { get_attr: [bottom, user_data] } }
`;

step(
  'the values of a diamond arrive, separate from those of a stack of the same name in another project',
  async (t) => {
    const name = newStackName();
    const own = await GuestStack.prepare(guests, diamond, { name, domain: 'one' });
    t.teardown(() => own.dispose());
    const admins = { name, user: 'admin', domain: 'two' } as const;
    const other = await GuestStack.prepare(guests, diamond, admins);
    t.teardown(() => other.dispose());
    t.is(await own.create(), 'CREATE_COMPLETE');
    t.is(await other.create(), 'CREATE_COMPLETE');
    t.deepEqual(
      (await guests.bridge.data.list()).map((it) => [it.name, it.owner]).sort(),
      [cloud?.users.admin.project_id, cloud?.users.demo.project_id].map((it) => [name, it]).sort(),
    );
    // The waiting machines are started first.
    await Promise.all([own.boot('bottom'), own.boot('left'), other.boot('left')]);
    const attributes = own.run('bottom', 'saltbridge_data.attributes', { timeout: 280 });
    const seeds = [own, other].map((it) =>
      it.run('left', 'saltbridge_data.get', { key: 'top/seed', timeout: 280 }),
    );
    await Promise.all([own.boot('top'), own.boot('right'), other.boot('top')]);
    await other.shell('top', 'put', 'top/seed', 'of the other');
    await own.shell('top', 'put', 'top/seed', 'seed');
    t.deepEqual(await Promise.all(seeds), ['seed', 'of the other']);
    t.is(await own.run('right', 'saltbridge_data.get', { key: 'top/seed' }), 'seed');
    await own.shell('left', 'put', 'left/part', 'left of seed');
    await own.shell('right', 'put', 'right/part', 'right of seed');
    t.deepEqual({ ...Object(await attributes) }, { one: 'left of seed', other: '(secret)' });
    t.is(await own.shell('bottom', 'get', 'right/part'), 'right of seed');
    await own.retire();
    t.is(await other.run('left', 'saltbridge_data.get', { key: 'top/seed' }), 'of the other');
  },
);

step('a cycle is refused before anything starts', async (t) => {
  const ring = diamond.replace('writes: { seed: }', 'reads: { x: left/part }, writes: { seed: }');
  await t.throwsAsync(GuestStack.prepare(guests, ring, { name: 'ring', domain: 'ring' }), {
    code: 'ERR_DATA_FORM',
    message: /top\/seed waits for left\/part waits for top\/seed|left\/part waits for top\/seed/,
  });
  t.false((await guests.bridge.data.list()).some(({ name }) => name === 'ring'));
});
