/**
 * Data spaces: who may write and read which values, single and repeated writes, quotas, and waiting
 * for values.
 */

import { spawn, spawnSync } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import fastify, { type FastifyInstance } from 'fastify';
import { allow, type Decision, decide, deny, type Question } from '#acl';
import { createStoreCoordinator } from '#guests/data-spaces/coordinator.ts';
import {
  type DataSpaceRegistration,
  DataSpaces,
  parseDataSpace,
} from '#guests/data-spaces/data-spaces.ts';
import { DataValues } from '#guests/data-spaces/data-values.ts';
import { guestPillar } from '#guests/data-spaces/guest-pillar.ts';
import { GuestRequests, guestRunners } from '#guests/data-spaces/guest-requests.ts';
import { addGuestRoutes } from '#guests/data-spaces/guest-routes.ts';
import { guestLimits } from '#guests/limits.ts';
import { AuthorizationError, createSilentLogger } from '#master';
import { noAudit } from '#master/audit/audit-record.ts';
import { maxSliceSteps } from '#runtime/work-budget.ts';
import { auditRecords } from '../../helpers/audit-records.ts';
import { within } from '../../helpers/deadline.ts';
import { testWhere } from '../../helpers/needs.ts';
import { policyOf } from '../../helpers/policies.ts';
import { slicesOf } from '../../helpers/slices.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { memoryState } from '../signals/open-signals.ts';
import { coordinatorSuite } from './coordinator-suite.ts';
import {
  codeOf,
  everyGuest,
  type GuestMachine,
  type GuestStage,
  listenWithTls,
  startGuests,
} from './stage.ts';

coordinatorSuite('store', async () => {
  const state = memoryState();
  return {
    coordinator: await createStoreCoordinator(state),
    restart: () => createStoreCoordinator(state),
  };
});

const shop: DataSpaceRegistration = {
  name: 'shop',
  roles: {
    db: {
      minions: ['db-1'],
      writes: {
        address: {},
        password: { secret: true },
        state: { versioned: true },
        motd: {},
      },
    },
    app: {
      minions: ['app-1', 'app-2'],
      reads: {
        'mysql:host': 'db/address',
        'mysql:password': 'db/password',
        'mysql:state': 'db/state',
      },
    },
  },
};

/** Returns everything in the store as text. */
async function storedText({ store }: GuestStage): Promise<string> {
  const rows: string[] = [];
  for await (const { value } of store.list([])) rows.push(Buffer.from(value).toString('latin1'));
  return rows.join('\n');
}

test('a reader that asks early gets the value as soon as its writer has written it', async (t) => {
  const stage = await startGuests(t);
  await stage.bridge.data.add(shop);
  const [db, app] = [await stage.guest('db-1'), await stage.guest('app-1')];
  const waiting = app.get('db/address', '&wait=20');
  const written = await db.put('db/address', '10.0.0.5');
  t.deepEqual(written.json, { key: 'db/address', version: 1 });
  const read = await within('the value', waiting);
  t.is(read.text, '10.0.0.5');
  t.is(read.headers['x-saltbridge-version'], '1');
  t.is((await app.get('db/address')).text, '10.0.0.5');
});

test('a reader whose writer does not write gets the name of the writer at the deadline', async (t) => {
  const stage = await startGuests(t);
  await stage.bridge.data.add(shop);
  const app = await stage.guest('app-1');
  const late = await app.get('db/address', '&wait=0.05');
  t.is(late.status, 504);
  t.regex(late.text, /db\/address .*role db: minion db-1 \(no accepted key\)/);
  const db = await stage.guest('db-1');
  await db.put('db/address', 'x');
  await stage.bridge.enroll.retire({ id: 'db-1' });
  t.is((await app.get('db/address')).text, 'x');
  t.regex((await app.get('db/state')).text, /role db: no minion has this role/);
});

test('a JSON body writes no value', async (t) => {
  const stage = await startGuests(t);
  await stage.bridge.data.add(shop);
  const [db, app] = [await stage.guest('db-1'), await stage.guest('app-1')];
  for (const body of ['{"a": 1}', '[]', '"x"']) {
    const path = '/bridge/v1/guest/data?key=db/address';
    const headers = { 'x-auth-token': db.token, 'content-type': 'application/json' };
    const answer = await stage.call({ method: 'PUT', path, headers, body });
    t.is(codeOf(answer), 'ERR_DATA_VALUE');
  }
  t.is((await db.put('db/address', 'a')).status, 200);
  t.is((await app.get('db/address')).text, 'a');
});

test('a guest writes bounded audit records, and its rate is limited', async (t) => {
  const records: object[] = [];
  const requests = new GuestRequests({
    host: {
      audit: { ...noAudit, append: (entry) => void records.push(entry) },
      decide: () => ({ effect: 'allow', rule: 'x', reason: 'x' }),
      logger: createSilentLogger(),
      now: () => 0,
    },
    values: {
      read: async () => t.fail(),
      write: async (_minion, key) => ({ key, version: 1 }),
    },
    peers: { of: () => ({ project_id: 'p', peers: [] }), projectOf: () => 'p' },
    addresses: async () => () => undefined,
  });
  const put = async (minion: string): Promise<unknown> =>
    requests.put(minion, { key: 'db/state', value: 'x' });
  const flood = async (ask: () => Promise<unknown>): Promise<void> => {
    for (let count = 0; count < 10_000; count += 1) await ask();
  };
  const busy = { code: 'ERR_DATA_BUSY' };
  await t.throwsAsync(
    flood(() => put('greedy')),
    busy,
  );
  // The first record, and the count of its repetitions at the end of the minute.
  t.is(records.length, 1);
  await put('other');
  t.is(records.length, 2);
  await t.throwsAsync(
    flood(() => requests.peers('greedy')),
    busy,
  );
  await t.notThrowsAsync(requests.peers('other'));
});

