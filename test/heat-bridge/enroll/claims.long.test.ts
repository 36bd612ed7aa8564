/** Claims of keys with a ticket, and sign-ins of minions that present a ticket. */

import { generateKeyPairSync } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { pino } from 'pino';
import nacl from 'tweetnacl';
import { allow } from '#acl';
import { createBridge } from '#guests';
import { BridgeError, type Enrolment } from '#heat-bridge';
import { EnrolmentDeadlines } from '#heat-bridge/enroll/enrolment-deadlines.ts';
import { EnrolmentRepository } from '#heat-bridge/enroll/enrolment-repository.ts';
import { EnrolmentTransitions } from '#heat-bridge/enroll/enrolment-transitions.ts';
import { KeyPairs } from '#heat-bridge/enroll/key-pairs.ts';
import { TicketClaimHandler } from '#heat-bridge/enroll/ticket-claims.ts';
import {
  openTicketKey,
  signTicket,
  type TicketClaims,
  tryParseTicket,
  verifyTicket,
} from '#heat-bridge/enroll/tickets.ts';
import { UsedTickets } from '#heat-bridge/enroll/used-tickets.ts';
import { AuditBursts, type KeyLifecycle } from '#master';
import type { KeyPairText } from '#minion-protocol';
import { KeyedMutex } from '#runtime';
import { createSaltApi } from '#salt-api';
import { createMemoryStore } from '#store';
import { auditRecords } from '../../helpers/audit-records.ts';
import { within } from '../../helpers/deadline.ts';
import { tries } from '../../helpers/effort.ts';
import { type ApiAnswer, json, password, send } from '../../helpers/salt-api.ts';
import { createSteps, type Steps } from '../../helpers/steps.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { pem } from '../../helpers/vectors.ts';
import { copyOf, fingerOf, signIn, startStage } from './stage.ts';

type HeldKey = NonNullable<ReturnType<KeyLifecycle['keyOf']>>;

const machine = { id: 'web-1', project: 'p1' };

test('a pending key is accepted by a claim, and its minion must use protocol 3', async (t) => {
  const stage = await startStage(t);
  const { ticket, enrolment } = await stage.bridge.enroll.create(machine);
  const shown = stage.next('salt/auth');
  const started = stage.minion('web-1').start();
  await shown;
  t.is((await stage.key('web-1'))?.state, 'pending');
  const claim = { ticket, id: 'web-1', fingerprint: fingerOf('minion') };
  t.deepEqual(await stage.post('claim', claim), { status: 200, code: undefined });
  await within('the sign-in', started);
  const done = await within('its end', stage.bridge.enroll.signedIn(enrolment.number));
  t.like(done, { state: 'signed-in', fingerprint: fingerOf('minion') });
  t.like(await stage.key('web-1'), { state: 'accepted', protocol: 3 });
});

test('a key that is claimed before it is shown is accepted when it is shown', async (t) => {
  const stage = await startStage(t);
  const { ticket, enrolment } = await stage.bridge.enroll.create({ ...machine, protocol: 0 });
  const fingerprint = fingerOf('minion').replaceAll(':', '').toUpperCase();
  t.is((await stage.post('claim', { ticket, id: 'web-1', fingerprint })).status, 200);
  t.is(await stage.key('web-1'), undefined);
  await within('the sign-in', stage.minion('web-1').start());
  await within('its end', stage.bridge.enroll.signedIn(enrolment.number));
  t.pass();
});

test('a key that differs from the claimed one is denied and reported', async (t) => {
  const stage = await startStage(t);
  const { ticket, enrolment } = await stage.bridge.enroll.create(machine);
  const alarm = stage.next('saltbridge/bridge/enroll/alarm');
  await stage.post('claim', { ticket, id: 'web-1', fingerprint: fingerOf('minion') });
  const other = stage.minion('web-1', 'other_minion').start();
  await t.throwsAsync(within('the denial', other));
  t.like((await within('the alarm', alarm)).data, { id: 'web-1', number: enrolment.number });
  t.is((await stage.key('web-1'))?.state, 'denied');
  await within('the right one', stage.minion('web-1').start());
  t.is((await stage.bridge.enroll.show(enrolment.number)).state, 'signed-in');
});

