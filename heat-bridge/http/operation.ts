/** What routes of the bridge say of themselves, for servers that describe theirs (OpenAPI). */
import type { FastifyContextConfig } from 'fastify';
import type { TSchema } from 'typebox';
import Type from '#typebox';

/** As salt-api reads it from the `config` of a route. */
export type Operation = NonNullable<FastifyContextConfig['openapi']>;

/** What every refusal of the bridge is. */
const refusal: Readonly<Record<string, TSchema>> = {
  'application/json': Type.Object({
    error: Type.Object({ code: Type.String(), message: Type.String() }),
  }),
};

/** The `config` of a route. @param operation - default access: a session, or a token of Keystone's */
export function described(
  operation: Omit<Operation, 'access' | 'refusal'> & Partial<Pick<Operation, 'access'>>,
): { readonly openapi: Operation } {
  return { openapi: { access: 'session', refusal, ...operation } };
}