test('a value is written once unless it is declared as versioned, and only by its role', async (t) => {
  const stage = await startGuests(t);
  await stage.bridge.data.add(shop);
  const [db, app] = [await stage.guest('db-1'), await stage.guest('app-1')];
  t.is((await db.put('db/address', 'a')).status, 200);
  t.deepEqual((await db.put('db/address', 'a')).json, { key: 'db/address', version: 1 });
  t.is(codeOf(await db.put('db/address', 'b')), 'ERR_DATA_WRITTEN');
  for (const [version, value] of ['starting', 'ready'].entries()) {
    const { json } = await db.put('db/state', value);
    t.deepEqual(json, { key: 'db/state', version: version + 1 });
  }
  const next = app.get('db/state', '&wait=20&after=2');
  await db.put('db/state', 'stopping');
  t.is((await within('the next version', next)).text, 'stopping');
  t.is(codeOf(await app.put('db/address', 'b')), 'ERR_DATA_DENIED');
  t.is(codeOf(await app.put('app/address', 'b')), 'ERR_DATA_DENIED');
  t.is(codeOf(await db.get('db/address')), 'ERR_DATA_DENIED');
  t.is(codeOf(await app.get('db/motd')), 'ERR_DATA_DENIED');
  t.is(codeOf(await app.get('nobody/wrote')), 'ERR_DATA_DENIED');
});

test('a value without readers is not stored', async (t) => {
  const stage = await startGuests(t);
  await stage.bridge.data.add(shop);
  const db = await stage.guest('db-1');
  t.deepEqual((await db.put('db/motd', 'unread-4711')).json, { key: 'db/motd', version: 0 });
  t.notRegex(await storedText(stage), /unread-4711/);
});

test('secret values are sealed in the store, and no value is logged in the audit log or shown', async (t) => {
  const stage = await startGuests(t);
  await stage.bridge.data.add(shop);
  const [db, app] = [await stage.guest('db-1'), await stage.guest('app-1')];
  await db.put('db/password', 'sealed-4711');
  await db.put('db/address', 'plain-4711');
  t.is((await app.get('db/password')).text, 'sealed-4711');
  const stored = await storedText(stage);
  t.regex(stored, /plain-4711/);
  t.notRegex(stored, /sealed-4711/);
  t.notRegex(JSON.stringify(await stage.bridge.data.show('shop')), /4711/);
  const records = await auditRecords(stage);
  const put = records.filter(({ action }) => action === 'data.put');
  t.deepEqual(
    put.map(({ who, what }) => [who.name, what]),
    [
      ['db-1', 'db/password 1'],
      ['db-1', 'db/address 1'],
    ],
  );
  t.notRegex(JSON.stringify(records), /sealed-4711/);
});

test('reading and writing require a rule, and rules may name keys', async (t) => {
  const none = await startGuests(t, { rules: [] });
  await none.bridge.data.add(shop);
  const db = await none.guest('db-1');
  t.is((await db.put('db/address', 'x')).status, 403);
  t.is((await db.get('db/address')).status, 403);
  const rule = allow('addresses', {
    subject: { minion: 'app-*' },
    action: 'runner',
    resource: { fun: 'saltbridge_data.get', arguments: [{ kwargs: { key: 'db/address' } }] },
  });
  const some = await startGuests(t, { rules: [rule] });
  await some.bridge.data.add(shop);
  const app = await some.guest('app-1');
  t.is((await app.get('db/address')).status, 504);
  t.is((await app.get('db/state')).status, 403);
});

test('a token is valid for its own machine until the machine is retired', async (t) => {
  const stage = await startGuests(t);
  await stage.bridge.data.add(shop);
  const db = await stage.guest('db-1');
  await db.put('db/address', 'x');
  const app = await stage.guest('app-1');
  const [, , mac] = db.token.split('.');
  const forged = [`sbg1.${app.number}.${mac}`, 'sbg1.', db.token.slice(0, -1), ''];
  for (const token of forged) {
    const answer = await stage.call({
      path: '/bridge/v1/guest/data?key=db/address',
      headers: { 'x-auth-token': token },
    });
    t.is(answer.status, 401, token);
  }
  await stage.bridge.enroll.retire({ id: 'app-1' });
  t.is((await app.get('db/address')).status, 401);
  // A machine that gets this id later has another token and no role.
  const later = await stage.guest('app-1');
  t.not(later.token, app.token);
  t.is(codeOf(await later.get('db/address')), 'ERR_DATA_UNKNOWN');
});