test("a stranger's pending key under the id is replaced by the claimed key", async (t) => {
  const stage = await startStage(t);
  const { ticket } = await stage.bridge.enroll.create(machine);
  const shown = stage.next('salt/auth');
  const stranger = stage.minion('web-1', 'other_minion').start();
  stranger.catch(() => {});
  await shown;
  await stage.post('claim', { ticket, id: 'web-1', fingerprint: fingerOf('minion') });
  await within('the right one', stage.minion('web-1').start());
  t.like(await stage.key('web-1'), { state: 'accepted', fingerprint: fingerOf('minion') });
  await t.throwsAsync(stranger);
});

test("a machine whose key follows a stranger's key waits until it has claimed", async (t) => {
  const stage = await startStage(t);
  const { ticket, enrolment } = await stage.bridge.enroll.create(machine);
  t.is((await signIn(stage, 'other_minion', {})).state, 'pending');
  t.is((await signIn(stage, 'minion', {})).state, 'pending');
  const claim = { ticket, id: 'web-1', fingerprint: fingerOf('minion') };
  t.is((await stage.post('claim', claim)).status, 200);
  t.is((await signIn(stage, 'minion', {})).state, 'accepted');
  t.is((await signIn(stage, 'other_minion', {})).state, 'refused');
  const keys = (await stage.master.keys.list()).map(({ state, fingerprint }) => [
    state,
    fingerprint,
  ]);
  t.deepEqual(keys, [
    ['accepted', fingerOf('minion')],
    ['denied', fingerOf('other_minion')],
  ]);
  t.is((await stage.bridge.enroll.show(enrolment.number)).state, 'accepted');
});

test('a repeated alarm causes one event and two records a minute', async (t) => {
  const stage = await startStage(t);
  const { ticket } = await stage.bridge.enroll.create(machine);
  const body = { ticket, id: 'web-1', fingerprint: fingerOf('minion') };
  t.is((await stage.post('claim', body)).status, 200);
  const stolen = { ...body, fingerprint: fingerOf('other_minion') };
  const end = new AbortController();
  const told = await stage.master.events.subscribe({ match: '*/enroll/alarm' }, end.signal);
  for (let index = 0; index < 30; index += 1) {
    t.is((await stage.post('claim', stolen)).code, 'ERR_TICKET_SPENT');
    if (index < 10) await signIn(stage, 'other_minion', {});
  }
  end.abort();
  const events = [];
  for await (const event of told) events.push(event.data.detail);
  t.is(events.length, 2);
  stage.clock.now += 60_000;
  await stage.post('claim', stolen);
  const records = await auditRecords(stage);
  const alarms = records.filter(({ action }) => action === 'enroll.alarm');
  t.deepEqual(
    alarms.map(({ count = 1 }) => count),
    [1, 1, 29, 9, 1],
  );
});

test('wrong tickets of an address are limited', async (t) => {
  const stage = await startStage(t);
  const { ticket } = await stage.bridge.enroll.create(machine);
  const forger = generateKeyPairSync('ed25519').privateKey;
  const claims = tryParseTicket(ticket)?.claims;
  const forged = claims && signTicket(claims, forger);
  const body = { id: 'web-1', fingerprint: fingerOf('minion') };
  // More claims than the limit recovers on a slow machine while they are processed.
  const answers = await Promise.all(
    Array.from({ length: 300 }, (_, index) => {
      const path = index % 2 === 0 ? 'claim' : 'failure';
      const more = path === 'claim' ? body : { id: 'web-1', reason: 'none' };
      return stage.post(path, { ...more, ticket: forged });
    }),
  );
  t.deepEqual([...new Set(answers.map(({ code }) => code))].sort(), [
    'ERR_EAUTH_LIMIT',
    'ERR_TICKET',
  ]);
});

