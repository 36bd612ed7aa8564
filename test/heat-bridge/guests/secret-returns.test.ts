/** Secret values of a data space in the returns of minions. */
import test from 'ava';
import { type Membership, parseDataSpace } from '#guests/data-spaces/data-spaces.ts';
import { redactReturn } from '#guests/data-spaces/secret-returns.ts';
import type { WireMap, WireValue } from '#minion-protocol';
import { examinedBy } from '../../helpers/examined.ts';

const roles = {
  db: { writes: { password: { secret: true }, port: {} } },
  app: { reads: { 'mysql:password': 'db/password', 'mysql:port': 'db/port' } },
};
const spaces = {
  membershipOf: (minion: string) =>
    minion in roles ? ({ role: minion, space: { roles } } as unknown as Membership) : undefined,
};

function redacted(
  minion: string,
  fun: string,
  args: readonly WireValue[],
  value: WireValue,
  more: object = {},
): { readonly args: WireValue | undefined; readonly value: WireValue | undefined } {
  const load = {
    id: minion,
    jid: 'req',
    fun,
    fun_args: [...args],
    return: value,
    retcode: 0,
    ...more,
  };
  const { fun_args, return: left } = redactReturn(spaces, minion, load);
  return { args: fun_args, value: left };
}

for (const [fun, ...args] of [
  ['saltbridge_data.get', 'db/password'],
  ['saltbridge_data.get', 'key=db/password', 'timeout=5'],
  ['saltbridge_data.get', { __kwarg__: true, key: 'db/password' }],
  ['sdb.get', 'sdb://saltbridge/db/password'],
  ['sdb.get', 'uri=sdb://saltbridge/db/password'],
] as const) {
  test(`the value of ${fun} ${JSON.stringify(args)} is removed`, (t) => {
    t.is(redacted('app', fun, args, 'x').value, '(secret)');
  });
}

test('values that are not secret and values of other functions remain', (t) => {
  t.is(redacted('app', 'saltbridge_data.get', ['db/port'], '3306').value, '3306');
  t.is(redacted('app', 'test.echo', ['db/password'], 'db/password').value, 'db/password');
  t.is(redacted('other', 'saltbridge_data.get', ['db/password'], 'x').value, 'x');
  const failed = { retcode: 1, success: false };
  const error = 'db/password is not written yet';
  t.is(redacted('app', 'saltbridge_data.get', ['db/password'], error, failed).value, error);
});

test('attributes that are not secret remain', (t) => {
  const value = { 'mysql:password': 'x', 'mysql:port': '3306' };
  t.deepEqual(redacted('app', 'saltbridge_data.attributes', [], value).value, {
    'mysql:password': '(secret)',
    'mysql:port': '3306',
  });
});

test('secret attributes are redacted in a map with very many keys', (t) => {
  const value = new Map(Object.entries({ 'mysql:password': 'x', 'mysql:port': '3306' }));
  const { value: left } = redacted('app', 'saltbridge_data.attributes', [], value);
  t.deepEqual(left, new Map(value).set('mysql:password', '(secret)'));
});

const attributes = { 'mysql:password': 'x', 'mysql:port': '3306' };
const open = { 'mysql:password': '(secret)', 'mysql:port': '3306' };
const pillarOf = (given: object): WireMap => ({
  own: { attributes: 'text', 'mysql:password': 'own' },
  saltbridge: { driver: 'saltbridge_data', data: { role: 'app', attributes: { ...given } } },
});

for (const [fun, args, value, left] of [
  ['pillar.items', [], pillarOf(attributes), pillarOf(open)],
  ['pillar.raw', [], pillarOf(attributes), pillarOf(open)],
  ['pillar.get', ['saltbridge:data:attributes'], attributes, open],
  ['pillar.get', ['key=saltbridge:data'], { attributes }, { attributes: open }],
  ['pillar.get', ['saltbridge/data/attributes/mysql:password', 'delimiter=/'], 'x', '(secret)'],
  ['pillar.get', ['saltbridge/data/attributes/mysql:port', 'delimiter=/'], '3306', '3306'],
  [
    'pillar.item',
    ['saltbridge:data:attributes'],
    { 'saltbridge:data:attributes': attributes },
    { 'saltbridge:data:attributes': open },
  ],
  ['config.get', ['saltbridge:data:attributes'], attributes, open],
  ['pillar.get', ['own'], { 'mysql:password': 'own' }, { 'mysql:password': 'own' }],
] as const) {
  test(`secret attributes in the pillar are removed from ${[fun, ...args].join(' ')}`, (t) => {
    t.deepEqual(redacted('app', fun, args, value).value, left);
  });
}

test('secret attributes are removed from a pillar with a key that is no text', (t) => {
  const whole = (given: object): WireValue =>
    new Map<WireValue, WireValue>(Object.entries(pillarOf(given))).set(5, 'five');
  t.deepEqual(redacted('app', 'pillar.items', [], whole(attributes)).value, whole(open));
});