test('a stack that would exceed its quota is refused with the name of the quota', async (t) => {
  const stage = await startGuests(t, {
    guests: { data: { bytes_per_stack: 1024, keys_per_stack: 4 } },
  });
  await stage.bridge.data.add(shop);
  const db = await stage.guest('db-1');
  t.is((await db.put('db/state', 'x'.repeat(900))).status, 200);
  const refused = await db.put('db/address', 'x'.repeat(200));
  t.is(refused.status, 413);
  t.regex(refused.text, /bytes_per_stack/);
  t.is((await db.put('db/state', 'x'.repeat(100))).status, 200);
  t.is((await db.put('db/address', 'x'.repeat(200))).status, 200);
  const writes = { a: {}, b: {}, c: {}, d: {}, e: {} };
  const many = { name: 'many', roles: { one: { minions: ['m-1'], writes } } };
  await t.throwsAsync(stage.bridge.data.add(many), {
    code: 'ERR_DATA_QUOTA',
    message: /keys_per_stack/,
  });
});

test('a value is a text of at most 64 KiB', async (t) => {
  const stage = await startGuests(t);
  await stage.bridge.data.add(shop);
  const db = await stage.guest('db-1');
  t.is((await db.put('db/state', 'x'.repeat(65_536))).status, 200);
  t.is(codeOf(await db.put('db/state', 'x'.repeat(65_537))), 'ERR_DATA_VALUE');
  const answer = await stage.call({
    method: 'PUT',
    path: '/bridge/v1/guest/data?key=db/state',
    headers: { 'x-auth-token': db.token, 'content-type': 'text/plain' },
    body: Buffer.from([0xff]).toString('latin1'),
  });
  // This client sends Latin 1 as UTF-8, so the value is text.
  t.is(answer.status, 200);
});

const interpreted = [
  '__slot__:salt:cmd.run(id)',
  ' "__slot__:salt:cmd.run(id)"',
  'sdb://saltbridge/db/password',
  'salt://top.sls',
];

test('a value that Salt would interpret is refused with the reason', async (t) => {
  const stage = await startGuests(t);
  await stage.bridge.data.add(shop);
  const [db, app] = [await stage.guest('db-1'), await stage.guest('app-1')];
  for (const value of interpreted) {
    const refused = await db.put('db/state', value);
    t.is(codeOf(refused), 'ERR_DATA_VALUE', value);
    t.regex(refused.text, /db\/state.*: the value must not/);
  }
  t.is(codeOf(await app.get('db/state', '&wait=0.05')), 'ERR_DATA_TIMEOUT');
  const reads = { '__slot__:salt:cmd.run(id)': 'db/address' };
  const roles = { ...shop.roles, other: { minions: ['other-1'], reads } };
  await t.throwsAsync(stage.bridge.data.add({ name: 'other', roles }), {
    code: 'ERR_DATA_FORM',
    message: /roles\.other\.reads\.….*must not contain __slot__:/,
  });
});

test('a space has a limited number of roles, and each role of attributes', async (t) => {
  const { bridge } = await startGuests(t);
  const named = <T>(count: number, value: T): Record<string, T> =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, value]));
  const writer = { minions: ['w-1'], writes: { x: {} } };
  const reader = (count: number) => ({ minions: ['r-1'], reads: named(count, 'w/x') });
  const refused = { code: 'ERR_DATA_QUOTA' };
  const manyRoles = { name: 'a', roles: named(10_001, { minions: [] }) };
  await t.throwsAsync(bridge.data.add(manyRoles), { ...refused, message: /has 10001 roles/ });
  const many = { name: 'a', roles: { w: writer, r: reader(10_001) } };
  await t.throwsAsync(bridge.data.add(many), { ...refused, message: /reads 10001 attributes/ });
  const roles = { w: writer, r: reader(10_000), ...named(9_998, { minions: [] }) };
  t.is((await bridge.data.add({ name: 'a', roles })).keys, 1);
});

test('a space has a limited number of minions, and of attributes of all roles', async (t) => {
  const refused = { code: 'ERR_DATA_QUOTA' } as const;
  const half = { minions: Object.keys(namedBy(5_000, 'm', () => 0)) };
  // The members of no list are read, so that a mistake in them is not found.
  const crowd = { name: 's', roles: { a: half, b: half, c: { minions: [5] } } };
  await t.throwsAsync(parseDataSpace(crowd, 10_000), {
    ...refused,
    message: /more than 10000 minions/,
  });
  const reads = namedBy(10_000, 'a', () => 'w/x');
  const readers = namedBy(6, 'r', () => ({ minions: [5], reads }));
  await t.throwsAsync(parseDataSpace({ name: 's', roles: readers }, 10_000), {
    ...refused,
    message: /more than 50000 attributes/,
  });
});

test('a guest that waits is refused if its rule ends', async (t) => {
  const { spaces, values } = await openCountedValues();
  const roles = {
    w: { minions: ['w-1'], writes: { x: { versioned: true } } },
    r: { minions: ['r-1'], reads: { x: 'w/x' } },
  };
  await spaces.add({ name: 's', roles }, 'p', false);
  let isPermitted = true;
  const requirePermission = (): void => {
    if (!isPermitted) throw new AuthorizationError('the rule has ended');
  };
  const denied = { code: 'ERR_DENIED' } as const;
  const reader = { minion: 'r-1', isPrivate: true, requirePermission };
  const waiting = t.throwsAsync(values.read(reader, { key: 'w/x', waitMs: 60_000 }), denied);
  const first = values.write('w-1', 'w/x', 'first');
  const late = t.throwsAsync(values.write('w-1', 'w/x', 'late', { requirePermission }), denied);
  isPermitted = false;
  await first;
  await Promise.all([within('the read', waiting), late]);
  const free = { minion: 'r-1', isPrivate: true };
  t.like(await values.read(free, { key: 'w/x', waitMs: 0 }), { value: 'first', version: 1 });
});

