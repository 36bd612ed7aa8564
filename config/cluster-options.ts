/** `saltbridge: cluster:`, the masters that share a store on NATS JetStream. */

import { ConfigError } from './config-error.ts';
import {
  absolutePath,
  explainSection,
  integer,
  listOf,
  type OptionKind,
  oneOf,
  readSection,
  type SectionTable,
  type Setting,
  text,
  textList,
} from './option-kinds.ts';

/** How this master takes part in a cluster; docs/cluster.md describes it. */
export interface ClusterOptions {
  /** `name`: of the cluster, the same for all members. */
  readonly name: string;
  /** `nats`: addresses of the NATS servers, such as `nats://10.0.0.1:4222`. */
  readonly nats: readonly string[];
  /** `member`: name of this master in the cluster. Default: the name of the host. */
  readonly member?: string;
  /** `secret_file`: what the members share. Default: `cluster.secret` in `state_dir`. */
  readonly secretFile?: string;
  /** `acknowledge`: where a write must be applied before it is acknowledged. Default `second`. */
  readonly acknowledge?: 'second' | 'local' | 'majority';
  /**
   * `when_alone`: whether writes go on where too few members are alive. Default: `local` while the
   * cluster has one member, `refuse` otherwise.
   */
  readonly whenAlone?: 'local' | 'refuse';
  /**
   * `stale_after`: for how many seconds a master that is cut off from the others serves minions and
   * tokens from what it last knew; 0: for ever. Default 600.
   */
  readonly staleAfterSeconds?: number;
  /** `replicas`: copies of the log that `cluster init` asks for. Default 3. */
  readonly replicas?: number;
  /** `user`: at the NATS servers. */
  readonly user?: string;
  /** `password_file`: has the password of `user`. */
  readonly passwordFile?: string;
  /** `credentials_file`: a JWT and its key, as `nsc` writes them (`.creds`). */
  readonly credentialsFile?: string;
  /** `nkey_file`: the seed of an nkey. */
  readonly nkeyFile?: string;
  /** `tls_ca`, `tls_cert`, `tls_key`: PEM files for connections to the NATS servers. */
  readonly tlsCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

const clusterName: OptionKind<string> = {
  expected: 'a name of 1 to 64 letters, digits, "-" and "_"',
  isPath: false,
  parse: (value) =>
    typeof value === 'string' && /^[A-Za-z0-9_-]{1,64}$/.test(value) ? value : undefined,
};

const memberName: OptionKind<string> = {
  expected: 'a name of 1 to 128 letters, digits, ".", "-" and "_"',
  isPath: false,
  parse: (value) =>
    typeof value === 'string' && /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(value)
      ? value
      : undefined,
};

const natsAddress: OptionKind<string> = {
  ...text,
  expected: 'an address such as nats://10.0.0.1:4222 or tls://nats.example:4222',
  parse: (value) =>
    typeof value === 'string' && /^(nats|tls):\/\/[^\s/@]+$/.test(value) ? value : undefined,
};

const clusterTable: SectionTable<ClusterOptions> = {
  name: { name: 'name', kind: clusterName },
  nats: { name: 'nats', kind: listOf(textList, natsAddress) },
  member: { name: 'member', kind: memberName },
  secretFile: { name: 'secret_file', kind: absolutePath },
  acknowledge: { name: 'acknowledge', kind: oneOf(['second', 'local', 'majority']) },
  whenAlone: { name: 'when_alone', kind: oneOf(['local', 'refuse']) },
  staleAfterSeconds: { name: 'stale_after', kind: integer(0, 1_000_000) },
  replicas: { name: 'replicas', kind: integer(1, 5) },
  user: { name: 'user', kind: text },
  passwordFile: { name: 'password_file', kind: absolutePath },
  credentialsFile: { name: 'credentials_file', kind: absolutePath },
  nkeyFile: { name: 'nkey_file', kind: absolutePath },
  tlsCa: { name: 'tls_ca', kind: absolutePath },
  tlsCert: { name: 'tls_cert', kind: absolutePath },
  tlsKey: { name: 'tls_key', kind: absolutePath },
};

/** A map. */
export const clusterOptions: OptionKind<ClusterOptions> = {
  expected: 'a map with name, nats, and what else docs/cluster.md lists',
  isPath: false,
  parse: (value) => {
    const section = readSection(clusterTable, value);
    if (section === undefined) return undefined;
    const { name, nats = [] } = section;
    if (name === undefined || nats.length === 0 || loginsOf(section).length > 1) return undefined;
    return { ...section, name, nats };
  },
  explain: (setting) =>
    explainSection(clusterTable, setting, ['name', 'nats']) ??
    explainServers(setting) ??
    explainLogins(setting),
};

/** Ways to log in at the NATS servers that are set. */
function loginsOf({ user, credentialsFile, nkeyFile }: Partial<ClusterOptions>): string[] {
  const given = { user, credentials_file: credentialsFile, nkey_file: nkeyFile };
  return Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [name]));
}

function explainLogins({ origin, value }: Setting): ConfigError | undefined {
  const logins = loginsOf(readSection(clusterTable, value) ?? {});
  if (logins.length < 2) return undefined;
  const problem = `${logins.join(' and ')} are set, expected one of them`;
  return new ConfigError('ERR_OPTION_TYPE', origin, problem);
}

/** A list that is there, and empty. */
function explainServers({ origin, value }: Setting): ConfigError | undefined {
  const isEmpty = readSection(clusterTable, value)?.nats?.length === 0;
  return isEmpty ? new ConfigError('ERR_OPTION_TYPE', origin, 'nats must be set') : undefined;
}
