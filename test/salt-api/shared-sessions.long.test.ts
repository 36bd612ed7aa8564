/** Sessions of the HTTP API that members of a cluster share, with a log in memory. */
import { createHash } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import type { StateOperation } from '#master';
import { createSessionToken } from '#salt-api/sessions.ts';
import { SharedSessions } from '#salt-api/shared-sessions.ts';
import { StoreError } from '#store';
import { type TestMember, twoMembers } from '../heat-bridge/cluster.ts';
import { until } from '../helpers/deadline.ts';
import { slicesOf } from '../helpers/slices.ts';

const token = 'a'.repeat(64);
const owner = { eauth: 'pam', user: 'ops' };
const idleMs = 1_000_000;
/** Idle time of sessions in tests that wait for the timer, in milliseconds. */
const shortIdleMs = 40;

/** The sessions of two members, with a common clock. */
class Cluster {
  readonly members: readonly TestMember[];
  /** Writes of the members. */
  readonly writes: (readonly StateOperation[])[] = [];
  clock = Date.now();
  isAlone = false;
  readonly #t: ExecutionContext;

  private constructor(t: ExecutionContext, members: readonly TestMember[]) {
    this.#t = t;
    this.members = members;
  }

  static async start(t: ExecutionContext): Promise<Cluster> {
    return new Cluster(t, await twoMembers(t));
  }

  async open(at: 0 | 1, { capacity = 100, idle = idleMs } = {}): Promise<SharedSessions> {
    const { area } = this.#member(at);
    const sessions = await SharedSessions.open({
      shared: {
        ...area,
        write: async (operations) => {
          if (this.isAlone) throw new StoreError('ERR_CLUSTER_ALONE', 'of the test');
          this.writes.push(operations);
          return area.write(operations);
        },
      },
      now: () => this.clock,
      monotonic: () => this.clock,
      idleMs: idle,
      capacity,
    });
    this.#t.teardown(() => sessions.stop());
    return sessions;
  }

  async both(
    options: { readonly capacity?: number } = {},
  ): Promise<[SharedSessions, SharedSessions]> {
    return [await this.open(0, options), await this.open(1, options)];
  }

  /** Delays the changes that a member applies from now on, until `pass` is called. */
  delay(at: 0 | 1): { pass(): void } {
    const { area } = this.#member(at);
    const follow = area.follow.bind(area);
    const waiting: (() => void)[] = [];
    area.follow = (prefix, listener) =>
      follow(prefix, (change) => void waiting.push(() => listener(change)));
    return {
      pass: () => {
        for (const wake of waiting.splice(0)) wake();
      },
    };
  }

  /** Resolves when both members have applied everything that was written before. */
  async applied(): Promise<void> {
    for (const member of this.members) await member.applied();
  }

  async rows(): Promise<{ readonly name: string; readonly value: string }[]> {
    const found: { readonly name: string; readonly value: string }[] = [];
    for await (const { key, value } of this.#member(1).area.list([])) {
      found.push({ name: key.join('/'), value: Buffer.from(value).toString('latin1') });
    }
    return found;
  }

  #member(at: 0 | 1): TestMember {
    const member = this.members[at];
    if (member === undefined) throw new Error('no such member');
    return member;
  }
}

test('a session of one member is valid at all, and the store contains no usable session', async (t) => {
  const cluster = await Cluster.start(t);
  const [a, b] = await cluster.both();
  const secret = await a.open(token, owner);
  await cluster.applied();
  t.deepEqual(b.find(secret), { token });
  t.is(b.find(token), undefined);
  const rows = await cluster.rows();
  t.deepEqual(
    rows.map(({ name }) => name),
    [`sessions/${createHash('sha256').update(secret).digest('hex')}`],
  );
  t.false(rows.some(({ value }) => value.includes(token) || value.includes(secret)));
  // This member starts later.
  t.deepEqual((await cluster.open(1)).find(secret), { token });
});

test('a member waits briefly for a session that it has not received yet', async (t) => {
  const cluster = await Cluster.start(t);
  const late = cluster.delay(1);
  const [a, b] = await cluster.both();
  const secret = await a.open(token, owner);
  await cluster.applied();
  t.is(b.find(secret), undefined);
  t.is(await b.expect(secret, '::1'), undefined);
  const expected = b.expect(secret, '::1');
  late.pass();
  t.deepEqual(await expected, { token });
  t.is(await b.expect('no token', '::1'), undefined);
});

test('unknown sessions of some addresses do not stop the waiting for those of another', async (t) => {
  const cluster = await Cluster.start(t);
  const late = cluster.delay(1);
  const [a, b] = await cluster.both();
  const secret = await a.open(token, owner);
  const other = await a.open(token, owner);
  await cluster.applied();
  for (let address = 0; address < 20; address += 1) {
    for (let count = 0; count < 200; count += 1) {
      void b.expect(createSessionToken(), `2001:db8:${address}::1`);
    }
  }
  const expected = b.expect(secret, '192.0.2.1');
  const same = b.expect(other, '2001:db8:1::2');
  late.pass();
  t.deepEqual(await expected, { token });
  // This address holds all its places. Half of all places are for addresses that hold none.
  t.is(await same, undefined);
  t.deepEqual(b.find(other), { token });
});