/** Opens the routes of a guest with the id `db-1`. */
function openGuestRoutes(
  t: ExecutionContext,
  decideRequest: (question: Question) => Decision,
  values: Pick<DataValues, 'read' | 'write'>,
): { readonly app: FastifyInstance; readonly requests: GuestRequests } {
  const host = { audit: noAudit, logger: createSilentLogger(), now: () => 0 };
  const requests = new GuestRequests({
    host: { ...host, decide: decideRequest },
    values,
    peers: { of: () => ({ project_id: 'p', peers: [] }), projectOf: () => 'p' },
    addresses: async () => () => undefined,
  });
  const app = fastify();
  t.teardown(() => app.close());
  app.setErrorHandler((error, _request, reply) => reply.code(403).send(String(error)));
  const guest = { minion: 'db-1', project: 'p' };
  addGuestRoutes(app, { requests, guestOf: async () => guest, program: '' });
  return { app, requests };
}

for (const path of ['HTTPS', 'a runner'] as const) {
  test(`the rule of a guest that waits is judged again over ${path}`, async (t) => {
    let isPermitted = true;
    const waits: string[] = [];
    const wait = (what: string, requirePermission: (() => void) | undefined): never => {
      waits.push(what);
      isPermitted = false;
      requirePermission?.();
      throw new Error('the request was not judged again');
    };
    const { app, requests } = openGuestRoutes(
      t,
      () => ({ effect: isPermitted ? 'allow' : 'deny', rule: 'x', reason: 'x' }),
      {
        read: async ({ requirePermission }) => wait('read', requirePermission),
        write: async (_minion, _key, _value, checks) => wait('write', checks?.requirePermission),
      },
    );
    const ask = async (method: 'GET' | 'PUT'): Promise<string> => {
      isPermitted = true;
      if (path === 'HTTPS') {
        const body =
          method === 'PUT' ? { payload: 'x', headers: { 'content-type': 'text/plain' } } : {};
        return (await app.inject({ method, url: '/guest/data?key=db/state', ...body })).body;
      }
      const run = requests.runners[method === 'GET' ? guestRunners.get : guestRunners.put];
      const requirePermission = (): void => {
        if (!isPermitted) throw new AuthorizationError('no rule permits this call');
      };
      const kwarg = { key: 'db/state', ...(method === 'PUT' ? { value: 'x' } : {}) };
      const call = { minion: 'db-1', protocol: 3, arg: [], kwarg, requirePermission };
      return JSON.stringify(await run?.(call));
    };
    for (const method of ['GET', 'PUT'] as const) t.regex(await ask(method), /no rule permits/);
    t.deepEqual(waits, ['read', 'write']);
  });
}

test('a read of a guest that waits counts once towards the rate of its rule', async (t) => {
  const policy = policyOf([
    allow('read', {
      subject: { minion: 'db-1' },
      action: 'runner',
      resource: { fun: guestRunners.get },
      rate: '1/minute',
    }),
  ]);
  const { app } = openGuestRoutes(t, (question) => decide(question, policy), {
    read: async ({ requirePermission }) => {
      requirePermission?.();
      requirePermission?.();
      return { key: 'db/state', value: 'up', version: 1 };
    },
    write: async () => ({ key: 'db/state', version: 1 }),
  });
  const ask = async (): Promise<string> => (await app.inject('/guest/data?key=db/state')).body;
  t.is(await ask(), 'up');
  t.regex(await ask(), /no rule permits/);
});

test('the conditions of rules apply to the value that a guest writes over HTTPS', async (t) => {
  const subject = { minion: 'db-1' };
  const resource = { fun: guestRunners.put };
  const policy = policyOf([
    allow('write', { subject, action: 'runner', resource }),
    deny('secret', {
      ...{ subject, action: 'runner' },
      resource: { ...resource, arguments: [{ kwargs: { value: 'secret*' } }] },
    }),
  ]);
  const { app } = openGuestRoutes(t, (question) => decide(question, policy), {
    read: async () => t.fail(),
    write: async (_minion, key) => ({ key, version: 1 }),
  });
  app.setValidatorCompiler(() => () => true);
  app.addContentTypeParser('text/plain', { parseAs: 'buffer' }, async (_: unknown, it: Buffer) => [
    it,
  ]);
  const put = async (payload: string): Promise<number> => {
    const headers = { 'content-type': 'text/plain' };
    const asked = { method: 'PUT', url: '/guest/data?key=db/state', headers, payload } as const;
    return (await app.inject(asked)).statusCode;
  };
  t.deepEqual([await put('up'), await put('secret word')], [200, 403]);
});

test('a pillar of a guest does not count towards the rate of its rule', async (t) => {
  const asked: unknown[] = [];
  const { spaces, values } = await openCountedValues();
  const writes = { x: {}, y: {} };
  const reads = { x: 'w/x', y: 'w/y' };
  const roles = { w: { minions: ['w-1'], writes }, r: { minions: ['r-1'], reads } };
  await spaces.add({ name: 's', roles }, 'p', false);
  const pillar = guestPillar({
    ...{ spaces, values },
    requests: {
      permits: (_id, _fun, _kwargs, isRepeated) => {
        asked.push(isRepeated);
        return false;
      },
      pillarPeers: async () => t.fail(),
    },
  });
  await pillar.provide({ id: 'r-1', saltenv: 'base', pillarenv: 'base' });
  t.deepEqual(asked, [true, true, true]);
});

