/** Handles and outbox over HTTP, for services: each has its own, and sees no others. */

import type { FastifyInstance, FastifyRequest } from 'fastify';
import {
  type AuditRequester,
  AuthorizationError,
  actorOf,
  type ExtensionHost,
  type HttpServerContext,
} from '#master';
import { BridgeError } from '../errors.ts';
import { ownerNameOf, tokenHolderOf } from '../http/token-holder.ts';
import {
  type HandleInfo,
  type HandleRegistration,
  isForGroups,
  parseHandleRegistration,
} from './handles.ts';
import type { SignalsModule } from './open-signals.ts';
import { signalRouteSchemas } from './signal-route-schemas.ts';
import type { SignalsApi } from './signals-api.ts';

/** What the routes ask of their master. */
export type SignalRoutesHost = Pick<ExtensionHost, 'decide' | 'holdToken'>;

/** What a rule of the action `command` calls the right to register handles. */
const registerRight = 'bridge.handle.add';
const bodyLimit = 1_048_576;

interface AliasParams {
  readonly Params: { readonly alias: string };
  readonly Querystring: { readonly stack?: string };
}

/**
 * `POST handles` and `PUT handles/<alias>` (replaces), `GET handles`, `GET` and `DELETE
 * handles/<alias>`; `GET`, `DELETE handles/<alias>/outbox` and `POST handles/<alias>/outbox/retry`.
 * Whoever registers a handle must be permitted `command` of `bridge.handle.add` within all of its
 * minions, of any minion where it is for groups; the handle is theirs, and nobody else's over HTTP.
 */
export function addSignalRoutes(
  app: FastifyInstance,
  doors: HttpServerContext,
  host: SignalRoutesHost,
  signals: Pick<SignalsModule, 'as'>,
): void {
  const owned = async (request: FastifyRequest<AliasParams>): Promise<OwnedHandle> => {
    const { subject, stop } = await tokenHolderOf(request, doors, host);
    stop();
    const api = signals.as({ who: actorOf(subject), rule: 'own-handle' });
    const owner = ownerNameOf(subject);
    // Another's is as unknown as one that is not there.
    const { stack } = request.query;
    const of = { owner, ...(stack === undefined ? {} : { stack }) };
    const info = await api.handles.show(request.params.alias, of);
    return { api, info, selection: { alias: info.alias, owner } };
  };
  const add = async (
    request: FastifyRequest,
    given: object,
    replaces: boolean,
  ): Promise<HandleInfo> => {
    const { registration, by } = await authorizeRegistration(request, doors, host, given);
    return signals.as(by).handles.add(registration, { replaces });
  };
  app.post('/handles', { bodyLimit, schema: signalRouteSchemas.add }, (request) =>
    add(request, requireMap(request.body), false),
  );
  app.put<AliasParams>(
    '/handles/:alias',
    { bodyLimit, schema: signalRouteSchemas.replace },
    (request) => add(request, { ...requireMap(request.body), alias: request.params.alias }, true),
  );
  app.get('/handles', { schema: signalRouteSchemas.list }, async (request) => {
    const { subject, stop } = await tokenHolderOf(request, doors, host);
    stop();
    const api = signals.as({ who: actorOf(subject), rule: 'own-handle' });
    return api.handles.list({ owner: ownerNameOf(subject) });
  });
  app.get<AliasParams>(
    '/handles/:alias',
    { schema: signalRouteSchemas.show },
    async (request) => (await owned(request)).info,
  );
  app.delete<AliasParams>(
    '/handles/:alias',
    { schema: signalRouteSchemas.remove },
    async (request) => {
      const { api, info, selection } = await owned(request);
      return api.handles.remove(info.alias, { owner: selection.owner, stack: info.stack });
    },
  );
  addOutboxRoutes(app, owned);
}

/** A handle of whoever asks. */
interface OwnedHandle {
  readonly api: SignalsApi;
  readonly info: HandleInfo;
  readonly selection: { readonly alias: string; readonly owner: string };
}

function addOutboxRoutes(
  app: FastifyInstance,
  owned: (request: FastifyRequest<AliasParams>) => Promise<OwnedHandle>,
): void {
  app.get<AliasParams>(
    '/handles/:alias/outbox',
    { schema: signalRouteSchemas.outbox },
    async (request) => {
      const { api, selection } = await owned(request);
      return api.outbox.list(selection);
    },
  );
  app.delete<AliasParams>(
    '/handles/:alias/outbox',
    { schema: signalRouteSchemas.drop },
    async (request) => {
      const { api, selection } = await owned(request);
      return api.outbox.drop(selection);
    },
  );
  app.post<AliasParams>(
    '/handles/:alias/outbox/retry',
    { schema: signalRouteSchemas.retry },
    async (request) => {
      const { api, selection } = await owned(request);
      return api.outbox.retry(selection);
    },
  );
}

/** @throws AuthorizationError ERR_DENIED, BridgeError ERR_HANDLE_FORM */
async function authorizeRegistration(
  request: FastifyRequest,
  doors: HttpServerContext,
  host: SignalRoutesHost,
  given: object,
): Promise<{ readonly registration: HandleRegistration; readonly by: AuditRequester }> {
  const { subject, policy, stop } = await tokenHolderOf(request, doors, host);
  stop();
  // Its form is looked at before anything is asked of it.
  const registration = parseHandleRegistration({ ...given, owner: ownerNameOf(subject) });
  const { minions } = registration;
  const resource = {
    call: { fun: registerRight, args: [], kwargs: new Map<string, string>() },
    // Who will be in a group is not known: only a rule for any minion permits it.
    ...(minions === undefined || isForGroups(registration) ? {} : { minions }),
  };
  const { effect, rule } = host.decide({ subject, action: 'command', resource }, policy);
  if (effect === 'allow') return { registration, by: { who: actorOf(subject), rule } };
  throw new AuthorizationError(`no rule permits ${registerRight} for all of these minions`);
}

function requireMap(body: unknown): object {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body;
  throw new BridgeError('ERR_HANDLE_FORM', 'the body: expected a map');
}
