/** HTTP route of execution plans, authorised by the caller's token. */

import type { FastifyInstance, FastifySchema } from 'fastify';
import type { Static } from 'typebox';
import Type from 'typebox';
import {
  createCallerResolver,
  describeRoute,
  ownerNameOf,
  parseBody,
  resolveProject,
  tokenHolderOf,
} from '#heat-bridge';
import type { ExtensionHost, HttpServerContext } from '#master';
import { compileSchema } from '#runtime';
import type { MuranoService } from './open-murano.ts';

const Body = Type.Object(
  {
    /** JSON text, exactly as it was signed. */
    execution_plan: Type.String({ minLength: 2, maxLength: 1_048_576 }),
    /** Signature of the guest's id and `execution_plan`, in base64. */
    signature: Type.Optional(Type.String({ maxLength: 4096 })),
    message_id: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
  },
  { additionalProperties: false },
);
const compiledBody = compileSchema(Body);

const route: FastifySchema = describeRoute({
  summary: "Runs the command for an execution plan's entry point; errors are in the result",
  body: Body,
  answer: Type.Object({
    FormatVersion: Type.String(),
    ID: Type.String(),
    SourceID: Type.String(),
    Action: Type.String(),
    ErrorCode: Type.Integer(),
    Body: Type.Unknown(),
    Time: Type.String(),
  }),
});

const bodyLimit = 2_097_152;

/** Adds the route `POST murano/<guest>`, which runs an execution plan on a guest. */
export function addMuranoRoutes(
  app: FastifyInstance,
  doors: HttpServerContext,
  host: Pick<ExtensionHost, 'decide' | 'holdToken'>,
  murano: MuranoService,
): void {
  const known = createCallerResolver(doors, host);
  app.post<{ Params: { guest: string } }>(
    '/murano/:guest',
    { bodyLimit, schema: route },
    async (request) => {
      const caller = await known(request);
      const { subject, stop } = await tokenHolderOf(request, doors, host);
      stop();
      const given: Static<typeof Body> = parseBody(compiledBody, request.body);
      const { execution_plan: text, signature, message_id: messageId } = given;
      return murano.execute(request.params.guest, {
        text,
        signature: signature === undefined ? undefined : Buffer.from(signature, 'base64'),
        messageId,
        caller: { token: caller.token },
        mayCall: (command) => caller.mayCall(command),
        owner: ownerNameOf(subject),
        project: resolveProject(subject, undefined) ?? defaultProject,
      });
    },
  );
}

/** Project of callers that have no Keystone project. */
const defaultProject = 'default';