function namedBy<T>(count: number, prefix: string, value: (at: number) => T): Record<string, T> {
  return Object.fromEntries(
    Array.from({ length: count }, (_, at) => [`${prefix}${at}`, value(at)]),
  );
}

for (const [what, roles] of [
  ['roles', namedBy(9_000, 'r', () => ({ minions: [] }))],
  [
    'attributes',
    {
      w: { minions: ['w-1'], writes: { x: {} } },
      r: { minions: ['r-1'], reads: namedBy(9_000, 'a', () => 'w/x') },
    },
  ],
  [
    'values',
    {
      w: { minions: ['w-1'], writes: namedBy(9_000, 'x', () => ({})) },
      r: { minions: ['r-1'], reads: namedBy(9_000, 'a', (at) => `w/x${at}`) },
    },
  ],
  ['minions', { r: { minions: Array.from({ length: 9_000 }, (_, at) => `m-${at}`) } }],
  [
    'needs',
    {
      w: { minions: ['w-1'], writes: namedBy(1_000, 'x', () => ({})) },
      r: {
        minions: ['r-1'],
        reads: namedBy(1_000, 'a', (at) => `w/x${at}`),
        writes: namedBy(20, 'y', () => ({
          needs: Object.values(namedBy(500, 'w/x', (at) => `w/x${at}`)),
        })),
      },
    },
  ],
] as const) {
  test.serial(
    `a registration with many ${what} is parsed with pauses, and unchanged`,
    async (t) => {
      const form = { name: 's', roles };
      let parsed: unknown;
      const slices = await slicesOf(async () => {
        parsed = await parseDataSpace(form, 10_000);
      });
      t.deepEqual(parsed, form);
      t.true(slices.length >= 40, `${slices.length} slices`);
      t.true(Math.max(...slices) <= 10 * maxSliceSteps, `${Math.max(...slices)} steps`);
    },
  );
}

test('mistakes in any part of a large registration are found', async (t) => {
  const writer = { minions: ['w-1'], writes: { x: {} } };
  const reads = namedBy(1_000, 'a', () => 'w/x');
  const many = Array.from({ length: 1_000 }, (_, at) => `m-${at}`);
  for (const [message, role] of [
    [/roles\.r\.reads\.bad: /, { minions: [], reads: { ...reads, bad: 5 } }],
    [
      /roles\.r\.reads\.bad.*must not contain/,
      { minions: [], reads: { ...reads, bad: '__slot__:x' } },
    ],
    [/the role w does not write "y"/, { minions: [], reads: { ...reads, bad: 'w/y' } }],
    [/roles\.r\.minions\.\d+: /, { minions: [...many, 5] }],
    [/must not be listed twice/, { minions: [...many, 'm-0'] }],
    [/unknown field/, { minions: [], reads, other: 1 }],
    [/roles\.r/, { reads }],
    [/roles\.r/, []],
  ] as const) {
    const form = { name: 's', roles: { w: writer, r: role } };
    await t.throwsAsync(parseDataSpace(form, 10_000), { code: 'ERR_DATA_FORM', message });
  }
  for (const form of [
    null,
    [],
    's',
    {},
    { name: 's' },
    { roles: {} },
    { name: 's', roles: [] },
    { name: 's', roles: {}, other: 1 },
  ]) {
    await t.throwsAsync(parseDataSpace(form, 10_000), { code: 'ERR_DATA_FORM' });
  }
  t.deepEqual(await parseDataSpace({ name: 's', roles: {} }, 10_000), { name: 's', roles: {} });
});

/** Opens data spaces whose values are in memory, and counts the reads of values. */
async function openCountedValues(): Promise<{
  readonly spaces: DataSpaces;
  readonly values: DataValues;
  readonly reads: string[];
}> {
  const state = memoryState();
  const closing = new AbortController().signal;
  const coordinator = await createStoreCoordinator(state);
  const forget = async (): Promise<void> => {};
  const spaces = await DataSpaces.open({ state, forget, closing, now: Date.now });
  const reads: string[] = [];
  const values = new DataValues({
    ...{ spaces, closing, bytesPerStack: 67_108_864, isShared: false },
    coordinator: {
      ...coordinator,
      get: (space, key) => {
        reads.push(key);
        return coordinator.get(space, key);
      },
    },
    seal: (plain) => plain,
    unseal: (sealed) => sealed,
    describeMinion: async () => '',
  });
  return { spaces, values, reads };
}

test('a pillar reads each value once, and contains at most 16 MiB of values', async (t) => {
  const { spaces, values, reads } = await openCountedValues();
  const names = Array.from({ length: 3_000 }, (_, at) => `a${at}`);
  const attributes = Object.fromEntries(names.map((name) => [name, 'w/x']));
  const roles = {
    w: { minions: ['w-1'], writes: { x: { versioned: true } } },
    r: { minions: ['r-1'], reads: attributes },
  };
  await spaces.add({ name: 's', roles }, 'p', false);
  const requests = { permits: (_id: string, fun: string) => fun === 'saltbridge_data.get' };
  const pillar = guestPillar({
    ...{ spaces, values },
    requests: { ...requests, pillarPeers: async () => t.fail() },
  });
  const dataOf = async (): Promise<unknown> => {
    const provided = await pillar.provide({ id: 'r-1', saltenv: 'base', pillarenv: 'base' });
    return JSON.parse(JSON.stringify(provided)).saltbridge.data;
  };
  await values.write('w-1', 'w/x', 'x'.repeat(1_024));
  reads.length = 0;
  const { truncated, ...small } = Object(await dataOf());
  t.deepEqual(Object.keys(small.attributes), names);
  t.is(truncated, undefined);
  t.deepEqual(reads, ['w/x']);
  await values.write('w-1', 'w/x', 'x'.repeat(65_536));
  const large = Object(await dataOf());
  t.deepEqual(Object.keys(large.attributes), names.slice(0, 256));
  t.true(large.truncated);
});

