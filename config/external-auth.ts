/** Settings of the authentication back ends: the keys of `external_auth` that begin with `^`. */

import { type ConfigWarning, placeOf } from './config-error.ts';
import type { MasterConfig } from './options.ts';
import { isSettings, type Settings } from './settings.ts';

/** Settings of the back end `file` [salt/auth/file.py]. */
export interface FileBackendSettings {
  readonly kind: 'file';
  readonly filename: string;
  readonly filetype: 'text' | 'htpasswd' | 'htdigest';
  /** Format of the passwords in a `text` file: `plaintext` or the name of a digest. */
  readonly hashtype: string;
  readonly fieldSeparator: string;
  /** Number of the field that contains the user name. The first field has number 1. */
  readonly usernameField: number;
  readonly passwordField: number;
  /** Realm of an `htdigest` file. */
  readonly realm: string;
}

/**
 * Settings of the back end `jwt`, which accepts tokens of an identity provider. Salt does not have
 * it.
 */
export interface JwtBackendSettings {
  readonly kind: 'jwt';
  readonly issuer: string;
  readonly audience: string;
  readonly jwksUri: string;
  readonly algorithms: readonly string[];
  readonly userClaim: string;
  readonly groupsClaim: string;
}

/** Settings of one back end. */
export type BackendSettings =
  | FileBackendSettings
  | JwtBackendSettings
  | { readonly kind: 'keystone'; readonly domain: string }
  | { readonly kind: 'auto' | 'ldap' | 'pam' | 'sharedsecret' };

/** Settings of a back end, or the reason why they are unusable. */
export type ReadBackend =
  | { readonly settings: BackendSettings }
  /** Reason why no user can log in with this back end. */
  | { readonly problem: string };

type ReadConfig = Pick<MasterConfig, 'confirmAutoEauth' | 'eauth' | 'externalAuth'>;

/** Supported digests of passwords. Weak digests are included, because existing files use them. */
const hashtypes: ReadonlySet<string> = new Set([
  'plaintext',
  'md5',
  'sha1',
  'sha224',
  'sha256',
  'sha384',
  'sha512',
]);

/**
 * Signature algorithms that are accepted. With a symmetric algorithm or `none`, anyone could create
 * tokens from public data.
 */
const algorithms: ReadonlySet<string> = new Set([
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
]);

/**
 * Reads the settings of a back end under `external_auth`. Accepts values of any type, and reports
 * wrong ones.
 */
export function readBackend(name: string, config: ReadConfig): ReadBackend {
  const options = optionsOf(config.externalAuth[name]);
  const read = Object.hasOwn(readers, name) ? readers[name] : undefined;
  if (read === undefined) {
    return { problem: `is not supported; supported back ends: ${Object.keys(readers).join(', ')}` };
  }
  const known = knownOptions[name] ?? [];
  const other = [...options.keys()].find((option) => !known.includes(option));
  if (other !== undefined) return { problem: `unknown option ^${other}` };
  return read(options, config);
}

type Options = ReadonlyMap<string, unknown>;

const knownOptions: Readonly<Record<string, readonly string[]>> = {
  file: [
    'filename',
    'filetype',
    'hashtype',
    'field_separator',
    'username_field',
    'password_field',
    'realm',
  ],
  jwt: ['issuer', 'audience', 'jwks_uri', 'algorithms', 'user_claim', 'groups_claim'],
  keystone: ['domain'],
};

const readers: Readonly<Record<string, (options: Options, config: ReadConfig) => ReadBackend>> = {
  auto: (_, { confirmAutoEauth }) =>
    confirmAutoEauth
      ? { settings: { kind: 'auto' } }
      : { problem: 'accepts every user; to confirm this, set saltbridge: confirm_auto_eauth' },
  file: readFile,
  jwt: readJwt,
  keystone: (options) => {
    const domain = textOf(options, 'domain', 'Default');
    if (domain === undefined) return { problem: '^domain: expected text' };
    return { settings: { kind: 'keystone', domain } };
  },
  ldap: (_, { eauth }) => {
    if (eauth.ldapByGroupOnly) {
      return {
        problem:
          'auth_by_group_membership_only is not supported, because no password would be checked',
      };
    }
    if (eauth.ldapStarttls && eauth.ldapTls) {
      return { problem: 'auth.ldap.starttls and auth.ldap.tls exclude each other' };
    }
    if (eauth.ldapBinddn === null && !eauth.ldapAnonymous) {
      return { problem: 'auth.ldap.binddn or auth.ldap.anonymous must be set to find users' };
    }
    const searches = eauth.ldapAnonymous || eauth.ldapBindpw !== null;
    if (searches && eauth.ldapFilter?.includes('{{') !== true) {
      return { problem: 'auth.ldap.filter must contain the user name: (uid={{ username }})' };
    }
    const unbalanced = [
      ['auth.ldap.filter', eauth.ldapFilter],
      ['auth.ldap.group_filter', eauth.ldapGroupFilter],
    ].find(([, filter]) => !isBalanced(filter ?? ''));
    if (unbalanced !== undefined) return { problem: `${unbalanced[0]} has unpaired parentheses` };
    if (!searches && eauth.ldapBinddn?.includes('{{') !== true) {
      return {
        problem: 'auth.ldap.binddn must contain the user name if auth.ldap.bindpw is not set',
      };
    }
    return { settings: { kind: 'ldap' } };
  },
  pam: () => ({ settings: { kind: 'pam' } }),
  sharedsecret: (_, { eauth: { sharedsecret } }) =>
    sharedsecret === null
      ? { problem: '`sharedsecret` is not set' }
      : { settings: { kind: 'sharedsecret' } },
};