test('a ticket is valid only for its own purpose', async (t) => {
  const stage = await startStage(t);
  const bound = { ...machine, instance: 'i-1', address: '127.0.0.1' };
  const { ticket } = await stage.bridge.enroll.create(bound);
  const elsewhere = await stage.bridge.enroll.create({
    ...machine,
    id: 'web-2',
    address: '192.0.2.9',
  });
  const forger = generateKeyPairSync('ed25519').privateKey;
  const claims = tryParseTicket(ticket)?.claims;
  const fingerprint = fingerOf('minion');
  const right = { ticket, id: 'web-1', instance: 'i-1', fingerprint };
  const cases: [object, string][] = [
    [{ ...right, ticket: 'sbt1.x.y' }, 'ERR_TICKET'],
    [{ ...right, ticket: claims && signTicket(claims, forger) }, 'ERR_TICKET'],
    [{ ...right, id: 'web-2' }, 'ERR_TICKET_BOUND'],
    [{ ...right, instance: 'i-2' }, 'ERR_TICKET_BOUND'],
    [{ ticket, id: 'web-1', fingerprint }, 'ERR_TICKET_BOUND'],
    [{ ticket: elsewhere.ticket, id: 'web-2', fingerprint }, 'ERR_TICKET_BOUND'],
    [{ ...right, fingerprint: 'aa:bb' }, 'ERR_ENROLL_ARGS'],
    [{ ...right, more: 1 }, 'ERR_ENROLL_ARGS'],
    [{ ...right, id: 7 }, 'ERR_ENROLL_ARGS'],
  ];
  for (const [body, code] of cases) t.is((await stage.post('claim', body)).code, code);
  t.is((await stage.post('claim', right)).status, 200);
});

test('a ticket is valid until its expiry, and once', async (t) => {
  const stage = await startStage(t);
  const fingerprint = fingerOf('minion');
  const late = await stage.bridge.enroll.create({ ...machine, id: 'late', lifetimeSeconds: 60 });
  const claim = await stage.bridge.enroll.create(machine);
  const body = { ticket: claim.ticket, id: 'web-1', fingerprint };
  t.is((await stage.post('claim', body)).status, 200);
  t.is((await stage.post('claim', body)).code, 'ERR_TICKET_SPENT');
  const alarm = stage.next('saltbridge/bridge/enroll/alarm');
  const stolen = { ...body, fingerprint: fingerOf('other_minion') };
  t.is((await stage.post('claim', stolen)).code, 'ERR_TICKET_SPENT');
  await within('the alarm', alarm);
  stage.clock.now += 60_000;
  const over = { ticket: late.ticket, id: 'late', fingerprint };
  t.is((await stage.post('claim', over)).code, 'ERR_TICKET_EXPIRED');
});

test('only one of several simultaneous claims succeeds', async (t) => {
  const stage = await startStage(t);
  const { ticket } = await stage.bridge.enroll.create(machine);
  const fingers = [fingerOf('minion'), fingerOf('other_minion'), fingerOf('minion2')];
  const answers = await Promise.all(
    fingers.map((fingerprint) => stage.post('claim', { ticket, id: 'web-1', fingerprint })),
  );
  t.is(answers.filter(({ status }) => status === 200).length, 1);
});

test('a spent ticket stays spent after its key is deleted, and after a restore of the store', async (t) => {
  const stage = await startStage(t);
  const { ticket } = await stage.bridge.enroll.create(machine);
  const backup = await copyOf(stage.store);
  const body = { ticket, id: 'web-1', fingerprint: fingerOf('minion') };
  t.is((await stage.post('claim', body)).status, 200);
  await within('the sign-in', stage.minion('web-1').start());
  await stage.master.keys.delete({ match: 'web-1' });
  t.is((await stage.post('claim', body)).code, 'ERR_TICKET_SPENT');
  await stage.master.close();
  const { directory } = stage;
  const next = await startStage(t, {}, { directory, store: createMemoryStore(), prepare: backup });
  const [enrolment] = await next.bridge.enroll.list();
  t.is(enrolment?.state, 'open');
  t.is((await next.post('claim', body)).code, 'ERR_TICKET_SPENT');
});

test('an id that has a key, or that another project enrols, is refused', async (t) => {
  const stage = await startStage(t);
  const { enroll } = stage.bridge;
  const first = await enroll.create(machine);
  await t.throwsAsync(enroll.create({ ...machine, project: 'p2' }), {
    instanceOf: BridgeError,
    code: 'ERR_ENROLL_TAKEN',
  });
  const second = await enroll.create(machine);
  const fingerprint = fingerOf('minion');
  const body = { id: 'web-1', fingerprint };
  t.is((await stage.post('claim', { ...body, ticket: first.ticket })).code, 'ERR_TICKET_SPENT');
  t.is((await stage.post('claim', { ...body, ticket: second.ticket })).status, 200);
  await within('the sign-in', stage.minion('web-1').start());
  await t.throwsAsync(enroll.create(machine), { code: 'ERR_ENROLL_TAKEN' });
});