test('a pillar with many large values is read with pauses, and no further than necessary', async (t) => {
  const { spaces, values, reads } = await openCountedValues();
  const names = Array.from({ length: 400 }, (_, at) => `v${at}`);
  const roles = {
    w: { minions: ['w-1'], writes: Object.fromEntries(names.map((name) => [name, {}])) },
    r: {
      minions: ['r-1'],
      reads: Object.fromEntries(names.map((name) => [name, `w/${name}`])),
    },
  };
  await spaces.add({ name: 's', roles }, 'p', false);
  for (const name of names) await values.write('w-1', `w/${name}`, 'x'.repeat(65_536));
  reads.length = 0;
  const membership = spaces.membershipOf('r-1');
  if (membership === undefined) throw new Error('r-1 has no role');
  const slices = await slicesOf(() => values.attributesOf(membership, () => true));
  t.true(reads.length <= 256 + 2 * 16, `${reads.length} values were read`);
  t.true(slices.length >= 16);
  t.true(Math.max(...slices) <= 2_000_000);
});

test('a read does not search all attributes of its role', async (t) => {
  const { spaces, values } = await openCountedValues();
  const names = Array.from({ length: 5_000 }, (_, at) => `a${at}`);
  const roles = {
    w: { minions: ['w-1'], writes: { x: {} } },
    r: { minions: ['r-1'], reads: Object.fromEntries(names.map((name) => [name, 'w/x'])) },
  };
  await spaces.add({ name: 's', roles }, 'p', false);
  await values.write('w-1', 'w/x', 'x');
  const request = { key: 'w/x', waitMs: 0 };
  const read = (): Promise<unknown> => values.read({ minion: 'r-1', isPrivate: true }, request);
  await read();
  let listed = 0;
  const { values: list } = Object;
  Object.values = (of: object) => {
    const items = list(of);
    listed += items.length;
    return items;
  };
  try {
    for (let count = 0; count < 10; count += 1) await read();
  } finally {
    Object.values = list;
  }
  t.true(listed < names.length, `${listed} values`);
});

test('an existing value that Salt would interpret is not sent to readers', async (t) => {
  const state = memoryState();
  const closing = new AbortController().signal;
  const coordinator = await createStoreCoordinator(state);
  const forget = async (): Promise<void> => {};
  const spaces = await DataSpaces.open({ state, forget, closing, now: Date.now });
  const values = new DataValues({
    ...{ spaces, coordinator, closing, bytesPerStack: 1000, isShared: false },
    seal: (plain) => plain,
    unseal: (sealed) => sealed,
    describeMinion: async () => '',
  });
  await spaces.add(shop, '', false);
  const membership = spaces.membershipOf('app-1');
  if (membership === undefined) throw new Error('app-1 has no role');
  await values.write('db-1', 'db/address', '10.0.0.5');
  const value = Buffer.from(`\0${interpreted[0]}`);
  await coordinator.put(membership.space.id, 'db/state', { value, version: 1 });
  const reader = { minion: 'app-1', isPrivate: true };
  await t.throwsAsync(values.read(reader, { key: 'db/state', waitMs: 0 }), {
    code: 'ERR_DATA_VALUE',
  });
  const known = await values.attributesOf(membership, () => true);
  t.deepEqual([...known.values.keys()], ['mysql:host']);
});

test('stacks with the same name and different owners are separate, and a minion is in one of them', async (t) => {
  const stage = await startGuests(t);
  const other = {
    name: 'shop',
    roles: {
      db: { minions: ['db-9'], writes: { address: {} } },
      app: { minions: ['app-9'], reads: { host: 'db/address' } },
    },
  };
  await stage.bridge.data.add(shop, { owner: 'project:a' });
  await stage.bridge.data.add(other, { owner: 'project:b' });
  const [db, app] = [await stage.guest('db-1'), await stage.guest('app-1')];
  const [db9, app9] = [await stage.guest('db-9'), await stage.guest('app-9')];
  await db.put('db/address', 'of a');
  await db9.put('db/address', 'of b');
  t.is((await app.get('db/address')).text, 'of a');
  t.is((await app9.get('db/address')).text, 'of b');
  await t.throwsAsync(stage.bridge.data.show('shop'), { message: /specify the owner/ });
  await t.throwsAsync(stage.bridge.data.add({ ...shop, name: 'third' }), {
    code: 'ERR_DATA_EXISTS',
    message: /db-1 already belongs to another/,
  });
  await stage.bridge.data.remove('shop', { owner: 'project:a' });
  t.is(codeOf(await app.get('db/address')), 'ERR_DATA_UNKNOWN');
  t.is((await app9.get('db/address')).text, 'of b');
  t.notRegex(await storedText(stage), /of a/);
});