/** Names of the supported back ends, as under `external_auth`. */
export const servedEauths: readonly string[] = Object.keys(readers).sort();

function readFile(options: Options): ReadBackend {
  const filename = textOf(options, 'filename', undefined);
  if (filename === undefined || !filename.startsWith('/')) {
    return { problem: '^filename: expected an absolute path' };
  }
  const filetype = (['text', 'htpasswd', 'htdigest'] as const).find(
    (type) => type === (options.get('filetype') ?? 'text'),
  );
  if (filetype === undefined) return { problem: '^filetype: expected text, htpasswd or htdigest' };
  const hashtype = textOf(options, 'hashtype', 'plaintext') ?? '';
  if (!hashtypes.has(hashtype)) {
    return { problem: `^hashtype: expected one of ${[...hashtypes].join(', ')}` };
  }
  const fieldSeparator = textOf(options, 'field_separator', ':');
  const usernameField = fieldOf(options, 'username_field', 1);
  const passwordField = fieldOf(options, 'password_field', 2);
  if (fieldSeparator === undefined) return { problem: '^field_separator: expected text' };
  if (usernameField === undefined || passwordField === undefined) {
    return { problem: '^username_field, ^password_field: expected numbers, starting at 1' };
  }
  const realm = textOf(options, 'realm', '') ?? '';
  if (filetype === 'htdigest' && realm === '')
    return { problem: '^realm must be set for htdigest' };
  const fields = { hashtype, fieldSeparator, usernameField, passwordField };
  return { settings: { kind: 'file', filename, filetype, realm, ...fields } };
}

function readJwt(options: Options): ReadBackend {
  const issuer = textOf(options, 'issuer', undefined);
  const audience = textOf(options, 'audience', undefined);
  const jwksUri = textOf(options, 'jwks_uri', undefined);
  if (issuer === undefined || audience === undefined || jwksUri === undefined) {
    return { problem: '^issuer, ^audience and ^jwks_uri must be set' };
  }
  if (!isSafeUrl(jwksUri)) return { problem: '^jwks_uri: expected an https address' };
  const given = options.get('algorithms') ?? ['RS256', 'ES256'];
  const names: unknown[] = Array.isArray(given) ? given : [given];
  const chosen = names
    .filter((name) => typeof name === 'string')
    .filter((it) => algorithms.has(it));
  if (chosen.length === 0 || chosen.length < names.length) {
    return { problem: `^algorithms: expected some of ${[...algorithms].join(', ')}` };
  }
  const userClaim = textOf(options, 'user_claim', 'sub') ?? 'sub';
  const groupsClaim = textOf(options, 'groups_claim', 'groups') ?? 'groups';
  const claims = { userClaim, groupsClaim };
  return { settings: { kind: 'jwt', issuer, audience, jwksUri, algorithms: chosen, ...claims } };
}

/**
 * Whether the parentheses of an LDAP filter are paired. Values contain parentheses in the form
 * `\\28` and `\\29`.
 */
function isBalanced(filter: string): boolean {
  let depth = 0;
  for (const sign of filter.replace(/[^()]/g, '')) {
    depth += sign === '(' ? 1 : -1;
    if (depth < 0) return false;
  }
  return depth === 0;
}

/**
 * Whether keys can be fetched safely from this address: over https, or over http from this host.
 */
function isSafeUrl(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'https:') return true;
  return url?.protocol === 'http:' && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname);
}

function textOf(options: Options, name: string, fallback: string | undefined): string | undefined {
  const value = options.get(name) ?? fallback;
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function fieldOf(options: Options, name: string, fallback: number): number | undefined {
  const field = Number(options.get(name) ?? fallback);
  return Number.isInteger(field) && field >= 1 && field <= 100 ? field : undefined;
}

function optionsOf(users: unknown): Options {
  if (typeof users !== 'object' || users === null) return new Map();
  return new Map(
    Object.entries(users).flatMap(([key, value]) =>
      key.startsWith('^') ? [[key.slice(1), value]] : [],
    ),
  );
}

export function warnOfBackends(config: MasterConfig, settings: Settings): ConfigWarning[] {
  const setting = settings.get('external_auth');
  const entries = isSettings(setting?.value) ? setting.value : undefined;
  return Object.keys(config.externalAuth).flatMap((name) => {
    const read = readBackend(name, config);
    if (!('problem' in read)) return [];
    const origin = entries?.get(name)?.origin ?? { file: 'options', line: 0, key: 'external_auth' };
    const message = `${placeOf(origin)}: external_auth: ${name}: ${read.problem}; no user can log in with it`;
    return [{ kind: 'no-login', ...origin, message }];
  });
}
