/** Schemas of the routes of handles and the outbox. */

import type { FastifySchema } from 'fastify';
import Type, { type TSchema } from 'typebox';
import { describeRoute } from '../http/route-schema.ts';
import { handleForms } from '../transports/transports.ts';
import { RegistrationSchema, ReplacementSchema } from './handles.ts';

const text: TSchema = Type.String();
const texts: TSchema = Type.Array(text);
const count: TSchema = Type.Integer();
/** Selects one of several handles with the same alias. */
const ofStack = { stack: Type.Optional(text) };
const literalUnion = (...names: readonly string[]): TSchema =>
  Type.Union(names.map((name) => Type.Literal(name)));

const HandleSchema = Type.Object({
  alias: text,
  id: text,
  transport: Type.String({ description: handleForms }),
  origin: text,
  isListed: Type.Boolean(),
  minions: texts,
  globs: Type.Optional(texts),
  nodegroups: Type.Optional(texts),
  projects: Type.Optional(texts),
  members: texts,
  emptyIsSuccess: Type.Boolean(),
  stack: text,
  owner: Type.Optional(text),
  registeredAt: count,
  expiresAt: count,
});
const EntriesSchema = Type.Array(
  Type.Object({
    id: text,
    alias: text,
    minion: text,
    member: Type.Optional(text),
    stack: Type.Optional(text),
    owner: Type.Optional(text),
    status: text,
    state: literalUnion('dead', 'held', 'sending', 'waiting'),
    acceptedAt: count,
    failures: count,
    reason: Type.Optional(text),
  }),
);

/** Of each route, what it is. */
export const signalRouteSchemas: Readonly<
  Record<
    'add' | 'replace' | 'list' | 'show' | 'remove' | 'outbox' | 'drop' | 'retry',
    FastifySchema
  >
> = {
  add: describeRoute({
    summary: 'Registers a handle of Heat, or a webhook; it is of whoever asks',
    body: RegistrationSchema,
    answer: HandleSchema,
  }),
  replace: describeRoute({
    summary: 'Registers a handle in the place of one of this alias',
    body: ReplacementSchema,
    answer: HandleSchema,
  }),
  list: describeRoute({ summary: "The caller's handles", answer: Type.Array(HandleSchema) }),
  show: describeRoute({
    summary: "A handle of the caller's",
    query: ofStack,
    answer: HandleSchema,
  }),
  remove: describeRoute({
    summary: 'Forgets a handle and its secrets',
    query: ofStack,
    answer: HandleSchema,
  }),
  outbox: describeRoute({
    summary: 'Signals of a handle that are not delivered',
    answer: EntriesSchema,
  }),
  drop: describeRoute({ summary: 'Forgets the signals of a handle', answer: EntriesSchema }),
  retry: describeRoute({
    summary: 'Tries the signals that were given up again',
    answer: EntriesSchema,
  }),
};