test('a space ends with its last minion, and survives a restart of the master until then', async (t) => {
  const first = await startGuests(t);
  await first.bridge.data.add(shop);
  const [db, app] = [await first.guest('db-1'), await first.guest('app-1')];
  await db.put('db/password', 'kept');
  await first.master.close();
  const { store, directory } = first;
  const second = await startGuests(t, { store, directory });
  const again = await second.call({
    path: '/bridge/v1/guest/data?key=db/password',
    headers: { 'x-auth-token': app.token },
  });
  t.is(again.text, 'kept');
  for (const id of ['db-1', 'app-1', 'app-2']) await second.bridge.enroll.retire({ id });
  t.deepEqual(await second.bridge.data.list(), []);
});

test('values that wait for each other and unknown roles are refused', async (t) => {
  const { bridge } = await startGuests(t);
  const unusable: readonly (readonly [RegExp, DataSpaceRegistration['roles']])[] = [
    [
      /a\/x waits for b\/y waits for a\/x/,
      {
        a: { minions: ['m1'], writes: { x: {} }, reads: { y: 'b/y' } },
        b: { minions: ['m2'], writes: { y: {} }, reads: { x: 'a/x' } },
      },
    ],
    [/there is no role "nobody"/, { a: { minions: ['m1'], reads: { y: 'nobody/y' } } }],
    [/one minion/, { a: { minions: ['m1', 'm2'], writes: { x: {} } } }],
    [/more than one role/, { a: { minions: ['m1'] }, b: { minions: ['m1'] } }],
  ];
  for (const [message, roles] of unusable) {
    await t.throwsAsync(bridge.data.add({ name: 's', roles }), { code: 'ERR_DATA_FORM', message });
  }
});

test('the pillar of a guest contains the values that it may read and that are known at its start', async (t) => {
  const stage = await startGuests(t, {
    rules: [
      everyGuest,
      {
        name: 'no passwords',
        effect: 'deny',
        subject: { minion: '*' },
        action: 'runner',
        resource: { fun: 'saltbridge_data.get', arguments: [{ kwargs: { key: 'db/password' } }] },
      },
    ],
  });
  await stage.bridge.data.add(shop);
  const db = await stage.guest('db-1');
  await db.put('db/address', '10.0.0.5');
  await db.put('db/password', 'x');
  const pillarOf = async (minion: string): Promise<unknown> => stage.master.pillar.show({ minion });
  const shown = JSON.parse(JSON.stringify(await pillarOf('app-1')));
  t.like(shown, {
    saltbridge: {
      driver: 'saltbridge_data',
      data: { role: 'app', attributes: { 'mysql:host': '10.0.0.5' } },
    },
  });
  t.notRegex(JSON.stringify(shown), /"mysql:password":"x"/);
  t.like(JSON.parse(JSON.stringify(await pillarOf('db-1'))), {
    saltbridge: { data: { unread: ['db/motd'], writes: { address: 'db/address' } } },
  });
});

const program = fileURLToPath(
  new URL('../../../clients/guests/saltbridge/saltbridge-data', import.meta.url),
);
const tls = {
  certificate: fileURLToPath(new URL('../../../test/fixtures/tls/master.pem', import.meta.url)),
  key: fileURLToPath(new URL('../../../test/fixtures/tls/master.key', import.meta.url)),
};

/** Creates the files that the user-data of an enrolment writes on a machine. */
function machineFolder(t: ExecutionContext, port: number, { token }: GuestMachine): string {
  const folder = temporaryDirectory(t);
  const { publicKey } = new X509Certificate(readFileSync(tls.certificate));
  const key = publicKey.export({ type: 'spki', format: 'der' });
  const pin = `sha256//${createHash('sha256').update(key).digest('base64')}`;
  const url = `https://127.0.0.1:${port}/bridge/v1/guest`;
  writeFileSync(path.join(folder, 'guest.conf'), `url='${url}'\npin='${pin}'\n`, { mode: 0o600 });
  writeFileSync(path.join(folder, 'token'), `${token}\n`, { mode: 0o600 });
  return folder;
}

interface ProgramEnd {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the client program on a machine. */
function runProgram(folder: string, args: readonly string[], input = ''): Promise<ProgramEnd> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, SALTBRIDGE_GUEST: folder };
    const child = spawn('sh', [program, ...args], { env });
    const texts = { stdout: '', stderr: '' };
    child.stdout.on('data', (chunk) => {
      texts.stdout += chunk;
    });
    child.stderr.on('data', (chunk) => {
      texts.stderr += chunk;
    });
    child.once('error', reject);
    // The program may end without reading all of its input.
    child.stdin.on('error', () => {});
    child.once('close', (status) => resolve({ status, ...texts }));
    child.stdin.end(input);
  });
}

const hasCurl = spawnSync('curl', ['--version']).status === 0;

