/** What routes of handles and of the outbox take and give. */
import type { TSchema } from 'typebox';
import Type from '#typebox';
import { described, type Operation } from '../http/operation.ts';
import { registration, replacement } from './handle.ts';

const text: TSchema = Type.String();
const texts: TSchema = Type.Array(text);
const count: TSchema = Type.Integer();
const oneOf = (...names: readonly string[]): TSchema =>
  Type.Union(names.map((name) => Type.Literal(name)));

const Handle = Type.Object({
  alias: text,
  id: text,
  transport: text,
  origin: text,
  isListed: Type.Boolean(),
  minions: texts,
  members: texts,
  stack: text,
  owner: Type.Optional(text),
  registeredAt: count,
  expiresAt: count,
});
const Entries = Type.Array(
  Type.Object({
    id: text,
    alias: text,
    minion: text,
    member: Type.Optional(text),
    stack: Type.Optional(text),
    owner: Type.Optional(text),
    status: text,
    state: oneOf('dead', 'held', 'sending', 'waiting'),
    acceptedAt: count,
    failures: count,
    reason: Type.Optional(text),
  }),
);

/** Of each route, what it is. */
export const signalOperations: Readonly<
  Record<
    'add' | 'replace' | 'list' | 'show' | 'remove' | 'outbox' | 'drop' | 'retry',
    { readonly openapi: Operation }
  >
> = {
  add: described({
    summary: 'Registers a handle of Heat, or a webhook; it is of whoever asks',
    body: registration,
    answer: Handle,
  }),
  replace: described({
    summary: 'Registers a handle in the place of one of this alias',
    body: replacement,
    answer: Handle,
  }),
  list: described({ summary: "The caller's handles", answer: Type.Array(Handle) }),
  show: described({ summary: "A handle of the caller's", answer: Handle }),
  remove: described({ summary: 'Forgets a handle and its secrets', answer: Handle }),
  outbox: described({ summary: 'Signals of a handle that are not delivered', answer: Entries }),
  drop: described({ summary: 'Forgets the signals of a handle', answer: Entries }),
  retry: described({ summary: 'Tries the signals that were given up again', answer: Entries }),
};