test('a machine that cannot be a minion gets the reason, and leaves no key', async (t) => {
  const stage = await startStage(t);
  const { ticket, enrolment } = await stage.bridge.enroll.create({ ...machine, instance: 'i-1' });
  await stage.post('claim', {
    ticket,
    id: 'web-1',
    instance: 'i-1',
    fingerprint: fingerOf('minion'),
  });
  const report = { ticket, id: 'web-1', reason: 'no \u001b[2J\nservice' };
  t.is((await stage.post('failure', { ...report, id: 'web-2' })).code, 'ERR_TICKET_BOUND');
  t.is((await stage.post('failure', report)).status, 200);
  await t.throwsAsync(stage.bridge.enroll.signedIn(enrolment.number), {
    instanceOf: BridgeError,
    code: 'ERR_ENROLL_FAILED',
    message: 'no [2J service',
  });
  t.is((await stage.post('failure', report)).code, 'ERR_TICKET_SPENT');
  const shown = stage.next('salt/auth');
  stage
    .minion('web-1')
    .start()
    .catch(() => {});
  await shown;
  t.is((await stage.key('web-1'))?.state, 'pending');
});

test('the number of open enrolments is limited', async (t) => {
  const { enroll } = (await startStage(t, { max_open: 1 })).bridge;
  await enroll.create(machine);
  const another = enroll.create({ ...machine, id: 'web-2' });
  await t.throwsAsync(another, { instanceOf: BridgeError, code: 'ERR_ENROLL_FULL' });
  await enroll.retire({ id: 'web-1' });
  await t.notThrowsAsync(enroll.create({ ...machine, id: 'web-2' }));
});

test('one project leaves enrolments to others', async (t) => {
  const limits = { max_open: 20, max_open_per_project: 19 };
  const { enroll } = (await startStage(t, limits)).bridge;
  const open = (project: string, index: number) =>
    enroll.create({ ...machine, id: `${project}-${index}`, project });
  for (let index = 0; index < 18; index += 1) await open('greedy', index);
  await t.throwsAsync(open('greedy', 18), { code: 'ERR_ENROLL_FULL' });
  await t.notThrowsAsync(open('other', 0));
  const bounded = (await startStage(t, { max_open_per_project: 1 })).bridge.enroll;
  await bounded.create(machine);
  const another = bounded.create({ ...machine, id: 'web-2' });
  await t.throwsAsync(another, { code: 'ERR_ENROLL_FULL' });
});

test('enrolling one id again and again is limited for its project alone', async (t) => {
  const { enroll } = (await startStage(t, { max_open: 5_000 })).bridge;
  let made = 0;
  const again = async (): Promise<void> => {
    for (; made < 3_000; made += 1) await enroll.create(machine);
  };
  await t.throwsAsync(again(), { code: 'ERR_ENROLL_FULL' });
  t.true(made >= 2_000);
  // Other projects are not limited by it.
  await t.notThrowsAsync(enroll.create({ ...machine, id: 'web-2', project: 'other' }));
});

test('without its options, enrolment by ticket is off, and the error names them', async (t) => {
  const stage = await startStage(t, null);
  const off = stage.bridge.enroll.create({ ...machine, format: 'none' });
  await t.throwsAsync(off, { code: 'ERR_ENROLL_OFF', message: /section/ });
  const bare = (await startStage(t, null, { config: { bridge: { enroll: {} } } })).bridge.enroll;
  await t.throwsAsync(bare.create(machine), { code: 'ERR_ENROLL_OFF', message: /masters/ });
  t.is((await bare.create({ ...machine, format: 'none' })).userData, '');
  const keys = bare.create({ ...machine, id: 'web-2', by: 'keys', format: 'none' });
  await t.throwsAsync(keys, { code: 'ERR_ENROLL_ARGS' });
  const grain = (await startStage(t)).bridge.enroll.create({ ...machine, by: 'grain' });
  await t.throwsAsync(grain, { code: 'ERR_ENROLL_OFF', message: /grain/ });
  const http = (await startStage(t, { url: 'http://127.0.0.1' })).bridge.enroll.create(machine);
  await t.throwsAsync(http, { code: 'ERR_ENROLL_OFF', message: /https/ });
});

