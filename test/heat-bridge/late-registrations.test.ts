/** Registrations that wait for others of the same name while the right of their owner ends. */

import test from 'ava';
import fastify from 'fastify';
import Type from 'typebox';
import { allow, type Question } from '#acl';
import { DataSpaces } from '#guests/data-spaces/data-spaces.ts';
import { StackRegistry } from '#guests/deployments/stacks.ts';
import {
  addRegistrationRoutes,
  type RegistrationRoutes,
} from '#heat-bridge/http/registration-routes.ts';
import { HandleRegistry } from '#heat-bridge/signals/handles.ts';
import { AuthorizationError, type SharedArea } from '#master';
import { policyOf } from '../helpers/policies.ts';
import { memoryState } from './signals/open-signals.ts';

const owner = 'project:a';
const denied = { code: 'ERR_DENIED' } as const;

/** Ticket for a minion. Its owner may register the minion while the ticket is valid. */
class Ticket {
  isValid = true;

  readonly requirePermission = (): void => {
    if (!this.isValid) throw new AuthorizationError('the ticket has ended');
  };
}

/** Registry of one kind. */
interface Registry {
  add(minion: string, ticket: Ticket): Promise<unknown>;
  dismiss(minion: string): Promise<unknown>;
  /** Returns the minions that registrations name. */
  minions(): readonly string[];
}

async function openHandles(state: SharedArea): Promise<Registry> {
  const handles = await HandleRegistry.open({
    state,
    endpoints: new Map(),
    membership: {
      hasNodegroup: () => false,
      isInNodegroup: () => false,
      projectOf: () => undefined,
    },
    handleTtlMs: 1_000_000,
    bytes: { total: 1_000_000, perOwner: 1_000_000 },
    now: Date.now,
  });
  const signal = { endpoint: 'https://heat/signal', token: 'tOken' };
  return {
    add: (minion, ticket) =>
      handles.add({ alias: 'ready', owner, minions: [minion], signal }, true, ticket),
    dismiss: (minion) => handles.dismiss(minion, owner),
    minions: () => handles.list().flatMap((it) => it.minions),
  };
}

async function openStacks(state: SharedArea): Promise<Registry> {
  const stacks = await StackRegistry.open({ state, isListed: () => true, now: Date.now });
  const whose = { owner, subject: { kind: 'service', name: 'x' } } as const;
  const collect = { request: { metadata_url: 'https://swift/' } };
  return {
    add: (minion, ticket) =>
      stacks.add(
        { name: 'shop', minions: [minion], servers: [{ server: 'x', collect }] },
        whose,
        true,
        ticket,
      ),
    dismiss: (minion) => stacks.dismiss(minion, owner),
    minions: () => stacks.all.flatMap(({ registration }) => registration.minions ?? []),
  };
}

async function openSpaces(state: SharedArea): Promise<Registry> {
  const closing = new AbortController().signal;
  const spaces = await DataSpaces.open({ state, forget: async () => {}, closing, now: Date.now });
  return {
    add: (minion, ticket) =>
      spaces.add({ name: 'shop', roles: { web: { minions: [minion] } } }, owner, true, ticket),
    dismiss: (minion) => spaces.dismiss(minion, owner),
    minions: () =>
      spaces.all.flatMap(({ roles }) => Object.values(roles).flatMap((it) => it.minions)),
  };
}

for (const [kind, open] of [
  ['handle', openHandles],
  ['stack', openStacks],
  ['data space', openSpaces],
] as const) {
  test(`a ${kind} that waits is refused if its owner may no longer register it`, async (t) => {
    const registry = await open(memoryState());
    const ticket = new Ticket();
    const others = Array.from({ length: 20 }, (_, at) => registry.add(`own-${at}`, new Ticket()));
    const late = t.throwsAsync(registry.add('victim', ticket), denied);
    ticket.isValid = false;
    await registry.dismiss('victim');
    await Promise.all([...others, late]);
    t.deepEqual(registry.minions(), ['own-19']);
  });
}

/** Ends the right to register a minion while its registration is being stored. */
async function endWhileStoring(
  open: (state: SharedArea) => Promise<Registry>,
): Promise<readonly string[]> {
  const state = memoryState();
  const writing = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const registry = await open({
    ...state,
    write: async (operations) => {
      writing.resolve();
      await finish.promise;
      return state.write(operations);
    },
  });
  const added = registry.add('victim', new Ticket());
  await writing.promise;
  const dismissed = registry.dismiss('victim');
  finish.resolve();
  await Promise.all([added, dismissed]);
  return registry.minions();
}

test('a stack that is being stored does not outlast the end of the right', async (t) => {
  t.deepEqual(await endWhileStoring(openStacks), []);
});

test('a handle or data space that is being stored does not outlast the end of the right', async (t) => {
  t.deepEqual(await endWhileStoring(openHandles), []);
  t.deepEqual(await endWhileStoring(openSpaces), []);
});

test('an HTTP request to register asks for the right again before the registration is stored', async (t) => {
  const questions: Question[] = [];
  const subject = { kind: 'user', name: 'a', groups: [], eauth: 'pam' } as const;
  const rule = allow('r', {
    subject: { user: 'a' },
    action: 'command',
    resource: { fun: 'thing.add' },
  });
  const host = {
    holdToken: async () => ({
      subject,
      policy: policyOf([rule]),
      ended: new AbortController().signal,
      stop: () => {},
    }),
    decide: (question: Question) => {
      questions.push(question);
      // The right ends after the first question.
      const effect = questions.length === 1 ? 'allow' : 'deny';
      return { effect, rule: 'r', reason: '' } as const;
    },
  };
  const stored: object[] = [];
  const unused = async (): Promise<never> => {
    throw new Error('not used');
  };
  const app = fastify();
  const kind: RegistrationRoutes<object, object, object> = {
    ...{ collection: 'things', key: 'name', right: 'thing.add', rule: 'own-thing' },
    ...{ formError: 'ERR_STACK_FORM', bodyLimit: 1_000 },
    summaries: { add: 'a', replace: 'r', list: 'l', show: 's', remove: 'd' },
    ...{ body: Type.Object({}), info: Type.Object({}), details: Type.Object({}) },
    read: (registration) => ({ registration, minions: ['m1'] }),
    as: () => ({
      add: async (registration, { requirePermission } = {}) => {
        requirePermission?.();
        stored.push(registration);
        return registration;
      },
      ...{ list: unused, show: unused, remove: unused },
    }),
  };
  addRegistrationRoutes(app, { tokenOf: () => 'token' }, host, kind);
  const answer = await app.inject({ method: 'POST', url: '/things', payload: { name: 'x' } });
  t.not(answer.statusCode, 200);
  t.regex(answer.body, /no rule permits this caller to perform the action thing\.add/);
  t.deepEqual(stored, []);
  t.is(questions.length, 2);
  t.deepEqual(questions[1], questions[0]);
  await app.close();
});
