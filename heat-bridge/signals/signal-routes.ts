/** HTTP routes with which services manage handles and the outbox. */

import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import type { ExtensionHost, HttpServerContext } from '#master';
import { addRegistrationRoutes, nameIn } from '../http/registration-routes.ts';
import { describeRoute } from '../http/route-schema.ts';
import { ownerNameOf } from '../owner-name.ts';
import { isForGroups } from './handle-groups.ts';
import { parseHandleRegistration, RegistrationSchema } from './handle-registration.ts';
import { HandleSchema } from './handles.ts';
import type { SignalsModule } from './open-signals.ts';
import { OutboxEntrySchema } from './outbox-entry.ts';
import type { OutboxApi } from './signals-api.ts';

const EntriesSchema = Type.Array(OutboxEntrySchema);

/**
 * Adds the HTTP routes that manage handles. For the outbox, adds `GET` and `DELETE
 * handles/<alias>/outbox`, and `POST handles/<alias>/outbox/retry`.
 */
export function addSignalRoutes(
  app: FastifyInstance,
  server: HttpServerContext,
  host: Pick<ExtensionHost, 'decide' | 'holdToken'>,
  signals: Pick<SignalsModule, 'as'>,
): void {
  const owned = addRegistrationRoutes(app, server, host, {
    collection: 'handles',
    key: 'alias',
    right: 'bridge.handle.add',
    rule: 'own-handle',
    formError: 'ERR_HANDLE_FORM',
    bodyLimit: 1_048_576,
    // `stack` selects one of several handles with the same alias.
    query: { stack: Type.Optional(Type.String()) },
    summaries: {
      add: 'Registers a Heat handle or a webhook; the caller becomes its owner',
      replace: 'Replaces the handle with this alias',
      list: "Lists the caller's handles",
      show: "Returns one of the caller's handles",
      remove: 'Removes a handle and its secrets',
    },
    body: RegistrationSchema,
    info: HandleSchema,
    details: HandleSchema,
    read: (given, subject) => {
      const registration = parseHandleRegistration({ ...given, owner: ownerNameOf(subject) });
      // Members of a group can change, so a rule must permit all minions.
      const minions = isForGroups(registration) ? undefined : registration.minions;
      return { registration, minions };
    },
    as: (requester) => signals.as(requester).handles,
  });
  const addOutboxRoute = (
    method: 'DELETE' | 'GET' | 'POST',
    path: '' | '/retry',
    operation: keyof OutboxApi,
    summary: string,
  ): void => {
    app.route({
      method,
      url: `/handles/:alias/outbox${path}`,
      schema: describeRoute({ summary, answer: EntriesSchema }),
      handler: async (request) => {
        const { api, by, of } = await owned(request);
        // For a handle of another owner, send the same error as for an unknown one.
        const { alias } = await api.show(nameIn(request, 'alias'), of);
        return signals.as(by).outbox[operation]({ alias, owner: of.owner });
      },
    });
  };
  addOutboxRoute(
    'GET',
    '',
    'list',
    'Lists at most 1,000 undelivered signals of a handle: dead letters, then pending signals, the oldest first',
  );
  addOutboxRoute('DELETE', '', 'drop', 'Drops the signals of a handle');
  addOutboxRoute('POST', '/retry', 'retry', 'Retries the dead letters of a handle');
}