const key = generateKeyPairSync('ed25519');
const claims: TicketClaims = {
  number: 'AAAAAAAAAAAAAAAAAAAAAA',
  minion: 'web-1',
  project: 'p1',
  expiresAt: 1_700_000_000_000,
};

test('a ticket contains what was signed', (t) => {
  const text = fc.string({ minLength: 1, maxLength: 40, unit: 'grapheme' });
  fc.assert(
    fc.property(text, text, fc.option(text, { nil: undefined }), (minion, project, instance) => {
      const said = { ...claims, minion, project, ...(instance === undefined ? {} : { instance }) };
      const read = tryParseTicket(signTicket(said, key.privateKey));
      t.deepEqual(read?.claims, said);
      t.true(read !== undefined && verifyTicket(read, key.publicKey));
    }),
    tries(25),
  );
});

test('a ticket of another key, or with another claim, is refused', (t) => {
  const ticket = signTicket(claims, key.privateKey);
  const other = generateKeyPairSync('ed25519');
  const read = tryParseTicket(ticket);
  t.false(read !== undefined && verifyTicket(read, other.publicKey));
  const [head, , signature] = ticket.split('.');
  const altered = Buffer.from(JSON.stringify({ ...claims, minion: 'web-2' })).toString('base64url');
  const forged = tryParseTicket([head, altered, signature].join('.'));
  t.is(forged?.claims.minion, 'web-2');
  t.false(forged !== undefined && verifyTicket(forged, key.publicKey));
});

test('a malformed ticket is refused', (t) => {
  const ticket = signTicket(claims, key.privateKey);
  const signed = (value: unknown): string =>
    `sbt1.${Buffer.from(JSON.stringify(value)).toString('base64url')}.${ticket.split('.')[2]}`;
  const wrong = [
    '',
    'sbt1',
    `${ticket}x`,
    `${ticket}\n`,
    ticket.replace('sbt1', 'sbt2'),
    signed(null),
    signed({ ...claims, number: '../../../etc/passwd' }),
    signed({ ...claims, expiresAt: '1' }),
    signed({ ...claims, more: 1 }),
    signed({ ...claims, minion: 'm'.repeat(3000) }),
  ];
  for (const text of wrong) t.is(tryParseTicket(text), undefined, text.slice(0, 40));
  fc.assert(
    fc.property(fc.string({ maxLength: 300 }), (text) => tryParseTicket(text) === undefined),
  );
});

test('the key file contains the seed of an Ed25519 pair', async (t) => {
  const file = path.join(temporaryDirectory(t), 'ticket.key');
  const seed = new Uint8Array(32).fill(7);
  writeFileSync(file, `${Buffer.from(seed).toString('base64')}\n`);
  const ticket = signTicket(claims, (await openTicketKey(file)).privateKey);
  const [head, body, signature = ''] = ticket.split('.');
  const { secretKey } = nacl.sign.keyPair.fromSeed(seed);
  const signed = nacl.sign.detached(new Uint8Array(Buffer.from(`${head}.${body}`)), secretKey);
  t.is(signature, Buffer.from(signed).toString('base64url'));
});

const ticketNumber = (index: number): string => String(index).padStart(22, '0');
const week = 7 * 86_400_000;

test('a spent ticket is on disk, and known after the file is opened again', async (t) => {
  const file = path.join(temporaryDirectory(t), 'spent');
  const first = await UsedTickets.open(file, () => 1000);
  await Promise.all([first.add(ticketNumber(1), 2000), first.add(ticketNumber(2), 2000)]);
  t.is(readFileSync(file, 'utf8').split('\n').length, 3);
  t.is(statSync(file).mode & 0o777, 0o600);
  await first.close();
  const second = await UsedTickets.open(file, () => 1000);
  t.deepEqual(
    [1, 2, 3].map((it) => second.has(ticketNumber(it))),
    [true, true, false],
  );
  await second.close();
});

