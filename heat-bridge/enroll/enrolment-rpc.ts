/** Enrolment at the local socket, for the command line. */

import type { TSchema, TUnsafe } from 'typebox';
import Type from 'typebox';
import { extensionMethod, extensionStream, type RpcTable } from '#master';
import type { EnrollApi } from './enroll-api.ts';
import type { EnrolRequest } from './enrolment.ts';
import type { KnownMinion } from './import-minions.ts';

const strictObject = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 255 });
const Protocol = Type.Integer({ minimum: 0, maximum: 3 });
const Time = Type.Integer({ minimum: 0 });
const Lifetime = Type.Integer({ minimum: 1, maximum: 86_400 });
const Values = Type.Record(Type.String(), Type.Unknown());
const oneOf = (...names: readonly string[]): TSchema =>
  Type.Union(names.map((name) => Type.Literal(name)));

const enrolRequestFields = {
  id: Text,
  instance: Type.Optional(Text),
  address: Type.Optional(Text),
  agent: Type.Optional(Type.Boolean()),
  masters: Type.Optional(Type.Array(Text, { minItems: 1, maxItems: 16 })),
  by: Type.Optional(oneOf('claim', 'keys', 'grain')),
  expires: Type.Optional(Time),
  protocol: Type.Optional(Protocol),
  format: Type.Optional(oneOf('cloud-init', 'shell', 'cloudbase-init', 'none')),
  configDir: Type.Optional(Type.String({ pattern: '^/', maxLength: 255 })),
  beside: Type.Optional(Type.String({ maxLength: 262_144 })),
  config: Type.Optional(Values),
  grains: Type.Optional(Values),
};

/** Checked against the schema below; what is no value of YAML is not JSON either. */
const EnrolRequestSchema: TUnsafe<EnrolRequest> = Type.Unsafe<EnrolRequest>(
  Type.Object(
    { ...enrolRequestFields, lifetimeSeconds: Type.Optional(Lifetime), project: Text },
    strictObject,
  ),
);

/** The body of a service's request: the token that it shows may say which project it is. */
export type ServiceEnrolRequest = Omit<EnrolRequest, 'lifetimeSeconds' | 'project'> & {
  /** {@link EnrolRequest.lifetimeSeconds} */
  readonly lifetime?: number;
  readonly project?: string;
};

/** See {@link EnrolRequestSchema}. */
export const ServiceEnrolRequestSchema: TUnsafe<ServiceEnrolRequest> =
  Type.Unsafe<ServiceEnrolRequest>(
    Type.Object(
      {
        ...enrolRequestFields,
        lifetime: Type.Optional(Lifetime),
        project: Type.Optional(Text),
      },
      strictObject,
    ),
  );

const KnownMinionSchema: TUnsafe<KnownMinion> = Type.Unsafe<KnownMinion>(
  Type.Object(
    {
      id: Text,
      project: Text,
      instance: Type.Optional(Text),
      publicKey: Type.Optional(Type.String({ maxLength: 16_384 })),
      fingerprint: Type.Optional(Type.String({ maxLength: 128 })),
      expires: Type.Optional(Time),
      protocol: Type.Optional(Protocol),
    },
    strictObject,
  ),
);

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
