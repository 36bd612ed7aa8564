/** Who may claim for a key with a ticket, and what becomes of minions that show one. */
import { generateKeyPairSync } from 'node:crypto';
import test from 'ava';
import { signTicket, tryParseTicket } from '../../../heat-bridge/enroll/tickets.ts';
import { BridgeError } from '../../../heat-bridge/index.ts';
import { createMemoryStore } from '../../../store/index.ts';
import { auditRecords } from '../../helpers/audit-records.ts';
import { within } from '../../helpers/deadline.ts';
import { copyOf, fingerOf, signIn, startStage } from './stage.ts';

const machine = { id: 'web-1', project: 'p1' };

test('a key that waits is accepted by a claim, and its minion is heard in protocol 3 only', async (t) => {
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

test('a key that is claimed for before it is shown is accepted when it is', async (t) => {
  const stage = await startStage(t);
  const { ticket, enrolment } = await stage.bridge.enroll.create({ ...machine, protocol: 0 });
  const fingerprint = fingerOf('minion').replaceAll(':', '').toUpperCase();
  t.is((await stage.post('claim', { ticket, id: 'web-1', fingerprint })).status, 200);
  t.is(await stage.key('web-1'), undefined);
  await within('the sign-in', stage.minion('web-1').start());
  await within('its end', stage.bridge.enroll.signedIn(enrolment.number));
  t.pass();
});

test('another key than the one that was claimed for is denied, and told', async (t) => {
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

test("a stranger's key that waits under the id gives way to the one that is claimed for", async (t) => {
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

test("a machine whose key is shown behind a stranger's waits until it has claimed", async (t) => {
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

test('an alarm that is made again and again is one event and two records a minute', async (t) => {
  const stage = await startStage(t);
  const { ticket } = await stage.bridge.enroll.create(machine);
  const body = { ticket, id: 'web-1', fingerprint: fingerOf('minion') };
  t.is((await stage.post('claim', body)).status, 200);
  const stolen = { ...body, fingerprint: fingerOf('other_minion') };
  const end = new AbortController();
  const told = stage.master.events.subscribe({ match: '*/enroll/alarm' }, end.signal);
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

test('tickets that an address shows in vain are bounded', async (t) => {
  const stage = await startStage(t);
  const { ticket } = await stage.bridge.enroll.create(machine);
  const forger = generateKeyPairSync('ed25519').privateKey;
  const claims = tryParseTicket(ticket)?.claims;
  const forged = claims && signTicket(claims, forger);
  const body = { id: 'web-1', fingerprint: fingerOf('minion') };
  const codes = new Set<string | undefined>();
  for (let index = 0; index < 70; index += 1) {
    const path = index % 2 === 0 ? 'claim' : 'failure';
    const more = path === 'claim' ? body : { id: 'web-1', reason: 'none' };
    codes.add((await stage.post(path, { ...more, ticket: forged })).code);
  }
  t.deepEqual([...codes], ['ERR_TICKET', 'ERR_EAUTH_LIMIT']);
});

test('a ticket is good for nothing but what it was made for', async (t) => {
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

test('a ticket is good until its time, and once', async (t) => {
  const stage = await startStage(t);
  const fingerprint = fingerOf('minion');
  const late = await stage.bridge.enroll.create({ ...machine, id: 'late', lifetime: 60 });
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

test('of claims at the same time one is heard', async (t) => {
  const stage = await startStage(t);
  const { ticket } = await stage.bridge.enroll.create(machine);
  const fingers = [fingerOf('minion'), fingerOf('other_minion'), fingerOf('minion2')];
  const answers = await Promise.all(
    fingers.map((fingerprint) => stage.post('claim', { ticket, id: 'web-1', fingerprint })),
  );
  t.is(answers.filter(({ status }) => status === 200).length, 1);
});

test('a spent ticket stays so when its key is deleted, and when the store is put back', async (t) => {
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

test('an id that has a key, or that another project enrols, is not given away', async (t) => {
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

test('a machine that cannot be a minion says why, and leaves no key', async (t) => {
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

test('no more enrolments are open than may be', async (t) => {
  const { enroll } = (await startStage(t, { max_open: 1 })).bridge;
  await enroll.create(machine);
  const another = enroll.create({ ...machine, id: 'web-2' });
  await t.throwsAsync(another, { instanceOf: BridgeError, code: 'ERR_ENROLL_FULL' });
  await enroll.retire({ id: 'web-1' });
  await t.notThrowsAsync(enroll.create({ ...machine, id: 'web-2' }));
});

test('without its options enrolment by ticket is off, and says what it wants', async (t) => {
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
