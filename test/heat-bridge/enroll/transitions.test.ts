/** Transitions of one id that are begun at the same time, in every order of their steps. */
import { generateKeyPairSync } from 'node:crypto';
import test from 'ava';
import { pino } from 'pino';
import type { Enrolment } from '../../../heat-bridge/enroll/enrolment.ts';
import { EnrolmentRepository } from '../../../heat-bridge/enroll/enrolment-repository.ts';
import {
  EnrolmentDeadlines,
  EnrolmentTransitions,
} from '../../../heat-bridge/enroll/enrolment-transitions.ts';
import { TicketClaimHandler } from '../../../heat-bridge/enroll/ticket-claims.ts';
import { signTicket } from '../../../heat-bridge/enroll/tickets.ts';
import { BridgeError } from '../../../heat-bridge/index.ts';
import { AuditBursts, type HeldKey, type KeyLifecycle } from '../../../master/index.ts';
import { KeyedMutex } from '../../../runtime/index.ts';
import { createSteps, type Steps } from '../../helpers/steps.ts';
import { pem } from '../../helpers/vectors.ts';
import { fingerOf } from './stage.ts';

const key = generateKeyPairSync('ed25519');
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

/** The keys of a master, and an enrolment; whatever is asked of a disk is a step. */
interface World {
  readonly book: EnrolmentRepository;
  readonly clock: { now: number };
  readonly held: () => HeldKey | undefined;
  /** Being too late is no failure. */
  readonly begin: (act: Act) => () => Promise<void>;
}

type Act = 'claim' | 'report' | 'retire' | 'show' | 'delete' | 'reject' | 'deadline';

async function createWorld(steps: Steps): Promise<World> {
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
    lost.push(moves.keyLost(id));
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
  const nothing: AsyncIterable<never> = { async *[Symbol.asyncIterator]() {} };
  const state = { list: () => nothing, write: async () => steps.next().then(() => 1) };
  const now = (): number => clock.now;
  const book = await EnrolmentRepository.open(state, now);
  const moves: EnrolmentTransitions = new EnrolmentTransitions({
    book,
    spent: { add: () => steps.next() },
    admission,
    onRetire: () => steps.next(),
    tell: () => {},
    now,
  });
  const claims = new TicketClaimHandler({
    book,
    moves,
    admission,
    rules: { publicKey: key.publicKey, find: (it) => book.get(it), isSpent: () => false, now },
    takesGrains: false,
    tell: () => {},
  });
  const bursts = new AuditBursts({ audit: { append: () => {}, digest: async () => '' }, now });
  const deadlines = new EnrolmentDeadlines({
    book,
    moves,
    bursts,
    now,
    log: pino({ level: 'silent' }),
  });
  const acts: Readonly<Record<Act, () => Promise<unknown>>> = {
    claim: () => claims.claim({ ...shown, fingerprint }),
    report: () => claims.report({ ...shown, reason: 'no service' }),
    retire: () => admission.exclusive(id, () => moves.retire(id)),
    // As a sign-in does it, and the first request after it.
    show: async () => {
      await admission.exclusive(id, async () => {
        if (held?.state === 'accepted' || held?.state === 'rejected') return;
        const grains = {};
        const advised = await claims.advise({ id, publicKey: publicPem, address: '', grains });
        await set(advised === 'accept' ? 'accepted' : 'pending');
      });
      if (held?.state !== 'accepted') return;
      isHeard = true;
      await moves.heard(id);
    },
    delete: () => admission.exclusive(id, () => set(undefined)),
    reject: async () => {
      await admission.exclusive(id, async () => {
        if (held?.state === 'accepted') await set('rejected');
      });
    },
    deadline: () => deadlines.endExpired(),
  };
  await steps.run([() => book.put(enrolment)]);
  const begin = (act: Act) => async (): Promise<void> => {
    await acts[act]().catch((error: unknown) => {
      if (!(error instanceof BridgeError)) throw error;
    });
    await Promise.all(lost);
  };
  return { book, clock, held: () => held, begin };
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

test('however transitions of an id interleave, a key is accepted only while its enrolment goes on', async (t) => {
  for (const acts of mixes) {
    for (let seed = 0; seed < 60; seed += 1) {
      const steps = createSteps(seed);
      const world = await createWorld(steps);
      // It waits already, so that a claim is what accepts it.
      await steps.run([world.begin('show')]);
      if (acts.includes('deadline')) world.clock.now = ticketExpiresAt - (seed % 2);
      await steps.run(acts.map(world.begin));
      const goesOn = world.book.liveOf(id)?.state;
      const isAccepted = world.held()?.state === 'accepted';
      const mayBe = goesOn === 'accepted' || goesOn === 'signed-in';
      const place = `${acts.join(', ')}, seed ${seed}: ${goesOn}`;
      t.true(isAccepted ? mayBe : goesOn !== 'signed-in', place);
    }
  }
});

test('a minion that signs in while deadlines are looked at goes on', async (t) => {
  for (let seed = 0; seed < 60; seed += 1) {
    const steps = createSteps(seed);
    const world = await createWorld(steps);
    await steps.run([world.begin('claim')]);
    world.clock.now = world.book.liveOf(id)?.deadline ?? 0;
    await steps.run([world.begin('show'), world.begin('deadline')]);
    const state = world.book.get(number)?.state;
    const isAccepted = world.held()?.state === 'accepted';
    t.is(isAccepted, state === 'signed-in', `seed ${seed}: ${state}`);
  }
});

test('a key that is deleted before its first proven request is not accepted again', async (t) => {
  const steps = createSteps(1);
  const world = await createWorld(steps);
  await steps.run([world.begin('claim')]);
  await steps.run([world.begin('delete')]);
  t.is(world.book.get(number)?.state, 'accepted', 'there was none yet');
  await steps.run([world.begin('show')]);
  t.is(world.held()?.state, 'accepted');
  await steps.run([world.begin('delete')]);
  await steps.run([world.begin('show')]);
  t.is(world.held()?.state, 'pending');
  t.like(world.book.get(number), { state: 'retired', reason: 'its key was deleted' });
});
