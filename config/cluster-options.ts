/**
 * Options under `saltbridge: cluster:`. A cluster is a group of masters that share a store on NATS
 * JetStream.
 */

import type { Static } from 'typebox';
import { ConfigError } from './config-error.ts';
import {
  absolutePath,
  type GivenSection,
  integer,
  list,
  oneOf,
  optional,
  section,
  text,
  textWhere,
} from './schema.ts';

const natsAddress = textWhere(
  (value) => /^(nats|tls):\/\/[^\s/@]+$/.test(value),
  'an address such as nats://10.0.0.1:4222 or tls://nats.example:4222',
);

export const clusterOptions = section(
  {
    name: textWhere(
      (value) => /^[A-Za-z0-9_-]{1,64}$/.test(value),
      'a name of 1 to 64 letters, digits, "-" and "_"',
      { description: 'Name of the cluster, the same for all members.' },
    ),
    nats: list(natsAddress, { description: 'Addresses of the NATS servers.' }),
    member: optional(
      textWhere(
        (value) => /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(value),
        'a name of 1 to 128 letters, digits, ".", "-" and "_"',
        { description: 'Name of this master in the cluster. Default: the host name.' },
      ),
    ),
    secretFile: optional(
      absolutePath({
        description:
          'File with the shared secret of the members. Default: `cluster.secret` in `state_dir`.',
      }),
    ),
    acknowledge: optional(
      oneOf(['second', 'local', 'majority'], {
        description: 'Where a write is applied before it is acknowledged. Default: `second`.',
      }),
    ),
    whenAlone: optional(
      oneOf(['local', 'refuse'], {
        description:
          'Whether writes continue if too few members are alive. Default: `local` while the cluster has one member, otherwise `refuse`.',
      }),
    ),
    staleAfterSeconds: optional(
      integer(0, 1_000_000, {
        fileName: 'stale_after',
        unit: 'seconds',
        description:
          'Maximum time without the log in which the master serves minions and tokens. 0: no limit. Default: 600.',
      }),
    ),
    replicas: optional(
      integer(1, 5, {
        description: 'Replicas of the log that `cluster init` requests. Default: 3.',
      }),
    ),
    user: optional(text({ description: 'User name at the NATS servers.' })),
    passwordFile: optional(absolutePath({ description: 'File with the password of `user`.' })),
    credentialsFile: optional(
      absolutePath({ description: 'File with a JWT and its key, as `nsc` writes it (`.creds`).' }),
    ),
    nkeyFile: optional(absolutePath({ description: 'File with the seed of an nkey.' })),
    tlsCa: optional(absolutePath({ description: 'CA of the NATS servers, PEM.' })),
    tlsCert: optional(
      absolutePath({ description: 'Client certificate for the NATS servers, PEM.' }),
    ),
    tlsKey: optional(absolutePath({ description: 'Private key of the certificate, PEM.' })),
  },
  { expected: 'a map with name, nats and the other options in docs/cluster.md', check },
);

/** Membership of this master in a cluster; see docs/cluster.md. */
export type ClusterOptions = Static<typeof clusterOptions>;

function check({ origin, values }: GivenSection): readonly ConfigError[] {
  const { nats, user, credentialsFile, nkeyFile } = values;
  const logins = Object.entries({ user, credentials_file: credentialsFile, nkey_file: nkeyFile });
  const given = logins.filter(([, value]) => value !== undefined).map(([name]) => name);
  const problems = [
    ...(Array.isArray(nats) && nats.length === 0 ? ['nats must be set'] : []),
    ...(given.length > 1
      ? [`${given.join(' and ')} exclude each other: set only one of them`]
      : []),
  ];
  return problems.map((problem) => new ConfigError('ERR_OPTION_TYPE', origin, problem));
}
