/**
 * HTTPS routes for guests, authenticated by the token of their enrolment or by a metadata agent.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema } from 'fastify';
import type { TSchema } from 'typebox';
import Type from 'typebox';
import { BridgeError, describeRoute } from '#heat-bridge';
import { AuthorizationError } from '#master';
import { PeersSchema } from '../peers/peers.ts';
import { textOf } from '../request-body.ts';
import type { GuestIdentifier } from './guest-identifier.ts';
import { type GuestRequests, guestRunners } from './guest-requests.ts';
import type { Guest } from './guest-tokens.ts';

const textTypes = ['text/plain'];
const text: TSchema = Type.String();
const receiptSchema = Type.Object({ key: text, version: Type.Integer() });

/** Schemas of the HTTPS routes for guests, by operation. */
const routes: Readonly<Record<'get' | 'peers' | 'program' | 'put', FastifySchema>> = {
  get: describeRoute({
    summary:
      "Returns a value that the machine's role reads, as text; X-Saltbridge-Version has its version",
    query: { key: text, wait: Type.Optional(Type.Number()), after: Type.Optional(Type.Integer()) },
    answer: text,
    answerTypes: textTypes,
  }),
  put: describeRoute({
    summary: "Writes a value of the machine's role",
    query: { key: text },
    body: text,
    bodyTypes: textTypes,
    answer: receiptSchema,
  }),
  peers: describeRoute({
    summary: 'Lists the peers of the machine: instances of its project',
    query: { together: Type.Optional(Type.Boolean()) },
    answer: PeersSchema,
  }),
  program: describeRoute({
    summary: 'Returns the program saltbridge-data, for machines with a shell',
    answer: text,
    answerTypes: textTypes,
  }),
};

const plainText = 'text/plain; charset=utf-8';
/**
 * Maximum size of a request body, in bytes. It is larger than the maximum size of a value. The
 * handler therefore also receives values that are too large, and its error can state the permitted
 * size.
 */
const bodyLimit = 131_072;

interface DataQuery {
  readonly Querystring: Readonly<Record<string, string>>;
}

export interface GuestRoutesDeps {
  readonly requests: GuestRequests;
  readonly guestOf: GuestIdentifier;
  /** Source text of the program `saltbridge-data`, which guests download. */
  readonly program: string;
}

/**
 * Adds the routes for guests: `GET` and `PUT guest/data?key=KEY`, `GET guest/peers` and `GET
 * guest/saltbridge-data`.
 */
export function addGuestRoutes(
  app: FastifyInstance,
  { requests, guestOf, program }: GuestRoutesDeps,
): void {
  const requirePermitted = (
    { minion }: Guest,
    fun: string,
    kwargs: Readonly<Record<string, string>>,
    isRepeated = false,
  ): void => {
    if (!requests.permits(minion, fun, kwargs, isRepeated)) {
      throw new AuthorizationError(
        `no rule permits this machine's minion to call the runner ${fun}`,
      );
    }
  };
  const permitted = async (
    request: FastifyRequest<DataQuery>,
    fun: string,
    given: (request: FastifyRequest<DataQuery>) => Readonly<Record<string, string>>,
  ): Promise<{
    readonly guest: Guest;
    readonly key: string;
    readonly requirePermission: () => void;
  }> => {
    const guest = await guestOf(request);
    const { key = '' } = request.query;
    // The conditions of rules apply to the same arguments as in a call through the minion.
    const kwargs = { key, ...given(request) };
    requirePermitted(guest, fun, kwargs);
    return { guest, key, requirePermission: () => requirePermitted(guest, fun, kwargs, true) };
  };
  app.get<DataQuery>('/guest/peers', { schema: routes.peers }, async (request) => {
    const guest = await guestOf(request);
    const { together } = request.query;
    requirePermitted(guest, guestRunners.peers, together === undefined ? {} : { together });
    return requests.peers(guest.minion, { together: together === 'true' });
  });
  app.get<DataQuery>(
    '/guest/data',
    { schema: routes.get },
    async (request, reply): Promise<FastifyReply> => {
      const { guest, key, requirePermission } = await permitted(
        request,
        guestRunners.get,
        ({ query: { wait, after } }) => ({
          ...(wait === undefined ? {} : { wait }),
          ...(after === undefined ? {} : { after }),
        }),
      );
      const { wait, after } = request.query;
      const given = {
        key,
        ...(wait === undefined ? {} : { wait: Number(wait) }),
        ...(after === undefined ? {} : { after: Number(after) }),
      };
      const { value, version } = await requests.get(guest.minion, given, true, {
        requirePermission,
      });
      return reply.type(plainText).header('x-saltbridge-version', version).send(value);
    },
  );
  app.put<DataQuery>('/guest/data', { bodyLimit, schema: routes.put }, async (request) => {
    const { guest, key, requirePermission } = await permitted(
      request,
      guestRunners.put,
      ({ body }) => ({ value: textOf(body) }),
    );
    // A body of this type has already been parsed as JSON, so its text is not available.
    if (/json/i.test(request.headers['content-type'] ?? '')) {
      throw new BridgeError('ERR_DATA_VALUE', 'the body must be text/plain, not JSON');
    }
    const given = { key, value: textOf(request.body) };
    return requests.put(guest.minion, given, { requirePermission });
  });
  app.get('/guest/saltbridge-data', { schema: routes.program }, async (request, reply) => {
    await guestOf(request);
    return reply.type(plainText).send(program);
  });
}