test('arguments that write a secret value are removed', (t) => {
  const put = (...args: WireValue[]) => redacted('db', 'saltbridge_data.put', args, 1).args;
  t.deepEqual(put('db/password', 'x'), ['db/password', '(secret)']);
  t.deepEqual(put('db/port', '3306'), ['db/port', '3306']);
  t.deepEqual(redacted('db', 'sdb.set', ['sdb://saltbridge/db/password', 'x'], 'x'), {
    args: ['sdb://saltbridge/db/password', '(secret)'],
    value: '(secret)',
  });
  const all = redacted('db', 'saltbridge_data.put_attributes', ['{"password": "x"}'], {});
  t.deepEqual(all.args, ['(secret)']);
});

test('the runner that the modules call is filtered too', (t) => {
  const args = ['saltbridge_data.get', 'arg=[{key: db/password}]'];
  const answer = { key: 'db/password', value: 'x', version: 1 };
  t.deepEqual(redacted('app', 'publish.runner', args, answer).value, {
    ...answer,
    value: '(secret)',
  });
  const put = ['saltbridge_data.put', 'arg=[{key: db/password, value: x}]'];
  t.deepEqual(redacted('db', 'publish.runner', put, {}).args, ['saltbridge_data.put', '(secret)']);
});

test('the work for a return grows with its arguments, not with their square', (t) => {
  const args = [...Array<string>(5_000).fill('db/password'), ...Array<string>(5_000).fill('x')];
  const examined = examinedBy(() => {
    const { args: left } = redacted('db', 'saltbridge_data.put', args, 1);
    t.deepEqual(new Set(Array.isArray(left) ? left : []), new Set(['db/password', '(secret)']));
  });
  t.true(examined <= 4 * args.length, `${examined} elements`);
});

test('the work for a returned pillar does not grow with the secret attributes', (t) => {
  const count = 2_000;
  const names = Array.from({ length: count }, (_, at) => `secret${at}`);
  const many = {
    db: { writes: { password: { secret: true } } },
    app: { reads: Object.fromEntries(names.map((name) => [name, 'db/password'])) },
  };
  const membership = { role: 'app', space: { roles: many } } as unknown as Membership;
  const keys = Array.from({ length: count }, (_, at) => [`attributes:${at}`, 'open'] as const);
  const value = { attributes: { ...Object.fromEntries(keys), secret7: 'x', other: 'open' } };
  const load = { id: 'app', jid: 'req', fun: 'pillar.items', fun_args: [], return: value };
  const examined = examinedBy(() => {
    const left = redactReturn({ membershipOf: () => membership }, 'app', load);
    t.deepEqual(left.return, { attributes: { ...value.attributes, secret7: '(secret)' } });
  });
  t.true(examined <= 4 * count, `${examined} elements`);
});

test('a path that ends with the name of any secret attribute is redacted', (t) => {
  const names = ['b', 'ab', 'x:b', 'zz', 'mysql:password', 'é'];
  const many = {
    db: { writes: { password: { secret: true } } },
    app: { reads: Object.fromEntries(names.map((name) => [name, 'db/password'])) },
  };
  const membership = { role: 'app', space: { roles: many } } as unknown as Membership;
  for (const name of [...names, 'z', 'bz', 'zé', 'password', '', ...names.map((it) => `a${it}`)]) {
    const path = `saltbridge:data:attributes:${name}`;
    const load = { id: 'app', jid: 'req', fun: 'pillar.get', fun_args: [path], return: 'x' };
    const left = redactReturn({ membershipOf: () => membership }, 'app', load).return;
    t.is(left, names.some((it) => path.endsWith(it)) ? '(secret)' : 'x', path);
  }
});

test('the secret attributes of a role are collected once, and again if the roles change', (t) => {
  let collected = 0;
  const count = (given: Record<string, string>): Record<string, string> =>
    new Proxy(given, {
      ownKeys: (target) => {
        collected += 1;
        return Reflect.ownKeys(target);
      },
    });
  const rolesWith = (reads: Record<string, string>) => ({
    db: { writes: { password: { secret: true }, port: {} } },
    app: { reads: count(reads) },
  });
  const shown = (many: object): WireValue | undefined => {
    const membership = { role: 'app', space: { roles: many } } as unknown as Membership;
    const value = { attributes: { one: 'x', two: 'y' } };
    const load = { id: 'app', jid: 'req', fun: 'pillar.items', fun_args: [], return: value };
    return redactReturn({ membershipOf: () => membership }, 'app', load).return;
  };
  const before = rolesWith({ one: 'db/password', two: 'db/port' });
  for (let at = 0; at < 3; at += 1) {
    t.deepEqual(shown(before), { attributes: { one: '(secret)', two: 'y' } });
  }
  t.is(collected, 1);
  const after = rolesWith({ one: 'db/port', two: 'db/password' });
  t.deepEqual(shown(after), { attributes: { one: 'x', two: '(secret)' } });
});

test('the names of the attributes of one role have a limited length', async (t) => {
  const w = { minions: ['w-1'], writes: { x: {} } };
  const spaceOf = (count: number): object => {
    const names = Array.from({ length: count }, (_, at) => String(at).padStart(255, 'a'));
    const reads = Object.fromEntries(names.map((name) => [name, 'w/x']));
    return { name: 'a', roles: { w, r: { minions: ['r-1'], reads } } };
  };
  await t.notThrowsAsync(parseDataSpace(spaceOf(2_056), 10_000));
  await t.throwsAsync(parseDataSpace(spaceOf(2_057), 10_000), {
    code: 'ERR_DATA_QUOTA',
    message: /have 524535 characters, more than 524288/,
  });
});
