/**
 * HTTP routes of data spaces, for services. A data space belongs to the service that registers it.
 */

import type { FastifyInstance } from 'fastify';
import Type from 'typebox';
import { addRegistrationRoutes } from '#heat-bridge';
import type { AuditRequester, ExtensionHost, HttpServerContext } from '#master';
import type { DataApi } from './data-api.ts';
import { DataSpaceSchema, minionsOfSpace, parseDataSpace, SpaceInfoSchema } from './data-spaces.ts';

const DetailsSchema = Type.Object({
  ...SpaceInfoSchema.properties,
  values: Type.Array(
    Type.Object({
      key: Type.String(),
      writer: Type.String(),
      readers: Type.Array(Type.String()),
      secret: Type.Boolean(),
      versioned: Type.Boolean(),
      bytes: Type.Optional(Type.Integer()),
    }),
  ),
});

export interface DataRoutesDeps {
  readonly host: Pick<ExtensionHost, 'decide' | 'holdToken'>;
  readonly keysPerStack: number;
  /** Returns the API for a requester. Audit records name this requester. */
  readonly as: (requester: AuditRequester) => DataApi;
}

/** Adds the HTTP routes that manage data spaces. */
export function addDataRoutes(
  app: FastifyInstance,
  server: HttpServerContext,
  { host, keysPerStack, as }: DataRoutesDeps,
): void {
  addRegistrationRoutes(app, server, host, {
    collection: 'data',
    key: 'name',
    right: 'bridge.data.add',
    rule: 'own-data',
    formError: 'ERR_DATA_FORM',
    bodyLimit: 4_194_304,
    summaries: {
      add: 'Registers a data space with the roles of a stack and their minions',
      replace: 'Replaces the data space with this name; its values stay',
      list: "Lists the caller's data spaces",
      show: "Returns one of the caller's data spaces, with the keys but not the content of its values",
      remove: 'Removes a data space and its values',
    },
    body: DataSpaceSchema,
    info: SpaceInfoSchema,
    details: DetailsSchema,
    read: async (given) => {
      const registration = await parseDataSpace(given, keysPerStack);
      return { registration, minions: minionsOfSpace(registration) };
    },
    as,
  });
}