testWhere(hasCurl, 'curl')('a machine with a shell and curl writes, waits and reads', async (t) => {
  const stage = await startGuests(t);
  const { port } = await listenWithTls(t, stage, tls);
  await stage.bridge.data.add(shop);
  const db = machineFolder(t, port, await stage.guest('db-1'));
  const app = machineFolder(t, port, await stage.guest('app-1'));
  const waiting = runProgram(app, ['wait', '30', 'db/password', 'db/address']);
  const strange = 'a "quoted" $(value) `of` \\ two\nlines é';
  t.like(await runProgram(db, ['put', 'db/password'], strange), { status: 0, stderr: '' });
  t.like(await runProgram(db, ['put', 'db/address', '10.0.0.5']), { status: 0, stderr: '' });
  t.like(await within('both values', waiting), { status: 0, stderr: '' });
  t.like(await runProgram(app, ['get', 'db/password']), { status: 0, stdout: strange });
  const late = await runProgram(app, ['get', 'db/state', '0']);
  t.like(late, { status: 75, stdout: '' });
  t.regex(
    late.stderr,
    /db\/state has not been written yet by the role db: minion db-1 \(no accepted/,
  );
  const again = await runProgram(db, ['put', 'db/address', 'other']);
  t.is(again.status, 1);
  t.regex(again.stderr, /already been written/);
  t.is((await runProgram(app, ['get', 'db/$(id)'])).status, 64);
  t.is((await runProgram(temporaryDirectory(t), ['get', 'db/state'])).status, 69);
});

test('registrations of one owner take at most as much as is free', async (t) => {
  const spaces = await DataSpaces.open({
    state: memoryState(),
    forget: async () => {},
    closing: AbortSignal.abort(),
    bytes: { total: 10_000, perOwner: 10_000 },
    now: () => 1,
  });
  const registered = (name: string, length: number): DataSpaceRegistration => ({
    name,
    roles: { db: { minions: [`${name}-1`], reads: { ['a'.repeat(length)]: 'db/x' } } },
  });
  const full = { code: 'ERR_DATA_LIMIT' };
  const fill = async (owner: string): Promise<number> => {
    for (let count = 0; count < 20; count += 1) {
      const added = spaces.add(registered(`${owner}${count}`, 600), owner, false);
      const error = await added.then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      if (error === undefined) continue;
      t.like(error, full);
      return count;
    }
    throw new Error(`the data spaces of ${owner} reach no limit`);
  };
  const own = await fill('p');
  const other = await fill('q');
  t.true(own >= 3 && other >= own / 3 && other < own, `${own}, ${other}`);
  // Smaller registrations are accepted, and still count toward the bytes of their owner.
  for (let count = 0; count < own; count += 1) {
    await spaces.add(registered(`p${count}`, 599), 'p', true);
  }
  for (let count = 0; count < other; count += 1) await spaces.remove(`q${count}`, 'q');
  await t.throwsAsync(spaces.add(registered('more', 600), 'p', false), full);
});

test('registrations of one owner leave space for those of others, and release it', async (t) => {
  const spaces = await DataSpaces.open({
    state: memoryState(),
    forget: async () => {},
    closing: AbortSignal.abort(),
    bytes: { total: 10_000, perOwner: 1_000 },
    now: () => 1,
  });
  const registered = (name: string, length: number): DataSpaceRegistration => ({
    name,
    roles: { db: { minions: [`${name}-1`], reads: { ['a'.repeat(length)]: 'db/x' } } },
  });
  const full = { code: 'ERR_DATA_LIMIT' };
  await spaces.add(registered('one', 600), 'p', false);
  await t.throwsAsync(spaces.add(registered('two', 600), 'p', false), full);
  await spaces.add(registered('two', 600), 'q', false);
  await t.throwsAsync(spaces.add(registered('one', 1_000), 'p', true), full);
  await spaces.add(registered('one', 10), 'p', true);
  await spaces.add(registered('three', 400), 'p', false);
  await spaces.remove('three', 'p');
  await spaces.add(registered('four', 400), 'p', false);
  t.is(spaces.all.length, 3);
});

test('waiting reads of the guests of one owner leave places for those of others', async (t) => {
  const state = memoryState();
  const closing = new AbortController();
  const coordinator = await createStoreCoordinator(state);
  const forget = async (): Promise<void> => {};
  const options = { state, forget, closing: closing.signal, now: Date.now };
  const spaces = await DataSpaces.open(options);
  const values = new DataValues({
    ...{ spaces, coordinator, closing: closing.signal, bytesPerStack: 1000, isShared: false },
    seal: (plain) => plain,
    unseal: (sealed) => sealed,
    describeMinion: async () => '',
  });
  const { total = 0 } = guestLimits.waitingProjectReads;
  const { perOwner = 0 } = guestLimits.waitingReads;
  const guests = Array.from({ length: total / perOwner }, (_, index) => `r-${index}`);
  const add = (name: string, minions: readonly string[]): Promise<unknown> => {
    const db = { minions: [`${name}-db`], writes: { x: {} } };
    return spaces.add({ name, roles: { db, r: { minions, reads: { x: 'db/x' } } } }, name, false);
  };
  await add('p', guests);
  await add('q', ['q-r']);
  const read = (minion: string): Promise<unknown> =>
    values.read({ minion, isPrivate: true }, { key: 'db/x', waitMs: 60_000 });
  const all = guests.flatMap((minion) => Array.from({ length: perOwner }, () => read(minion)));
  const settled = Promise.allSettled(all);
  const other = read('q-r');
  await values.write('q-db', 'db/x', 'of q');
  t.like(await within('the read of the other owner', other), { value: 'of q' });
  await values.write('p-db', 'db/x', 'of p');
  const results = await within('the reads', settled);
  const busy = results.filter(({ status }) => status === 'rejected').length;
  t.is(busy, total / 4, 'one owner has three quarters of all places');
  closing.abort();
});
