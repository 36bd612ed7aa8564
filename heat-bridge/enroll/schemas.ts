/** The shapes of what is asked for, from outside. */
import type { TSchema, TUnsafe } from 'typebox';
import Type from '#typebox';
import type { KnownMinion } from './import.ts';
import type { EnrolRequest } from './request.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 255 });
const Protocol = Type.Integer({ minimum: 0, maximum: 3 });
const Time = Type.Integer({ minimum: 0 });
const Values = Type.Record(Type.String(), Type.Unknown());
const oneOf = (...names: readonly string[]): TSchema =>
  Type.Union(names.map((name) => Type.Literal(name)));

const request = {
  id: Text,
  instance: Type.Optional(Text),
  address: Type.Optional(Text),
  by: Type.Optional(oneOf('claim', 'keys', 'grain')),
  lifetime: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
  expires: Type.Optional(Time),
  protocol: Type.Optional(Protocol),
  format: Type.Optional(oneOf('cloud-init', 'shell', 'cloudbase-init', 'none')),
  configDir: Type.Optional(Type.String({ pattern: '^/', maxLength: 255 })),
  beside: Type.Optional(Type.String({ maxLength: 262_144 })),
  config: Type.Optional(Values),
  grains: Type.Optional(Values),
};

/** Checked against the schema below; what is no value of YAML is not JSON either. */
export const enrolRequest: TUnsafe<EnrolRequest> = Type.Unsafe<EnrolRequest>(
  Type.Object({ ...request, project: Text }, strict),
);

/** The same of a service: the token that it shows may say which project it is. */
export type ServiceEnrolRequest = Omit<EnrolRequest, 'project'> & { readonly project?: string };

/** See {@link enrolRequest}. */
export const serviceEnrolRequest: TUnsafe<ServiceEnrolRequest> = Type.Unsafe<ServiceEnrolRequest>(
  Type.Object({ ...request, project: Type.Optional(Text) }, strict),
);

export const knownMinion: TUnsafe<KnownMinion> = Type.Unsafe<KnownMinion>(
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
    strict,
  ),
);
