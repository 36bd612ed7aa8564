/** Data spaces over HTTP, for services: a space is of whoever registers it. */

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
  /** The interface for somebody, in whose name audit records are. */
  readonly as: (requester: AuditRequester) => DataApi;
}

/** See {@link addRegistrationRoutes}. */
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
      add: 'Registers a data space: the roles of a stack, and their minions',
      replace: 'Registers a data space in the place of one of this name, whose values stay',
      list: "The caller's data spaces",
      show: "A data space of the caller's: which values are written, without the values",
      remove: 'Forgets a data space and its values',
    },
    body: DataSpaceSchema,
    info: SpaceInfoSchema,
    details: DetailsSchema,
    read: (given) => {
      const registration = parseDataSpace(given, keysPerStack);
      return { registration, minions: minionsOfSpace(registration) };
    },
    as,
  });
}