test('enrolments that ended a week ago are removed, and so are torn lines', async (t) => {
  const file = path.join(temporaryDirectory(t), 'spent');
  const tickets = await UsedTickets.open(file, () => 1000);
  await tickets.add(ticketNumber(1), 2000);
  await tickets.add(ticketNumber(2), 5000);
  await tickets.close();
  writeFileSync(file, `${readFileSync(file, 'utf8')}${ticketNumber(3).slice(0, 9)}`);
  const later = await UsedTickets.open(file, () => 2000 + week);
  t.deepEqual(
    [1, 2].map((it) => later.has(ticketNumber(it))),
    [false, true],
  );
  t.is(readFileSync(file, 'utf8'), `${ticketNumber(2)} ${5000 + week}\n`);
  await later.close();
});

function numbered(): { made: number; make: () => Promise<KeyPairText> } {
  const counter = {
    made: 0,
    make: async () => {
      counter.made += 1;
      return { privatePem: `private ${counter.made}`, publicPem: `public ${counter.made}` };
    },
  };
  return counter;
}

test('no pair is issued twice, prepared or not', async (t) => {
  const { make } = numbered();
  const pairs = new KeyPairs({ bits: 2048, prepared: 3 }, make);
  await pairs.prepare();
  const taken = await Promise.all(Array.from({ length: 10 }, () => pairs.take('demo')));
  t.is(new Set(taken.map(({ publicPem }) => publicPem)).size, 10);
  await pairs.close();
});

test('the configured number of pairs is prepared, and refilled', async (t) => {
  const counter = numbered();
  const pairs = new KeyPairs({ bits: 2048, prepared: 3 }, counter.make);
  await pairs.prepare();
  t.is(counter.made, 3);
  await pairs.take('demo');
  await pairs.prepare();
  t.is(counter.made, 4);
  await pairs.close();
});

// Several transitions of one id begin at the same time. Their steps run in every order.

const id = 'web-1';
const fingerprint = fingerOf('minion');
const { publicPem } = pem('minion');
const ticketExpiresAt = 1000;
const enrolment: Enrolment = {
  number: 'A'.repeat(22),
  id,
  project: 'p1',
  by: 'claim',
  state: 'open',
  protocol: 3,
  createdAt: 0,
  ticketExpiresAt,
  deadline: ticketExpiresAt,
};
const { number, project } = enrolment;
const ticket = signTicket(
  { number, minion: id, project, expiresAt: ticketExpiresAt },
  key.privateKey,
);
const shown = { ticket, id, address: '192.0.2.7' };

/** The keys of a master and an enrolment. Each access to the disk is a step of the scheduler. */
interface ClaimFixture {
  readonly repository: EnrolmentRepository;
  readonly clock: { now: number };
  readonly held: () => HeldKey | undefined;
  /** Begins an act. An act that comes too late is not a failure. */
  readonly begin: (act: Act) => () => Promise<void>;
}

type Act = 'claim' | 'report' | 'retire' | 'show' | 'delete' | 'reject' | 'deadline';

