/** Registrations that wait for others of the same name while the right of their owner ends. */

import test, { type ExecutionContext } from 'ava';
import fastify, { type FastifyInstance } from 'fastify';
import Type from 'typebox';
import { allow, decide, type PolicyRule, type Question, type Subject } from '#acl';
import { DataSpaces } from '#guests/data-spaces/data-spaces.ts';
import { StackRegistry } from '#guests/deployments/stacks.ts';
import type { EnrolRequest, NewEnrolment } from '#heat-bridge/enroll/enrolment.ts';
import { addServiceRoutes } from '#heat-bridge/enroll/enrolment-routes.ts';
import {
  addRegistrationRoutes,
  type RegistrationRoutes,
} from '#heat-bridge/http/registration-routes.ts';
import type { RegistrationChecks } from '#heat-bridge/registrations.ts';
import { HandleRegistry } from '#heat-bridge/signals/handles.ts';
import { AuthorizationError, type ExtensionHost, type SharedArea } from '#master';
import { policyOf } from '../helpers/policies.ts';
import { startStage } from './enroll/stage.ts';
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

/** Token holder of a test whose user, and whose token, can change while a registration waits. */
class ChangingHolder {
  readonly ended = new AbortController();
  groups: readonly string[] = ['staff'];
  stops = 0;

  get subject(): Subject {
    return { kind: 'user', name: 'a', groups: this.groups, eauth: 'pam' };
  }
}

/** Routes of a kind of registrations, as they are added to a server. */
interface LateRoutes {
  /** Right that a request needs. */
  readonly right: string;
  readonly url: string;
  readonly payload: object;
  /**
   * Adds the routes.
   * @param store - called with each registration when it is about to be stored
   */
  readonly add: (
    app: FastifyInstance,
    host: Pick<ExtensionHost, 'decide' | 'holdToken'>,
    store: (registration: object, checks: RegistrationChecks | undefined) => void,
  ) => void;
}

const unused = async (): Promise<never> => {
  throw new Error('not used');
};
const doors = { tokenOf: () => 'token' };

const things: LateRoutes = {
  ...{ right: 'thing.add', url: '/things', payload: { name: 'x' } },
  add: (app, host, store) => {
    const kind: RegistrationRoutes<object, object, object> = {
      ...{ collection: 'things', key: 'name', right: 'thing.add', rule: 'own-thing' },
      ...{ formError: 'ERR_STACK_FORM', bodyLimit: 1_000 },
      summaries: { add: 'a', replace: 'r', list: 'l', show: 's', remove: 'd' },
      ...{ body: Type.Object({}), info: Type.Object({}), details: Type.Object({}) },
      read: (registration) => ({ registration, minions: ['m1'] }),
      as: () => ({
        add: async (registration, checks) => {
          store(registration, checks);
          return registration;
        },
        ...{ list: unused, show: unused, remove: unused },
      }),
    };
    addRegistrationRoutes(app, doors, host, kind);
  },
};

const enrolments: LateRoutes = {
  ...{ right: 'bridge.enroll.create', url: '/enrolments', payload: { id: 'm1', project: 'p1' } },
  add: (app, host, store) => {
    const api = {
      create: async (request: EnrolRequest, checks?: RegistrationChecks): Promise<NewEnrolment> => {
        store(request, checks);
        const { id, project } = request;
        const common = { number: '1', by: 'claim', state: 'open', protocol: 3 } as const;
        return { enrolment: { ...common, id, project, createdAt: 0 }, ticket: '', userData: '' };
      },
      ...{ show: unused, retire: unused },
    };
    addServiceRoutes(app, doors, { ...host, asked: { noteOfActor: () => {} } }, api);
  },
};

/** Sends a request to register. `change` runs while the registration waits. */
async function registerWhile(
  t: ExecutionContext,
  routes: LateRoutes,
  change: (holder: ChangingHolder) => void,
  more: Pick<PolicyRule, 'rate'> = {},
): Promise<{
  readonly answer: { readonly statusCode: number; readonly body: string };
  readonly stored: readonly object[];
  readonly holder: ChangingHolder;
}> {
  const rule = allow('r', {
    subject: { group: 'staff' },
    action: 'command',
    resource: { fun: routes.right },
    ...more,
  });
  const policy = policyOf([rule]);
  const holder = new ChangingHolder();
  const host = {
    holdToken: async () => ({
      get subject() {
        return holder.subject;
      },
      policy,
      ended: holder.ended.signal,
      stop: () => {
        holder.stops += 1;
      },
    }),
    decide: (question: Question) => decide(question, policy),
  };
  const stored: object[] = [];
  const app = fastify();
  t.teardown(() => app.close());
  app.setErrorHandler((error, _request, reply) => reply.code(403).send(String(error)));
  routes.add(app, host, (registration, { requirePermission } = {}) => {
    change(holder);
    requirePermission?.();
    stored.push(registration);
  });
  const { url, payload } = routes;
  const answer = await app.inject({ method: 'POST', url, payload });
  return { answer, stored, holder };
}

for (const [what, routes] of [
  ['register', things],
  ['enrol a machine', enrolments],
] as const) {
  test(`an HTTP request to ${what} is judged again before anything is stored`, async (t) => {
    const unchanged = await registerWhile(t, routes, () => {});
    t.is(unchanged.answer.statusCode, 200);
    t.is(unchanged.stored.length, 1);
    const left = await registerWhile(t, routes, (holder) => {
      holder.groups = [];
    });
    t.regex(left.answer.body, /no rule permits .* action (thing\.add|bridge\.enroll\.create)/);
    const ended = await registerWhile(t, routes, (holder) => holder.ended.abort());
    t.regex(ended.answer.body, /the token has expired or was revoked/);
    t.deepEqual([left.stored, ended.stored], [[], []]);
  });

  test(`an HTTP request to ${what} counts once towards the rate of its rule`, async (t) => {
    const { answer, stored } = await registerWhile(t, routes, () => {}, { rate: '1/minute' });
    t.is(answer.statusCode, 200, answer.body);
    t.is(stored.length, 1);
  });

  test(`an HTTP request to ${what} watches its token until it ends`, async (t) => {
    const stops: number[] = [];
    const { holder } = await registerWhile(t, routes, ({ stops: before }) => stops.push(before));
    t.deepEqual([...stops, holder.stops], [0, 1]);
  });
}

test('an enrolment that waits is refused if its owner may no longer enrol', async (t) => {
  const { bridge } = await startStage(t);
  const ticket = new Ticket();
  const created = bridge.enroll.create({ id: 'web-1', project: 'p1' }, ticket);
  ticket.isValid = false;
  await t.throwsAsync(created, denied);
  t.deepEqual(await bridge.enroll.list(), []);
});

test('the user-data of an enrolment is judged before the enrolment waits for its id', async (t) => {
  const { bridge } = await startStage(t);
  const request = { id: 'web-1', project: 'p1', beside: '#cloud-config\nsalt_minion: {}\n' };
  let waited = 0;
  const created = bridge.enroll.create(request, {
    requirePermission: () => {
      waited += 1;
    },
  });
  await t.throwsAsync(created, { code: 'ERR_ENROLL_ARGS', message: /cannot merge/ });
  t.is(waited, 0);
  t.deepEqual(await bridge.enroll.list(), []);
});