test('a session that is closed at one member is closed everywhere, even if it is in use', async (t) => {
  const cluster = await Cluster.start(t);
  const [a, b] = await cluster.both();
  const secret = await a.open(token, owner);
  await cluster.applied();
  cluster.clock += idleMs / 2;
  const closed = b.close(secret);
  t.is(b.find(secret), undefined);
  t.truthy(a.find(secret));
  t.is(cluster.writes.length, 3);
  await closed;
  await cluster.applied();
  t.is(a.find(secret), undefined);
  t.is(b.find(secret), undefined);
  t.deepEqual(await cluster.rows(), []);
});

test('use at any member counts, and is written once per quarter of the idle time', async (t) => {
  const cluster = await Cluster.start(t);
  const [a, b] = await cluster.both();
  const secret = await a.open(token, owner);
  await cluster.applied();
  cluster.writes.length = 0;
  for (let uses = 0; uses < 100; uses += 1) {
    cluster.clock += idleMs / 100;
    t.truthy(b.find(secret));
    await cluster.applied();
  }
  t.true(cluster.writes.length === 3 || cluster.writes.length === 4, `${cluster.writes.length}`);
  cluster.clock += idleMs / 2;
  t.truthy(a.find(secret));
  await cluster.applied();
  cluster.clock += idleMs - 1;
  t.truthy(b.find(secret));
  await cluster.applied();
  cluster.clock += idleMs;
  t.is(a.find(secret), undefined);
  t.is(b.find(secret), undefined);
});

test('a session used at a member that stops remains valid at the others', async (t) => {
  const cluster = await Cluster.start(t);
  const [a, b] = await cluster.both();
  const secret = await a.open(token, owner);
  cluster.clock += idleMs / 5;
  t.truthy(a.find(secret));
  await a.stop();
  await cluster.applied();
  cluster.clock += idleMs - 1;
  t.deepEqual(b.find(secret), { token });
});

test('a last use is written without a further use', async (t) => {
  const cluster = await Cluster.start(t);
  const a = await cluster.open(0, { idle: shortIdleMs });
  const secret = await a.open(token, owner);
  cluster.clock += shortIdleMs / 8;
  t.truthy(a.find(secret));
  t.is(cluster.writes.length, 1);
  cluster.clock += shortIdleMs / 4;
  await until('the write', () => cluster.writes.length === 2);
  const [operation] = cluster.writes[1] ?? [];
  t.is(operation?.op === 'put' && operation.expiresAt, cluster.clock + (shortIdleMs * 3) / 4);
  await cluster.applied();
  cluster.clock += shortIdleMs;
  await until('its end', () => a.size === 0);
});

test('many expired sessions are removed in slices', async (t) => {
  const count = 20_000;
  let clock = Date.now();
  const sessions = await SharedSessions.open({
    shared: {
      follow: async (_prefix, listener) => {
        for (let number = 0; number < count; number += 1) {
          const key = ['sessions', `${number}`];
          const entry = { key, value: Buffer.from(token), revision: 1, expiresAt: clock + idleMs };
          listener({ type: 'put', entry });
        }
      },
      seal: (value) => Buffer.from(value),
      unseal: (value) => Buffer.from(value),
      write: async () => 1,
    },
    now: () => clock,
    monotonic: () => clock,
    idleMs: shortIdleMs,
  });
  t.teardown(() => sessions.stop());
  t.is(sessions.size, count);
  const slices = await slicesOf(async () => {
    clock += idleMs;
    await until('the end of the sessions', () => sessions.size === 0);
  });
  t.true(slices.length >= 4, `${slices.length} slices`);
  t.true(Math.max(...slices) < 101_000);
});

test('the least recently used sessions over the limit end at all members', async (t) => {
  const cluster = await Cluster.start(t);
  const [a, b] = await cluster.both({ capacity: 3 });
  const secrets: string[] = [];
  for (const sessions of [a, b, a]) {
    secrets.push(await sessions.open(token, owner));
    cluster.clock += 1;
  }
  await cluster.applied();
  t.truthy(b.find(secrets[0] ?? ''));
  secrets.push(await b.open(token, owner));
  await cluster.applied();
  const known = (sessions: SharedSessions): boolean[] =>
    secrets.map((secret) => sessions.find(secret) !== undefined);
  t.deepEqual(known(a), [true, false, true, true]);
  t.deepEqual(known(b), [true, false, true, true]);
  t.is((await cluster.rows()).length, 3);
});

test("a user's sessions do not end those of another user", async (t) => {
  const cluster = await Cluster.start(t);
  const [a, b] = await cluster.both({ capacity: 3 });
  const kept = await a.open(token, owner);
  await cluster.applied();
  for (let n = 0; n < 5; n += 1) await b.open(token, { eauth: 'pam', user: 'other' });
  await cluster.applied();
  t.truthy(a.find(kept));
  t.truthy(b.find(kept));
  t.deepEqual([a.size, b.size], [3, 3]);
});

test('a member that cannot write refuses log-ins, and its sessions remain valid', async (t) => {
  const cluster = await Cluster.start(t);
  const [a, b] = await cluster.both();
  const secret = await a.open(token, owner);
  cluster.isAlone = true;
  await t.throwsAsync(a.open(token, owner), { code: 'ERR_CLUSTER_ALONE' });
  t.is(a.size, 1);
  cluster.clock += idleMs / 2;
  t.truthy(a.find(secret));
  cluster.isAlone = false;
  cluster.clock += idleMs / 4;
  t.truthy(a.find(secret));
  await cluster.applied();
  cluster.clock += idleMs - 1;
  t.truthy(b.find(secret));
});