async function createFixture(steps: Steps): Promise<ClaimFixture> {
  const mutex = new KeyedMutex();
  const clock = { now: 0 };
  let held: HeldKey | undefined;
  let isHeard = false;
  const set = async (state: HeldKey['state'] | undefined): Promise<void> => {
    await steps.next();
    const wasAccepted = held?.state === 'accepted';
    held = state && { state, publicKey: publicPem, fingerprint };
    if (!wasAccepted || state === 'accepted') return;
    isHeard = false;
    lost.push(transitions.keyLost(id));
  };
  const lost: Promise<void>[] = [];
  const admission: KeyLifecycle = {
    exclusive: (whose, work) => mutex.run(whose, work),
    takesId: () => true,
    keyOf: () => held,
    admit: () => set('accepted'),
    pin: () => steps.next(),
    quarantine: () => set('rejected'),
    retire: () => set(undefined),
    isHeard: () => isHeard,
    onHeard: () => () => {},
  };
  const follow = async (): Promise<void> => {};
  const state = { follow, cluster: undefined, write: async () => steps.next().then(() => 1) };
  const now = (): number => clock.now;
  const repository = await EnrolmentRepository.open(state, now);
  const transitions: EnrolmentTransitions = new EnrolmentTransitions({
    repository,
    spent: { add: () => steps.next() },
    admission,
    onRetire: () => steps.next(),
    onRelease: () => steps.next(),
    tell: () => {},
    now,
  });
  const claims = new TicketClaimHandler({
    repository,
    transitions,
    admission,
    rules: {
      publicKey: key.publicKey,
      find: (it) => repository.get(it),
      isSpent: () => false,
      now,
    },
    options: { takesGrains: false },
    tell: () => {},
    now,
  });
  const bursts = new AuditBursts({ audit: { append: () => {}, digest: async () => '' }, now });
  const deadlines = new EnrolmentDeadlines({
    repository,
    transitions,
    bursts,
    isActive: () => true,
    now,
    log: pino({ level: 'silent' }),
  });
  const acts: Readonly<Record<Act, () => Promise<unknown>>> = {
    claim: () => claims.claim({ ...shown, fingerprint }),
    report: () => claims.report({ ...shown, reason: 'no service' }),
    retire: () => admission.exclusive(id, () => transitions.retire(id)),
    // A sign-in runs these in this order, followed by the first request.
    show: async () => {
      await admission.exclusive(id, async () => {
        if (held?.state === 'accepted' || held?.state === 'rejected') return;
        const grains = {};
        const advised = await claims.advise({ id, publicKey: publicPem, address: '', grains });
        await set(advised === 'accept' ? 'accepted' : 'pending');
      });
      if (held?.state !== 'accepted') return;
      isHeard = true;
      await transitions.heard(id);
    },
    delete: () => admission.exclusive(id, () => set(undefined)),
    reject: async () => {
      await admission.exclusive(id, async () => {
        if (held?.state === 'accepted') await set('rejected');
      });
    },
    deadline: () => deadlines.endExpired(),
  };
  await steps.run([() => repository.put(enrolment)]);
  const begin = (act: Act) => async (): Promise<void> => {
    await acts[act]().catch((error: unknown) => {
      if (!(error instanceof BridgeError)) throw error;
    });
    await Promise.all(lost);
  };
  return { repository, clock, held: () => held, begin };
}

const mixes: readonly (readonly Act[])[] = [
  ['claim', 'report'],
  ['claim', 'retire'],
  ['claim', 'deadline'],
  ['claim', 'show', 'report'],
  ['claim', 'show', 'retire'],
  ['claim', 'show', 'delete', 'show'],
  ['claim', 'show', 'reject', 'report'],
];

test('for any order of transitions of an id, a key is accepted only while its enrolment is open', async (t) => {
  for (const acts of mixes) {
    for (let seed = 0; seed < 60; seed += 1) {
      const steps = createSteps(seed);
      const world = await createFixture(steps);
      // The key is already pending, so the claim accepts it.
      await steps.run([world.begin('show')]);
      if (acts.includes('deadline')) world.clock.now = ticketExpiresAt - (seed % 2);
      await steps.run(acts.map(world.begin));
      const goesOn = world.repository.liveOf(id)?.state;
      const isAccepted = world.held()?.state === 'accepted';
      const mayBe = goesOn === 'accepted' || goesOn === 'signed-in';
      const place = `${acts.join(', ')}, seed ${seed}: ${goesOn}`;
      t.true(isAccepted ? mayBe : goesOn !== 'signed-in', place);
    }
  }
});

test('a minion that signs in during a check of deadlines stays enrolled', async (t) => {
  for (let seed = 0; seed < 60; seed += 1) {
    const steps = createSteps(seed);
    const world = await createFixture(steps);
    await steps.run([world.begin('claim')]);
    world.clock.now = world.repository.liveOf(id)?.deadline ?? 0;
    await steps.run([world.begin('show'), world.begin('deadline')]);
    const state = world.repository.get(number)?.state;
    const isAccepted = world.held()?.state === 'accepted';
    t.is(isAccepted, state === 'signed-in', `seed ${seed}: ${state}`);
  }
});

test('a key that is deleted before its first proven request is not accepted again', async (t) => {
  const steps = createSteps(1);
  const world = await createFixture(steps);
  await steps.run([world.begin('claim')]);
  await steps.run([world.begin('delete')]);
  t.is(world.repository.get(number)?.state, 'accepted', 'there was none yet');
  await steps.run([world.begin('show')]);
  t.is(world.held()?.state, 'accepted');
  await steps.run([world.begin('delete')]);
  await steps.run([world.begin('show')]);
  t.is(world.held()?.state, 'pending');
  t.like(world.repository.get(number), {
    state: 'retired',
    reason: 'an operator deleted the key of the minion',
  });
});

