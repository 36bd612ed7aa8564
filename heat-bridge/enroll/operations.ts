/** What routes of enrolments take and give. */
import type { TSchema } from 'typebox';
import Type from '#typebox';
import { described, type Operation } from '../http/operation.ts';
import { serviceEnrolRequest } from './schemas.ts';

const text: TSchema = Type.String();
const time: TSchema = Type.Integer();
const oneOf = (...names: readonly string[]): TSchema =>
  Type.Union(names.map((name) => Type.Literal(name)));

const EnrolmentAnswer = Type.Object({
  number: text,
  id: text,
  project: text,
  instance: Type.Optional(text),
  address: Type.Optional(text),
  by: oneOf('claim', 'keys', 'grain', 'import'),
  state: oneOf('open', 'accepted', 'signed-in', 'failed', 'retired'),
  fingerprint: Type.Optional(text),
  protocol: Type.Integer(),
  createdAt: time,
  ticketExpiresAt: Type.Optional(time),
  deadline: Type.Optional(time),
  keyExpiresAt: Type.Optional(time),
  reason: Type.Optional(text),
});

/** Of each route for services, what it is. */
export const serviceOperations: Readonly<
  Record<'create' | 'show' | 'retire', { readonly openapi: Operation }>
> = {
  create: described({
    summary: 'Begins an enrolment: a ticket, and user-data for the machine',
    body: serviceEnrolRequest,
    answer: Type.Object({ enrolment: EnrolmentAnswer, ticket: text, userData: text }),
  }),
  show: described({ summary: 'An enrolment', answer: EnrolmentAnswer }),
  retire: described({
    summary: 'Ends all that the machine of an enrolment has',
    answer: Type.Object({}),
  }),
};
