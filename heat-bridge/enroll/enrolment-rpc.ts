/** RPC methods of enrolments on the local socket, which the command line uses. */

import Type from 'typebox';
import { extensionMethod, extensionStream, type RpcTable } from '#master';
import { EnrolRequestSchema, KnownMinionSchema } from './enrolment.ts';
import type { EnrollApi } from './enrolment-service.ts';

const strictParameters = { additionalProperties: false };
const NumberParameters = Type.Object({ number: Type.String() }, strictParameters);
const MachineParameters = Type.Union([
  Type.Object({ id: Type.String({ minLength: 1 }) }, strictParameters),
  Type.Object({ instance: Type.String({ minLength: 1 }) }, strictParameters),
  Type.Object({ number: Type.String({ minLength: 1 }) }, strictParameters),
]);

export function enrollMethods(api: EnrollApi): RpcTable {
  return {
    enroll: {
      create: extensionMethod({
        parameters: EnrolRequestSchema,
        call: (_, request) => api.create(request),
        audit: { action: 'enroll.created', writtenBy: 'enroll' },
      }),
      import: extensionMethod({
        parameters: Type.Object({ minions: Type.Array(KnownMinionSchema) }, strictParameters),
        call: (_, { minions }) => api.import(minions),
        audit: { action: 'enroll.accepted', writtenBy: 'enroll' },
      }),
      list: extensionMethod({
        parameters: Type.Object({}, strictParameters),
        call: () => api.list(),
      }),
      show: extensionMethod({
        parameters: NumberParameters,
        call: (_, { number }) => api.show(number),
      }),
      follow: extensionStream({
        parameters: NumberParameters,
        call: (_, { number }, signal) => api.follow(number, signal),
      }),
      retire: extensionMethod({
        parameters: MachineParameters,
        call: (_, it) => api.retire(it),
        audit: { action: 'enroll.retired', writtenBy: 'enroll' },
      }),
    },
  };
}