// Enrolments over HTTP. The rules for each request depend on the id and the project that it names.

const rule = allow('enrols', {
  subject: { user: 'trove' },
  action: 'command',
  resource: {
    fun: 'bridge.enroll.*',
    arguments: [{ kwargs: { id: 'trove-*', project: 'shop' } }],
  },
});
const serviceMachine = { id: 'trove-1', project: 'shop', format: 'none' };

async function open(t: ExecutionContext, enroll: object = {}) {
  const bridge = createBridge();
  const { master } = await startVectorMaster(t, {
    startAt: Date.now(),
    keys: [],
    extensions: [bridge],
    config: {
      externalAuth: { sharedsecret: { trove: ['test.*'], sahara: ['test.*'] } },
      eauth: { sharedsecret: password },
      acl: { rules: [rule] },
      bridge: { enroll },
    },
  });
  const api = await createSaltApi(master, { host: '127.0.0.1', plugins: [bridge.http] });
  t.teardown(() => api.close());
  const { port } = await api.listen();
  const ask = (token: string, request: string, body?: object): Promise<ApiAnswer> => {
    const [method = '', path = ''] = request.split(' ');
    const headers = body === undefined ? { 'x-auth-token': token } : json(token);
    return send(port, { method, path: `/bridge/v1/${path}`, headers, body });
  };
  const tokenOf = async (username: string): Promise<string> =>
    (await master.logins.login({ username, password, eauth: 'sharedsecret' })).token;
  return { bridge, ask, tokenOf };
}

test('a service enrols and retires only machines that a rule permits, and sees no others', async (t) => {
  const { bridge, ask, tokenOf } = await open(t);
  const [trove, sahara] = [await tokenOf('trove'), await tokenOf('sahara')];
  const made = await ask(trove, 'POST enrolments', serviceMachine);
  t.is(made.status, 200, made.text);
  const [enrolment] = await bridge.enroll.list();
  t.like(made.json, { enrolment, userData: '' });
  const one = `enrolments/${enrolment?.number}`;
  t.deepEqual((await ask(trove, `GET ${one}`)).json, { ...enrolment });
  for (const [token, request, body, status] of [
    [sahara, 'POST enrolments', serviceMachine, 403],
    [trove, 'POST enrolments', { ...serviceMachine, id: 'web-1' }, 403],
    [trove, 'POST enrolments', { ...serviceMachine, project: 'other' }, 403],
    [trove, 'POST enrolments', { ...serviceMachine, more: 1 }, 400],
    ['', 'POST enrolments', serviceMachine, 401],
    [sahara, `GET ${one}`, undefined, 403],
    [sahara, `POST ${one}/retire`, {}, 403],
    ['', `GET ${one}`, undefined, 401],
    [trove, 'GET enrolments/none', undefined, 404],
  ] as const) {
    t.is((await ask(token, request, body)).status, status, request);
  }
  t.is((await bridge.enroll.list()).length, 1);
  t.is((await ask(trove, `POST ${one}/retire`, {})).status, 200);
  t.is((await bridge.enroll.show(enrolment?.number ?? '')).state, 'retired');
});

test('a service may raise the minimum protocol of a machine, but not lower it', async (t) => {
  const { bridge, ask, tokenOf } = await open(t, { protocol: 2 });
  const trove = await tokenOf('trove');
  for (const protocol of [0, 1]) {
    const refused = await ask(trove, 'POST enrolments', { ...serviceMachine, protocol });
    t.is(refused.status, 400);
    t.regex(refused.text, /protocol: .* requires 2 or more/);
  }
  t.deepEqual(await bridge.enroll.list(), []);
  for (const protocol of [2, 3]) {
    const { status } = await ask(trove, 'POST enrolments', { ...serviceMachine, protocol });
    t.is(status, 200);
  }
  const protocols = (await bridge.enroll.list()).map((it) => it.protocol);
  t.deepEqual(protocols, [2, 3]);
});
