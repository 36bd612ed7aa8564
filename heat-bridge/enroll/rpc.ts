/** Enrolment at the local socket, for the command line. */
import Type from '#typebox';
import { extensionMethod, type RpcMethod } from '../../master/index.ts';
import type { EnrollApi } from './api.ts';
import { enrolRequest, knownMinion } from './schemas.ts';

const strict = { additionalProperties: false };
const byNumber = Type.Object({ number: Type.String() }, strict);
const machine = Type.Union([
  Type.Object({ id: Type.String({ minLength: 1 }) }, strict),
  Type.Object({ instance: Type.String({ minLength: 1 }) }, strict),
  Type.Object({ number: Type.String({ minLength: 1 }) }, strict),
]);

export function enrollMethods(api: EnrollApi): ReadonlyMap<string, RpcMethod> {
  return new Map([
    [
      'enroll.create',
      extensionMethod({ parameters: enrolRequest, call: (_, request) => api.create(request) }),
    ],
    [
      'enroll.import',
      extensionMethod({
        parameters: Type.Object({ minions: Type.Array(knownMinion) }, strict),
        call: (_, { minions }) => api.import(minions),
      }),
    ],
    [
      'enroll.list',
      extensionMethod({ parameters: Type.Object({}, strict), call: () => api.list() }),
    ],
    [
      'enroll.show',
      extensionMethod({ parameters: byNumber, call: (_, { number }) => api.show(number) }),
    ],
    [
      'enroll.follow',
      extensionMethod({
        parameters: byNumber,
        call: (_, { number }, signal) => api.follow(number, signal),
      }),
    ],
    ['enroll.retire', extensionMethod({ parameters: machine, call: (_, it) => api.retire(it) })],
  ]);
}
