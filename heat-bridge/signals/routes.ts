/** Handles and outbox over HTTP, for services: each has its own, and sees no others. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Subject } from '../../acl/index.ts';
import {
  type AuditRequester,
  AuthorizationError,
  actorOf,
  type ExtensionHost,
} from '../../master/index.ts';
import { BridgeError } from '../errors.ts';
import type { HttpDoors } from '../http/doors.ts';
import { checkedRegistration, type HandleInfo, type HandleRegistration } from './handle.ts';
import type { OpenSignals } from './open.ts';
import { signalOperations as about } from './operations.ts';
import type { SignalsApi } from './signals-api.ts';

/** What the routes ask of their master. */
export type RoutesHost = Pick<ExtensionHost, 'decide' | 'holdToken'>;

/** What a rule of the action `command` calls the right to register handles. */
const registering = 'bridge.handle.add';
const bodyLimit = 1_048_576;

interface OfAlias {
  readonly Params: { readonly alias: string };
}

/**
 * `POST handles` and `PUT handles/<alias>` (replaces), `GET handles`, `GET` and `DELETE
 * handles/<alias>`; `GET`, `DELETE handles/<alias>/outbox` and `POST handles/<alias>/outbox/retry`.
 * Whoever registers a handle must be permitted `command` of `bridge.handle.add` within all of its
 * minions; the handle is theirs, and nobody else's over HTTP.
 */
export function addSignalRoutes(
  app: FastifyInstance,
  doors: HttpDoors,
  host: RoutesHost,
  signals: Pick<OpenSignals, 'as'>,
): void {
  const owned = async (request: FastifyRequest<OfAlias>): Promise<Owned> => {
    const { subject, stop } = await holderOf(request, doors, host);
    stop();
    const api = signals.as({ who: actorOf(subject), rule: 'own-handle' });
    const owner = nameOf(subject);
    // Another's is as unknown as one that is not there.
    // protection: handles-of-others
    const info = await api.handles.show(request.params.alias, { owner });
    return { api, info, selection: { alias: info.alias, owner } };
  };
  const add = async (
    request: FastifyRequest,
    given: object,
    replaces: boolean,
  ): Promise<HandleInfo> => {
    const { registration, by } = await mayRegister(request, doors, host, given);
    return signals.as(by).handles.add(registration, { replaces });
  };
  app.post('/handles', { bodyLimit, config: about.add }, (request) =>
    add(request, asMap(request.body), false),
  );
  app.put<OfAlias>('/handles/:alias', { bodyLimit, config: about.replace }, (request) =>
    add(request, { ...asMap(request.body), alias: request.params.alias }, true),
  );
  app.get('/handles', { config: about.list }, async (request) => {
    const { subject, stop } = await holderOf(request, doors, host);
    stop();
    const api = signals.as({ who: actorOf(subject), rule: 'own-handle' });
    return api.handles.list({ owner: nameOf(subject) });
  });
  app.get<OfAlias>(
    '/handles/:alias',
    { config: about.show },
    async (request) => (await owned(request)).info,
  );
  app.delete<OfAlias>('/handles/:alias', { config: about.remove }, async (request) => {
    const { api, selection } = await owned(request);
    return api.handles.remove(selection.alias, selection);
  });
  addOutboxRoutes(app, owned);
}

/** A handle of whoever asks. */
interface Owned {
  readonly api: SignalsApi;
  readonly info: HandleInfo;
  readonly selection: { readonly alias: string; readonly owner: string };
}

function addOutboxRoutes(
  app: FastifyInstance,
  owned: (request: FastifyRequest<OfAlias>) => Promise<Owned>,
): void {
  app.get<OfAlias>('/handles/:alias/outbox', { config: about.outbox }, async (request) => {
    const { api, selection } = await owned(request);
    return api.outbox.list(selection);
  });
  app.delete<OfAlias>('/handles/:alias/outbox', { config: about.drop }, async (request) => {
    const { api, selection } = await owned(request);
    return api.outbox.drop(selection);
  });
  app.post<OfAlias>('/handles/:alias/outbox/retry', { config: about.retry }, async (request) => {
    const { api, selection } = await owned(request);
    return api.outbox.retry(selection);
  });
}

/** @throws AuthorizationError ERR_DENIED, BridgeError ERR_HANDLE_FORM */
async function mayRegister(
  request: FastifyRequest,
  doors: HttpDoors,
  host: RoutesHost,
  given: object,
): Promise<{ readonly registration: HandleRegistration; readonly by: AuditRequester }> {
  const { subject, policy, stop } = await holderOf(request, doors, host);
  stop();
  // Its form is looked at before anything is asked of it.
  const registration = checkedRegistration({ ...given, owner: nameOf(subject) });
  const resource = {
    call: { fun: registering, args: [], kwargs: new Map<string, string>() },
    minions: registration.minions,
  };
  const { effect, rule } = host.decide({ subject, action: 'command', resource }, policy);
  if (effect === 'allow') return { registration, by: { who: actorOf(subject), rule } };
  throw new AuthorizationError(`no rule permits ${registering} for all of these minions`);
}

function holderOf(
  request: FastifyRequest,
  doors: HttpDoors,
  host: RoutesHost,
): ReturnType<RoutesHost['holdToken']> {
  // What is no token of anybody is refused there, in the words for all of them.
  return host.holdToken(doors.tokenOf(request) ?? '');
}

/** A name that no other subject has. */
function nameOf(subject: Subject): string {
  switch (subject.kind) {
    case 'minion':
      return `minion:${subject.id}`;
    case 'user':
      return `user:${subject.eauth ?? ''}:${subject.name}`;
    case 'project':
      // Whoever acts for it.
      return `project:${subject.project.id}`;
    default:
      return `${subject.kind}:${subject.name}`;
  }
}

function asMap(body: unknown): object {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body;
  throw new BridgeError('ERR_HANDLE_FORM', 'the body: expected a map');
}
